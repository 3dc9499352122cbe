package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// simulate is kubectl lockstep simulate.
type simulate struct {
	genericiooptions.IOStreams
	file                string
	compare             []string
	failures, sweep     string
	nodes, nodesPerRack int
	gpusPerNode         int64
	length              string
	plays               int
	seed                uint64
	costs               lab.Costs
}

func newSimulate(streams genericiooptions.IOStreams) *cobra.Command {
	s := &simulate{IOStreams: streams, costs: lab.DefaultCosts()}
	c := &cobra.Command{
		Use:   "simulate -f JOB.yaml",
		Short: "Play failures against the restart policy of a TrainingJob",
		Long: `Play failures against the restart policy of a TrainingJob, with the decisions of the manager itself and a
virtual clock, and print what share of the time it trains (ETTR) and what the rest is lost to: beside the same
job under a policy that restarts all of it with every failure, and beside the most that any policy could reach.
Nothing is sent to a cluster. The same seed gives the same answer.`,
		Example: `  # A month of a job, with the failures that were counted in the training of Llama 3
  kubectl lockstep simulate -f job.yaml

  # The same failures against another policy
  kubectl lockstep simulate -f job.yaml --compare other.yaml

  # How long a silent node may take to come back
  kubectl lockstep simulate -f job.yaml --sweep rules[node-may-return].afterSeconds=10s..5m

  # Failures that you have counted yourself, and a program that checkpoints every 10 minutes
  kubectl lockstep simulate -f job.yaml --failures counted.yaml --checkpoint-interval 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	f := c.Flags()
	f.StringVarP(&s.file, "filename", "f", "", "file with the TrainingJob; - for standard input")
	f.StringSliceVar(&s.compare, "compare", nil, "files with TrainingJobs to play beside it")
	f.StringVar(&s.sweep, "sweep", "", "time of the policy to play from one value to another, such as rules[node-may-return].afterSeconds=10s..5m")
	f.StringVar(&s.failures, "failures", "llama3", "failure model: "+strings.Join(lab.Models(), ", ")+", or a file")
	f.IntVar(&s.nodes, "nodes", 0, "nodes of the cluster; default: those that the job needs and a tenth more")
	f.IntVar(&s.nodesPerRack, "nodes-per-rack", 32, "nodes of a HyperNode of tier 1; all are in one of tier 2")
	f.Int64Var(&s.gpusPerNode, "gpus-per-node", 8, "GPUs of a node")
	f.StringVar(&s.length, "for", "30d", "how long to play, such as 12h or 365d")
	f.IntVar(&s.plays, "plays", 5, "how often to play, each time with other random numbers")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the random numbers")
	costs := &s.costs
	for _, d := range []struct {
		to         *time.Duration
		name, what string
	}{
		{&costs.CheckpointInterval, "checkpoint-interval", "time that the program trains between two checkpoints"},
		{&costs.CheckpointWrite, "checkpoint-write", "time for which a checkpoint stops the training"},
		{&costs.Restore, "restore", "time from when all processes run until they train"},
		{&costs.Start, "start", "time from the binding of a pod until its process runs"},
		{&costs.Stop, "stop", "time from the deletion of a pod until it is gone"},
		{&costs.PeerAbort, "peer-abort", "time from the end of a process until its peers have aborted"},
		{&costs.NodeNotReady, "node-not-ready", "time from the loss of a node until Kubernetes shows it"},
		{&costs.HealthReport, "health-report", "time from the failure of a device until the health agent reports it"},
	} {
		f.DurationVar(d.to, d.name, *d.to, d.what)
	}
	if err := c.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

func (s *simulate) run(ctx context.Context) error {
	length, err := parseLength(s.length)
	if err != nil {
		return err
	}
	if s.plays < 1 {
		return fmt.Errorf("--plays is %d, and has to be 1 at least", s.plays)
	}
	model, err := s.model()
	if err != nil {
		return err
	}
	causes, err := model.Rates()
	if err != nil {
		return err
	}
	var studies []study
	for _, file := range append([]string{s.file}, s.compare...) {
		job, err := s.readJob(file)
		if err != nil {
			return err
		}
		studies = append(studies, study{name: filepath.Base(file), job: job})
	}
	studies = append(studies, study{name: wholeJob, job: lab.WholeJobRestarts(studies[0].job)})
	for i := range studies {
		st := &studies[i]
		if st.setup, err = s.setup(st.job); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		st.setup.Causes, st.setup.For, st.setup.Costs = causes, length, &s.costs
		if st.results, err = lab.PlayMany(ctx, st.setup, s.plays, s.seed); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
	}
	if err := s.print(model, studies); err != nil || s.sweep == "" {
		return err
	}
	return s.runSweep(ctx, studies[0].setup)
}

// wholeJob names the job under a policy that restarts all of it with every failure.
const wholeJob = "whole-job restarts"

func (s *simulate) model() (*lab.Model, error) {
	if !strings.ContainsAny(s.failures, "./") {
		return lab.ModelNamed(s.failures)
	}
	raw, err := os.ReadFile(s.failures)
	if err != nil {
		return nil, fmt.Errorf("--failures: %w", err)
	}
	m, err := lab.ParseModel(raw)
	if err != nil {
		return nil, fmt.Errorf("--failures %s: %w", s.failures, err)
	}
	return m, nil
}

func (s *simulate) readJob(file string) (*v1alpha1.TrainingJob, error) {
	raw, err := readFile(s.In, file)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	job, err := parseJob(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return job, nil
}

// setup is the job on a cluster that fits it.
func (s *simulate) setup(job *v1alpha1.TrainingJob) (lab.Setup, error) {
	if len(job.Spec.Tasks) == 0 {
		return lab.Setup{}, errors.New("spec.tasks is empty: give the job a task")
	}
	if s.nodesPerRack < 1 {
		return lab.Setup{}, fmt.Errorf("--nodes-per-rack is %d, and has to be 1 at least", s.nodesPerRack)
	}
	perNode := s.podsPerNode(job)
	pods := int(gang.Replicas(job) + gang.Spares(job))
	nodes := s.nodes
	if nodes == 0 {
		needed := (pods + perNode - 1) / perNode
		nodes = needed + (needed+9)/10
	}
	return lab.Setup{Job: job, HyperNodes: hyperNodes(nodes, s.nodesPerRack), PodsPerNode: perNode}, nil
}

// podsPerNode is how many pods of the job's largest task fit on a node by their GPUs.
func (s *simulate) podsPerNode(job *v1alpha1.TrainingJob) int {
	most := int64(0)
	for i := range job.Spec.Tasks {
		gpus := int64(0)
		for _, c := range job.Spec.Tasks[i].Template.Spec.Containers {
			gpus += c.Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI).Value()
		}
		most = max(most, gpus)
	}
	if most == 0 {
		return 1
	}
	return int(max(1, s.gpusPerNode/most))
}

// hyperNodes are racks of nodes under one spine.
func hyperNodes(nodes, perRack int) []topology.HyperNode {
	spine := topology.HyperNode{Name: "spine", Tier: 2}
	var all []topology.HyperNode
	for i := range nodes {
		if i%perRack == 0 {
			all = append(all, topology.HyperNode{Name: fmt.Sprintf("rack-%d", i/perRack), Tier: 1})
		}
		name := fmt.Sprintf("node-%d", i)
		rack := &all[len(all)-1]
		rack.Nodes = append(rack.Nodes, name)
		spine.Nodes = append(spine.Nodes, name)
	}
	return append(all, spine)
}
