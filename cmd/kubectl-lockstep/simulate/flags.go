package simulate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/lab"
)

// options are the flags.
type options struct {
	genericiooptions.IOStreams
	file, replay, sweep, failures, topology, output string
	compare                                         []string
	suggest                                         bool
	length, repair                                  time.Duration
	nodes, nodesPerRack, gpusPerNode, plays         uint
	seed                                            uint64
	costs                                           lab.Costs
	// given reports whether the user has given a flag.
	given func(flag string) bool
	// retrained is how many restarts of the job have told the time between two checkpoints; 0 where that is assumed.
	retrained int
	// restored reports whether the job has told how long a restore takes.
	restored bool
}

// idle are flags that do nothing beside another one.
var idle = map[string][]string{
	"replay": {
		"failures", "for", "plays", "seed", "sweep", "suggest",
		"checkpoint-interval", "restore", "copies", "backoff", "node-not-ready", "health-report",
	},
	"topology": {"nodes", "nodes-per-rack"},
	"output":   {"suggest"},
}

func (o *options) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&o.file, "filename", "f", "", "file with the TrainingJob; - for standard input")
	f.StringSliceVar(&o.compare, "compare", nil, "files with TrainingJobs to play beside it")
	f.StringVar(&o.sweep, "sweep", "", "time of the policy to play from one value to another, such as rules[node-may-return].afterSeconds=10s..5m")
	f.BoolVar(&o.suggest, "suggest", false, "search better times of the policy, a better time between checkpoints, and a better number of spares")
	f.StringVar(&o.replay, "replay", "", "file with a TrainingJob whose incidents are played in place of drawn failures; what kubectl get -o yaml prints")
	f.Var((*span)(&o.length), "for", "how long to play, such as 12h or 365d")
	f.UintVar(&o.plays, "plays", 5, "how often to play, each time with other failures")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the random numbers")
	f.StringVarP(&o.output, "output", "o", "", "json for other programs; default: text")
	f.StringVar(&o.failures, "failures", "llama3", "failure model: "+strings.Join(lab.Models(), ", ")+
		"; a file with one; or a file with TrainingJobs, whose incidents count")
	f.Var((*span)(&o.repair), "repair",
		"time for which a node is away or degraded after a failure of --failures or --replay that does not tell it")
	f.UintVar(&o.nodes, "nodes", 0, "nodes of the cluster; default: those that the jobs need and a tenth more")
	f.UintVar(&o.nodesPerRack, "nodes-per-rack", 32, "nodes of a HyperNode of tier 1; all are in one of tier 2")
	f.UintVar(&o.gpusPerNode, "gpus-per-node", 8, "GPUs of a node; with --topology, where no Node says how many it has")
	o.given = f.Changed
	f.StringVar(&o.topology, "topology", "", "file with HyperNodes and Nodes in place of --nodes: what kubectl get hypernodes,nodes -o yaml prints")
	// Users know some times better than the defaults do.
	f.Var((*span)(&o.costs.CheckpointInterval), "checkpoint-interval", "time that the program trains between two checkpoints")
	f.Var((*span)(&o.costs.CheckpointWrite), "checkpoint-write", "time for which a checkpoint stops the training")
	f.Var((*span)(&o.costs.Restore), "restore", "time from when all processes run until they train")
	f.Var((*copies)(&o.costs.Copies), "copies",
		"copies that ranks save, by the scope of their checkpointTiers: the time between two, and the time to restore one, such as Pod=30s/5s,Node=5m/20s")
	f.Var((*span)(&o.costs.Start), "start", "time from the binding of a pod until its process runs")
	f.Var((*span)(&o.costs.Stop), "stop", "time from the deletion of a pod until it is gone")
	f.Var((*span)(&o.costs.RestartInPlace), "restart-in-place",
		"time from the end of a container until its kubelet has restarted it for the first time")
	f.Var((*span)(&o.costs.Backoff), "backoff", "time for which the kubelet waits where it ends again; it doubles up to 5m")
	f.Var((*span)(&o.costs.PeerAbort), "peer-abort", "time from the end of a process until its peers have aborted")
	f.Var((*span)(&o.costs.StopProgram), "stop-program", "time from a supervisor's order to stop until its program has ended")
	f.Var((*span)(&o.costs.NodeNotReady), "node-not-ready", "time from the loss of a node until Kubernetes shows it")
	f.Var((*span)(&o.costs.HealthReport), "health-report", "time from the failure of a device until the health agent reports it")
	c.MarkFlagsOneRequired("filename", "replay")
	for flag, others := range idle {
		for _, other := range others {
			c.MarkFlagsMutuallyExclusive(flag, other)
		}
	}
}

// check says what is wrong with the flags, before any file is read.
func (o *options) check() error {
	if o.output != "" && o.output != "json" {
		return fmt.Errorf("--output is %q, and has to be json, or left out for text", o.output)
	}
	if o.file == "" && o.replay == "" {
		return errors.New("-f names no file: give it that of a TrainingJob, or - for standard input")
	}
	for flag, zero := range map[string]bool{
		"for": o.length == 0, "repair": o.repair == 0, "checkpoint-interval": o.costs.CheckpointInterval == 0,
		"plays": o.plays == 0, "nodes-per-rack": o.nodesPerRack == 0, "gpus-per-node": o.gpusPerNode == 0,
	} {
		if zero {
			return fmt.Errorf("--%s is 0, and has to be positive", flag)
		}
	}
	return nil
}

// span is a flag for a time, which may be given in days, and is not negative.
type span time.Duration

func (s *span) Set(text string) error {
	d, err := lab.ParseTime(text)
	if err == nil && d < 0 {
		err = errors.New("it must not be negative")
	}
	*s = span(d)
	return err
}

// String is what the help shows: whole days as such.
func (s *span) String() string { return formatSpan(time.Duration(*s)) }

// Type is what the help shows of the value.
func (s *span) Type() string { return "time" }

const day = 24 * time.Hour

func formatSpan(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return lines.Exactly(d)
}

// copies is a flag for what ranks save near them.
type copies map[v1alpha1.CheckpointScope]lab.Copies

func (c *copies) Set(text string) error {
	if *c == nil {
		*c = copies{}
	}
	for one := range strings.SplitSeq(text, ",") {
		scope, times, _ := strings.Cut(one, "=")
		between, restore, whole := strings.Cut(times, "/")
		if s := v1alpha1.CheckpointScope(scope); !whole || s != v1alpha1.CheckpointScopePod && s != v1alpha1.CheckpointScopeNode {
			return fmt.Errorf("%q has to be Pod=TIME/TIME or Node=TIME/TIME", one)
		}
		var of lab.Copies
		if err := errors.Join((*span)(&of.Interval).Set(between), (*span)(&of.Restore).Set(restore)); err != nil {
			return err
		}
		if of.Interval == 0 {
			return fmt.Errorf("%q: the time between two copies has to be positive", one)
		}
		(*c)[v1alpha1.CheckpointScope(scope)] = of
	}
	return nil
}

// String is what the help shows: the flag has no default.
func (c *copies) String() string { return "" }

// Type is what the help shows of the value.
func (c *copies) Type() string { return "scopes" }
