package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/newjob"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/simulate"
)

// submission is what submit is asked for.
type submission struct {
	newjob.Options
	tier   int32
	dryRun dryRun
	output format
}

func newSubmit(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) *cobra.Command {
	var s submission
	c := &cobra.Command{
		Use:   "submit NAME --image IMAGE [flags] -- COMMAND...",
		Short: "Create a TrainingJob of an image and a command",
		Long: `Create a TrainingJob whose pods run a command of an image. What the flags do not say has its default; for the rest
of what a TrainingJob can be, print it with --dry-run=client -o yaml, edit it, and apply that.

Of pytorch the first of the workers is the task master, which is rank 0 and says when the job has succeeded; the
others are the task worker. MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are set in each pod and count pods, not GPUs:
torchrun has to be given all four, in single quotes, as below. Of mpi the command is that of a further pod, the launcher, which has no GPUs and finds the workers in
MPI_HOST; the workers run sshd. Without a framework all are the task worker.

The job is checked before it is sent, as the API server does it. The exit code is 0 where it was created, or could be with
--dry-run, and 1 where not.`,
		Example: `  # 8 pods of 8 GPUs each that run PyTorch in one HyperNode of tier 1 or 2
  kubectl lockstep submit llama --framework pytorch --workers 8 --gpus 8 \
    --image reg.example/llama:1 --topology hard --tier 2 -- \
    torchrun --nnodes='$(WORLD_SIZE)' --nproc_per_node=8 --node_rank='$(RANK)' \
    --master_addr='$(MASTER_ADDR)' --master_port='$(MASTER_PORT)' train.py

  # The same job as a file to edit
  kubectl lockstep submit llama --framework pytorch --workers 8 --gpus 8 \
    --image reg.example/llama:1 --dry-run=client -o yaml -- python train.py

  # A job of MPI with a dataset, and a spare node
  kubectl lockstep submit bert --framework mpi --workers 4 --gpus 8 \
    --image reg.example/bert:1 --mount data:/data --env NCCL_DEBUG=INFO \
    --spares 1 --dry-run=client -- sh -c 'mpirun --host $MPI_HOST train'`,
		Annotations:       needs(roleEdit),
		Args:              s.args,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("tier") {
				s.Tier = &s.tier
			}
			return s.run(c.Context(), streams, flags)
		},
	}
	s.addFlags(c)
	c.SetFlagErrorFunc(explainSubmitFlags)
	return c
}

func (s *submission) addFlags(c *cobra.Command) {
	f := c.Flags()
	s.Framework = newjob.None
	addChoice(c, &s.Framework, "framework", "", "whose rendezvous is set up", newjob.Frameworks...)
	f.Int32Var(&s.Workers, "workers", 1, "how many pods train")
	f.UintVar(&s.GPUs, "gpus", 0, "how many GPUs (nvidia.com/gpu) each of them has")
	f.Var(&s.CPU, "cpu", "how many CPUs each of them requests, such as 16")
	f.Var(&s.Memory, "memory", "how much memory each of them may use, such as 64Gi")
	f.Var(&s.Shm, "shm", "the size of their /dev/shm, such as 16Gi: it counts as memory. Default: that of the container runtime, 64Mi")
	f.StringVar(&s.Image, "image", "", "the image of the pods; required")
	addChoice(c, &s.Topology, "topology", "",
		"hard: wait rather than leave a HyperNode of --tier; soft: stay close where there is room. Default: hard with --tier, else none",
		string(v1alpha1.TopologyHard), string(v1alpha1.TopologySoft))
	f.Int32Var(&s.tier, "tier", 0, "the highest tier of HyperNode that may hold all pods together; a lower one is closer")
	f.StringVar(&s.Queue, "queue", "", "the Volcano queue. Default: default")
	f.StringVar(&s.Priority, "priority", "", "the PriorityClass of the pods. Default: that of the cluster")
	f.StringToStringVar(&s.NodeSelector, "node-selector", nil, "labels of the nodes that the pods may go to, as in gpu=h200")
	f.StringToStringVar(&s.Labels, "label", nil, "labels of the TrainingJob, as in team=language")
	f.Int32Var(&s.Spares, "spares", 0, "how many healthy nodes are held for ranks of the task worker, and of no other, to move to; the image has to hold the command sleep")
	f.StringArrayVar(&s.Mounts, "mount", nil, "a PersistentVolumeClaim and where it is mounted, as in data:/mnt/data; may be repeated")
	f.StringArrayVar(&s.Env, "env", nil, "an environment variable, as in NCCL_DEBUG=INFO; may be repeated")
	s.dryRun.addFlag(c)
	s.output.addFlag(c)
}

