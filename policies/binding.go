// Bindings: ranks that return to a node which their job has kept for them need no scheduler.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Binding is a pod to bind to a node.
type Binding struct {
	Pod, UID, Node string
	// Early says that the node was free before it was held, and has not been held for [bindDelay] yet. A scheduler that saw it free may
	// still be about to bind another pod there: the pod may be bound only where no pod of others waits for a node.
	Early bool
}

// Bindings are the pods to bind without the scheduler.
type Bindings struct {
	Pods []Binding
	// Min is how many of them have to be bound for any to be: with the early ones that are left to the scheduler for now, and those whose
	// pods are still to come to nodes which the job keeps, as many as the gang needs. A gang that is bound in part does not run, and keeps
	// others from the nodes that it has; those that are kept for it, it keeps anyway.
	Min int
}

// bindDelay is how long a node that was free before it was held is left to the scheduler while pods of others wait: one that saw it free
// may still be about to bind one of them there.
const bindDelay = 10 * time.Second

// bindings are the pods that return to nodes which the job has kept. What is new to the job is for the scheduler:
// its queues have their shares of that.
func (j job) bindings(s *v1alpha1.TrainingJobStatus) Bindings {
	waiting, bound, coming := j.toBind(s)
	out := Bindings{}
	for _, p := range waiting {
		p.Early = p.at.After(j.Now)
		out.Pods = append(out.Pods, p.Binding)
	}
	if bound == 0 {
		out.Min = max(1, int(gang.MinMember(j.Effective))-coming)
	}
	if len(out.Pods) < out.Min {
		return Bindings{}
	}
	return out
}

// Settled are the bindings without the early ones, which are left to the scheduler for now.
func (b Bindings) Settled() Bindings {
	out := Bindings{Pods: slices.DeleteFunc(slices.Clone(b.Pods), func(x Binding) bool { return x.Early })}
	if b.Min > 0 {
		out.Min = max(1, b.Min-(len(b.Pods)-len(out.Pods)))
	}
	return out
}

// nextBinding is when the next pod may be bound; zero for never.
func (j job) nextBinding(s *v1alpha1.TrainingJobStatus) time.Time {
	var next time.Time
	waiting, _, _ := j.toBind(s)
	for _, p := range waiting {
		if p.at.After(j.Now) {
			next = instant.Earliest(next, p.at)
		}
	}
	return next
}

// returningPod is a pod that may be bound to its rank's node from a time on.
type returningPod struct {
	Binding
	at time.Time
}

// toBind are the pods that wait for the node that their rank had, the number of ranks whose pods have a node, and of those whose pods
// are still to come to one that the job keeps.
func (j job) toBind(s *v1alpha1.TrainingJobStatus) (waiting []returningPod, bound, coming int) {
	if !j.mayBind(s) {
		return nil, 0, 0
	}
	alive, m := j.alive(s), j.Rooms(s)
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p, node := j.Pod(r), gang.NodeOf(s.Placement, r)
		if p == nil || p.Deleting || p.Phase == corev1.PodFailed || gang.IsStale(s, p) {
			if j.keeps(s, node) && m.Returns(r) {
				coming++
			}
			return
		}
		if p.Node != "" {
			bound++
			return
		}
		at, kept := j.keptSince(s, node, p)
		if kept && !p.BindingTried && !alive[r] && !m.Leaves(node) && m.ReturnsOnly(r, p) {
			waiting = append(waiting, returningPod{Binding{Pod: p.Name, UID: p.UID, Node: node}, at})
		}
	})
	return waiting, bound, coming
}

// keeps reports whether a node was seen to be held for the job as its status has it.
func (j job) keeps(s *v1alpha1.TrainingJobStatus, node string) bool {
	hold := placement.HoldOn(s.Holds, node)
	return hold != nil && j.Nodes[node].Hold == HoldValue(*hold)
}

// mayBind reports whether the job has nodes that its ranks may be bound to without the scheduler.
func (j job) mayBind(s *v1alpha1.TrainingJobStatus) bool {
	return j.BindsDirectly && len(s.Holds) > 0 && s.Placement != nil && !yielding(s) &&
		j.VolcanoJob != nil && !j.VolcanoJob.Ended && !j.VolcanoJob.Stopping
}

// keptSince is from when on a pod may be bound to a node that the job holds, and whether the job does. A hold that is
// younger than the pod was put back after it was lost: others may have seen the node free meanwhile.
func (j job) keptSince(s *v1alpha1.TrainingJobStatus, node string, p *gang.Pod) (at time.Time, kept bool) {
	if !j.keeps(s, node) {
		return time.Time{}, false
	}
	since := j.Nodes[node].HeldSince
	if placement.HoldOn(s.Holds, node).Late || since.After(p.CreatedTime) {
		return since.Add(bindDelay), true
	}
	return time.Time{}, true
}
