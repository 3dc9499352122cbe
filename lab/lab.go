// Package lab plays failures against the restart policy of a TrainingJob. Decide and PlanFor are the manager's own; the clock is
// virtual; the cluster, Volcano, the kubelets and the training program are models, whose times are given as Costs. The same Setup
// gives the same Result.
package lab

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Setup is what is played.
type Setup struct {
	// Job with the policy. Its status is not looked at.
	Job *v1alpha1.TrainingJob
	// HyperNodes of the cluster, with all nodes under each. At least one is needed.
	HyperNodes []topology.HyperNode
	// PodsOn is how many pods of the job fit on each node. Default: 1.
	PodsOn map[string]int
	// ReadyWhenTraining is whether pods are ready only once their program trains, as with a readiness probe that asks it. Otherwise
	// they are as long as their processes run.
	ReadyWhenTraining bool
	// DeletesAtOnce is whether a pod that is deleted while its container restarts in place ends without another process, as on simulated
	// kubelets. Real ones start the process first.
	DeletesAtOnce bool
	// Costs are the times that things take. Default: DefaultCosts.
	Costs *Costs
	// Causes of failures, and the nodes that fail more often than others; nil for none.
	Causes []Cause
	Lemons *Lemons
	// Failures to play in place of those that are drawn from Causes, in the order of their times.
	Failures []Failure
	// For is how long the play lasts. Required.
	For time.Duration
	// Seed of the random numbers.
	Seed uint64
}

// Effect is what a failure does.
type Effect string

// The effects of failures.
const (
	// ProcessExit ends one process, which can be started again where it was.
	ProcessExit Effect = "ProcessExit"
	// PodFailure ends one pod for good: its kubelet restarts nothing in it.
	PodFailure Effect = "PodFailure"
	// PodLoss deletes one pod of the node, as an eviction and a preemption do.
	PodLoss Effect = "PodLoss"
	// DeviceFailure ends one process and keeps all others of its node from running until the node is repaired. The health agent
	// reports it as failed.
	DeviceFailure Effect = "DeviceFailure"
	// Degradation slows the job down as long as a rank is on the node, until that is repaired. The health agent reports it as
	// degraded.
	Degradation Effect = "Degradation"
	// NodeLoss ends all processes of a node, and the node does not answer until it is repaired.
	NodeLoss Effect = "NodeLoss"
	// NodeDeletion is NodeLoss of a node whose object is deleted with it, as a cloud does with a machine that is gone.
	NodeDeletion Effect = "NodeDeletion"
)

// NeedsRepair reports whether the node is away or degraded after a failure, until it is repaired.
func (e Effect) NeedsRepair() bool {
	return e != ProcessExit && e != PodFailure && e != PodLoss
}

// Scope is what one failure hits.
type Scope string

// The scopes of failures.
const (
	NodeScope      Scope = "Node"
	HyperNodeScope Scope = "HyperNode" // all nodes of the lowest HyperNode around one
)

// Cause is a kind of failure.
type Cause struct {
	Name   string
	Effect Effect
	// Scope is what it hits. Default: a node.
	Scope Scope
	// PerThousandNodeDays is how often it comes: failures in 1,000 days of one node. Failures are independent of each other.
	PerThousandNodeDays float64
	// Repair is how long the node is away or degraded after it: see Effect.NeedsRepair.
	Repair time.Duration
	// WhileTraining is whether it comes only while the job trains, as what its load causes does. PerThousandNodeDays is then in days
	// of training.
	WhileTraining bool
	// Slowdown is how much slower the job trains under a Degradation, from 0 to 1: with 0.2 at 80 % of its speed.
	Slowdown float64
}

// Lemons are nodes that fail more often than the others.
type Lemons struct {
	// Nodes is the share of the nodes that are lemons, and Failures the share of all failures that comes to them, both from 0 to 1.
	Nodes    float64 `json:"nodes"`
	Failures float64 `json:"failures"`
}

// Play plays a setup. An error says what of it is missing or makes no sense.
func Play(s Setup) (*Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	w := newWorld(&s)
	w.changed()
	failures := s.Failures
	if failures == nil {
		failures = s.draw()
	}
	for _, f := range failures {
		w.after(f.At, func() { w.strike(f) })
	}
	for {
		e, ok := w.queue.next()
		if !ok || !e.at.Before(w.end) {
			w.pass(w.end)
			return w.result(), nil
		}
		w.pass(e.at)
		e.do()
	}
}

func (s *Setup) check() error {
	switch {
	case s.Job == nil || len(s.Job.Spec.Tasks) == 0:
		return errors.New("a job with at least one task is needed")
	case s.For <= 0:
		return fmt.Errorf("the play has to last for some time, and is to last %s", s.For)
	}
	if s.Costs == nil {
		s.Costs = new(DefaultCosts())
	}
	if err := s.Costs.check(); err != nil {
		return err
	}
	nodes, slots := s.Nodes(), 0
	for _, n := range nodes {
		slots += s.Slots(n)
	}
	if pods := gang.Replicas(s.Job) + gang.Spares(s.Job); int(pods) > slots {
		return fmt.Errorf("the job has %d pods, spares among them, and the %d nodes take %d", pods, len(nodes), slots)
	}
	if err := s.Lemons.check(); err != nil {
		return err
	}
	for _, c := range s.Causes {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

// Nodes are those of the HyperNodes.
func (s *Setup) Nodes() []string { return nodesOf(topology.New(clone(s.HyperNodes))) }

// Slots is how many pods of the job fit on a node.
func (s *Setup) Slots(node string) int {
	if s.PodsOn == nil {
		return 1
	}
	return s.PodsOn[node]
}

func (l *Lemons) check() error {
	if l != nil && (l.Nodes < 0 || l.Nodes > 1 || l.Failures < 0 || l.Failures > 1) {
		return fmt.Errorf("lemons: %g of the nodes have %g of the failures, and both have to be between 0 and 1", l.Nodes, l.Failures)
	}
	return nil
}

func (c *Cause) check() error {
	if c.PerThousandNodeDays < 0 {
		return fmt.Errorf("cause %q has %g failures in 1,000 node-days, and has to have 0 at least", c.Name, c.PerThousandNodeDays)
	}
	if c.Slowdown < 0 || c.Slowdown > 1 || (c.Slowdown > 0) != (c.Effect == Degradation) {
		return fmt.Errorf("cause %q has slowdown %g: a Degradation needs one between 0 and 1, and no other effect has one", c.Name, c.Slowdown)
	}
	if c.Scope != "" && c.Scope != NodeScope && c.Scope != HyperNodeScope {
		return fmt.Errorf("cause %q has scope %q, which is neither %s nor %s", c.Name, c.Scope, NodeScope, HyperNodeScope)
	}
	switch c.Effect {
	case ProcessExit, PodFailure, PodLoss, DeviceFailure, Degradation, NodeLoss, NodeDeletion:
		return nil
	}
	return fmt.Errorf("cause %q has effect %q, which is none of %s, %s, %s, %s, %s, %s, %s", c.Name, c.Effect, ProcessExit, PodFailure, PodLoss, DeviceFailure, Degradation, NodeLoss, NodeDeletion)
}