// args takes the name, and behind -- the command.
func (s *submission) args(c *cobra.Command, args []string) error {
	before := len(args)
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		before = dash
	}
	switch {
	case before == 0:
		return errors.New("the name of the job is missing: kubectl lockstep submit NAME --image IMAGE -- COMMAND")
	case before > 1:
		return fmt.Errorf("%q: there is one name; the command comes after --: %s %s [flags] -- %s", args[1], c.CommandPath(), args[0], strings.Join(args[1:], " "))
	}
	s.Name, s.Command = args[0], args[before:]
	return nil
}

func (s *submission) run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags) error {
	namespace, given, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if given || s.dryRun != dryRunClient {
		s.Namespace = namespace
	}
	job, err := newjob.Of(s.Options)
	if err != nil {
		return err
	}
	admitted, err := simulate.Admit(job)
	if err != nil {
		return fmt.Errorf("TrainingJob %s is refused: %s", job.Name, flagNames.Replace(err.Error()))
	}
	c, err := newCluster(flags)
	if s.dryRun != dryRunClient { // which needs no cluster
		if err == nil {
			err = s.create(ctx, c, job)
		}
		if err != nil {
			return err
		}
	}
	warnings := s.Warnings()
	if c != nil {
		ctx, stop := context.WithTimeout(ctx, warningTimeout)
		defer stop()
		for _, f := range capacity.Of(admitted, c.capacity(ctx, admitted)) {
			warnings = append(warnings, flagNames.Replace(f.Text))
		}
	}
	for _, text := range warnings {
		lines.Print(streams.ErrOut, "Warning: "+text, lines.Width)
	}
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return err
	}
	delete(manifest, "status") // which is not there yet
	return s.output.print(streams.Out, manifest, func() error {
		fmt.Fprintf(streams.Out, "%s created%s\n", resourceName(job), s.dryRun.suffix())
		if s.dryRun == dryRunNone {
			next := fmt.Sprintf(nextSteps, job.Name)
			if len(s.Command) == 0 {
				next = "No command was given: the pods run that of the image. " + next
			}
			lines.Print(streams.Out, next, lines.Width)
		}
		return nil
	})
}

// flagNames has the name of a flag for the field that it sets.
var flagNames = strings.NewReplacer("spec.networkTopology.highestTierAllowed", "--tier", "highestTierAllowed", "--tier")

// warningTimeout is how long submit waits for a cluster that it only compares the job with.
const warningTimeout = 5 * time.Second

// nextSteps says what to do once a job was created.
const nextSteps = "kubectl lockstep list shows how far it is, why %[1]s what it waits for, and timeline %[1]s what went wrong later."

// create sends the job. It is then what the API server has made of it.
func (s *submission) create(ctx context.Context, c *cluster, job *v1alpha1.TrainingJob) error {
	options := []client.CreateOption{fieldOwner}
	if s.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	err := c.Create(ctx, job, options...)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w in namespace %s: give another name, or delete that one with `kubectl delete trainingjob %s`", err, job.Namespace, job.Name)
	}
	if apierrors.IsNotFound(err) { // nothing else that a new object could lack
		return cmp.Or(c.namespaceExists(ctx), err)
	}
	return err
}
