package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

func newRestart(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var r restartRequest
	var task string
	var partitions, processes bool
	c := &cobra.Command{
		Use:   "restart JOB [RANK...]",
		Short: "Restart ranks of a TrainingJob, a task, or all of it",
		Long: `Restart what may well be running: ranks that are named like worker-3, or by their pods; the partitions of these; a
task; or, where nothing is named, the whole job. Their pods are replaced, each on its own node where that is good. With --processes
the programs of all ranks start again in the pods that there are, which takes no more than their own start-up: for a job with spec.supervisor that hangs.

The manager records the request as an incident with the trigger RestartRequested, asks the program for a checkpoint first if the
job says how, and goes up the ladder of the job's last rule if a pod does not come back. Nothing is charged to the budget.

While a rank waits for a node, nothing trains, and a restart of others gains nothing: it needs --force, unless it is of single ranks.

The exit code is 0 once the manager has begun, or with --wait once all ranks are ready again, and 1 where it
refuses, or they do not come back.`,
		Example: `  # Restart one rank
  kubectl lockstep restart llama worker-3 --reason "its data loader hangs"

  # Restart all workers, and wait until they are ready
  kubectl lockstep restart llama --task worker --wait

  # Restart the whole job
  kubectl lockstep restart llama

  # Restart the programs of all ranks in their pods
  kubectl lockstep restart llama --processes --reason "its collective hangs"`,
	}
	r.choose = func(job *v1alpha1.TrainingJob, ranks []gang.Rank) ([]gang.Rank, error) {
		r.Action = "RestartJob"
		switch named := len(ranks) > 0; { // the manager refuses what the job is not made for
		case processes && (task != "" || partitions || named):
			return nil, errors.New("--processes: the programs of all ranks start again together: leave ranks, --task and --partition out")
		case processes:
			r.Action = "RestartProcesses"
		case task != "" && named:
			return nil, fmt.Errorf("--task: give either that or the rank %s", why.Name(ranks[0]))
		case task != "" && !slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == task }):
			return nil, fmt.Errorf("--task: TrainingJob %s has no task %q", job.Name, task)
		case task != "":
			r.Action, ranks = "RestartTask", []gang.Rank{firstOf(job, task)}
		case partitions && !named:
			return nil, errors.New("--partition: name a rank of each partition that is to be restarted, such as worker-0")
		case partitions:
			r.Action = "RestartPartition"
		case named:
			r.Action = "RestartPod"
		}
		return ranks, nil
	}
	r.setUp(c, streams, flags)
	c.Flags().StringVar(&task, "task", "", "restart all ranks of this task")
	c.Flags().BoolVar(&processes, "processes", false, "restart the programs of all ranks in the pods that there are")
	c.Flags().BoolVar(&r.force, "force", false, "restart ranks that are well even while another waits for a node")
	c.Flags().BoolVar(&partitions, "partition", false, "restart the partitions that the ranks are in")
	return c
}

// firstOf is the first rank of a task that has not succeeded: the manager runs those that have no more. Where all have, it is the first one.
func firstOf(job *v1alpha1.TrainingJob, task string) gang.Rank {
	first := gang.Rank{Task: task, Index: -1}
	gang.EachRank(job, func(r gang.Rank) {
		if r.Task == task && first.Index < 0 && !gang.IsCompleted(&job.Status, r) {
			first = r
		}
	})
	first.Index = max(0, first.Index)
	return first
}

func newMigrate(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var r restartRequest
	var all bool
	c := &cobra.Command{
		Use:   "migrate JOB [RANK...]",
		Short: "Move ranks to other nodes, or the whole job to another HyperNode",
		Long: `Move ranks that may well be running to other nodes of the HyperNode that the job is in: those that are named like
worker-3, or by their pods; or with --node all that are on a node. With --all the whole job leaves its HyperNode for another one,
where the topology allows one.

The manager records the request as an incident with the trigger RestartRequested, and asks the program for a checkpoint
first if the job says how. The job stays away from the nodes that its ranks leave, and with --all from the HyperNode, for
restartPolicy.excludeNodeSeconds, an hour by default and 10 minutes at least. Where no other node has room for a rank, and no spare of its task holds one, the request is not made unless it has --force:
kubectl lockstep map shows what is free. Nothing is charged to the budget.

The exit code is 0 once the manager has begun, or with --wait once all ranks are ready again, and 1 where it
refuses, or they do not come back.`,
		Example: `  # Move what is on a node that is about to be serviced
  kubectl lockstep migrate llama --node gpu-17 --reason "its fan is replaced"

  # Move one rank, and wait until it trains elsewhere
  kubectl lockstep migrate llama worker-3 --wait

  # Move the whole job out of its HyperNode
  kubectl lockstep migrate llama --all`,
	}
	r.choose = func(job *v1alpha1.TrainingJob, ranks []gang.Rank) ([]gang.Rank, error) {
		r.Action = "MigratePod"
		switch named := len(ranks) > 0; {
		case named && (r.node != "" || all), r.node != "" && all:
			return nil, errors.New("give ranks, --node or --all, and only one of them")
		case all:
			r.Action = "RelocateJob"
		case r.node != "":
			ranks = ranksOn(job, r.node) // none where the request is made again
		case !named:
			return nil, errors.New("say what is moved: ranks such as worker-3, --node NODE for those on a node, or --all for the whole job")
		}
		return ranks, nil
	}
	r.setUp(c, streams, flags)
	c.Flags().StringVar(&r.node, "node", "", "move all ranks of the job that are on this node")
	c.Flags().BoolVar(&all, "all", false, "move the whole job to another HyperNode")
	c.Flags().BoolVar(&r.force, "force", false, "move ranks even where no other node has room for them, so that they wait for one")
	return c
}
