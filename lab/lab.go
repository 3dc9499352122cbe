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
	// PodsPerNode is how many pods of the job fit on a node. Default: 1.
	PodsPerNode int
	// Costs are the times that things take. Default: DefaultCosts.
	Costs *Costs
	// Causes of failures.
	Causes []Cause
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
	// DeviceFailure ends one process and keeps all others of its node from running until the node is repaired. The health agent
	// reports it.
	DeviceFailure Effect = "DeviceFailure"
	// NodeLoss ends all processes of a node, and the node does not answer until it is repaired.
	NodeLoss Effect = "NodeLoss"
)

// Cause is a kind of failure, as it comes to each node of the job.
type Cause struct {
	Name   string
	Effect Effect
	// PerThousandNodeDays is how often it comes: failures in 1,000 days of one node. Failures are independent of each other.
	PerThousandNodeDays float64
	// Repair is how long the node is away after it. Not for ProcessExit.
	Repair time.Duration
}

// Play plays a setup. An error says what of it is missing or makes no sense.
func Play(s Setup) (*Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	w := newWorld(&s)
	w.changed()
	w.nextFailure()
	for w.now.Before(w.end) {
		e, ok := w.queue.next()
		if !ok || !e.at.Before(w.end) {
			w.now = w.end
			break
		}
		w.now = e.at
		e.do()
	}
	return w.result(), nil
}

func (s *Setup) check() error {
	switch {
	case s.Job == nil || len(s.Job.Spec.Tasks) == 0:
		return errors.New("a job with at least one task is needed")
	case s.For <= 0:
		return fmt.Errorf("the play has to last for some time, and is to last %s", s.For)
	}
	if s.PodsPerNode == 0 {
		s.PodsPerNode = 1
	}
	if s.Costs == nil {
		s.Costs = new(DefaultCosts())
	}
	if err := s.Costs.check(); err != nil {
		return err
	}
	nodes := map[string]bool{}
	for _, h := range s.HyperNodes {
		for _, n := range h.Nodes {
			nodes[n] = true
		}
	}
	slots := len(nodes) * s.PodsPerNode
	if pods := gang.Replicas(s.Job) + gang.Spares(s.Job); int(pods) > slots {
		return fmt.Errorf("the job has %d pods, spares among them, and the %d nodes take %d", pods, len(nodes), slots)
	}
	for _, c := range s.Causes {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cause) check() error {
	if c.PerThousandNodeDays < 0 {
		return fmt.Errorf("cause %q comes %g times in 1,000 node-days, and must not come less than never", c.Name, c.PerThousandNodeDays)
	}
	switch c.Effect {
	case ProcessExit, DeviceFailure, NodeLoss:
		return nil
	}
	return fmt.Errorf("cause %q has effect %q, which is none of %s, %s, %s", c.Name, c.Effect, ProcessExit, DeviceFailure, NodeLoss)
}
