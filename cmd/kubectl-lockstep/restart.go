package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/restarts"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

func newRestart(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var r restartRequest
	var s restartScope
	var force bool
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
		Args: oneOrMoreNames,
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.check(args); err != nil {
				return err
			}
			if !force {
				r.check = func(_ context.Context, c *cluster, job *v1alpha1.TrainingJob, _ []gang.Rank) error {
					return restarts.CheckWaiting(job, r.Action, c.clock.Now())
				}
			}
			return r.ask(c.Context(), streams.Out, flags, args, func(job *v1alpha1.TrainingJob, ranks []gang.Rank) (_ []gang.Rank, err error) {
				r.Action, ranks, err = s.of(job, ranks)
				return ranks, err
			})
		},
	}
	c.Flags().StringVar(&s.task, "task", "", "restart all ranks of this task")
	c.Flags().BoolVar(&s.processes, "processes", false, "restart the programs of all ranks in the pods that there are")
	c.Flags().BoolVar(&force, "force", false, "restart ranks that are well even while another waits for a node")
	c.Flags().BoolVar(&s.partitions, "partition", false, "restart the partitions that the ranks are in")
	r.addFlags(c, flags)
	return c
}

// restartScope says what is restarted beside the ranks that are named: pods, partitions, a task, or programs alone.
type restartScope struct {
	task                  string
	partitions, processes bool
}

// check returns an error where arguments and flags exclude each other. The first argument is the job.
func (s *restartScope) check(args []string) error {
	switch {
	case s.processes && (s.task != "" || s.partitions || len(args) > 1):
		return errors.New("--processes: the programs of all ranks start again together: leave ranks, --task and --partition out")
	case s.task != "" && len(args) > 1:
		return fmt.Errorf("--task: give either that or the rank %s", args[1])
	case s.partitions && len(args) == 1:
		return errors.New("--partition: name a rank of each partition that is to be restarted, such as worker-0")
	}
	return nil
}

// of is the action for a job, and the ranks that it names.
func (s *restartScope) of(job *v1alpha1.TrainingJob, ranks []gang.Rank) (v1alpha1.RequestedAction, []gang.Rank, error) {
	switch {
	case s.processes:
		return "RestartProcesses", ranks, restarts.CheckProcesses(job)
	case s.task != "":
		if !hasTask(job, s.task) {
			return "", nil, fmt.Errorf("--task: TrainingJob %s has no task %q", job.Name, s.task)
		}
		return "RestartTask", []gang.Rank{{Task: s.task}}, nil
	case s.partitions:
		return "RestartPartition", ranks, restarts.CheckPartitions(job, ranks)
	case len(ranks) > 0:
		return "RestartPod", ranks, nil
	}
	return "RestartJob", ranks, nil
}

func newMigrate(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var r restartRequest
	var node string
	var all, force bool
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
		Args: oneOrMoreNames,
		RunE: func(c *cobra.Command, args []string) error {
			if given := len(args) > 1; (given && node != "") || (given && all) || (node != "" && all) {
				return errors.New("give ranks, --node or --all, and only one of them")
			}
			if !all && !force {
				r.check = func(ctx context.Context, c *cluster, job *v1alpha1.TrainingJob, ranks []gang.Rank) error {
					return c.checkRoom(ctx, job, ranks)
				}
			}
			return r.ask(c.Context(), streams.Out, flags, args, func(job *v1alpha1.TrainingJob, ranks []gang.Rank) ([]gang.Rank, error) {
				r.Action = "MigratePod"
				switch {
				case all:
					r.Action = "RelocateJob"
				case node != "":
					if ranks = restarts.OnNode(job, node); len(ranks) == 0 {
						return nil, fmt.Errorf("--node: no rank of TrainingJob %s is on node %q: `kubectl lockstep map %s` shows where they are", job.Name, node, job.Name)
					}
				case len(ranks) == 0:
					return nil, errors.New("say what is moved: ranks such as worker-3, --node NODE for those on a node, or --all for the whole job")
				}
				return ranks, nil
			})
		},
	}
	c.Flags().StringVar(&node, "node", "", "move all ranks of the job that are on this node")
	c.Flags().BoolVar(&all, "all", false, "move the whole job to another HyperNode")
	c.Flags().BoolVar(&force, "force", false, "move ranks even where no other node has room for them, so that they wait for one")
	r.addFlags(c, flags)
	return c
}

func oneOrMoreNames(_ *cobra.Command, names []string) error {
	if len(names) == 0 {
		return errNoName
	}
	return nil
}

func (r *restartRequest) addFlags(c *cobra.Command, flags *genericclioptions.ConfigFlags) {
	c.Annotations = needs(roleEdit)
	c.ValidArgsFunction = completer{flags}.jobAndRanks
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for people: the incident and its events repeat it; 256 characters at most")
	c.Flags().StringVar(&r.ID, "id", "", "the id of the request: the same id is not carried out twice in a row, so that a script may repeat the command. Default: a new one")
	c.Flags().BoolVar(&r.wait, "wait", false, "wait until all ranks are ready again")
	c.Flags().DurationVar(&r.timeout, "timeout", 30*time.Minute, "how long --wait waits, and the manager has to answer: that no more than 15s")
	r.dryRun.addFlag(c)
}

func hasTask(job *v1alpha1.TrainingJob, name string) bool {
	for i := range job.Spec.Tasks {
		if job.Spec.Tasks[i].Name == name {
			return true
		}
	}
	return false
}
