// Holds: which nodes are kept free for a job, and until when.

package policies

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// defaultHoldSeconds is how long a node is held where a job does not say.
const defaultHoldSeconds = 600

// HoldKey is the key of the taint by which a job holds nodes. It starts with the
// job's name, for people, and ends with a part of its UID, so that a job of the
// same name in another namespace, or after this one, has another key.
func HoldKey(job *v1alpha1.TrainingJob) string {
	uid, _, _ := strings.Cut(string(job.UID), "-")
	name := job.Name
	if len(name) > 50 {
		name = name[:50]
	}
	return v1alpha1.HoldTaintPrefix + name + "-" + uid
}

// HoldValue is the value of the taint for one hold.
func HoldValue(h v1alpha1.NodeHold) string {
	if h.Until == nil {
		return v1alpha1.HoldStanding
	}
	return strconv.FormatInt(h.Until.Unix(), 10)
}

// HoldExpired reports whether a hold of this value has ended. A value that no manager could have written has.
func HoldExpired(value string, now time.Time) bool {
	if value == v1alpha1.HoldStanding {
		return false
	}
	until, err := strconv.ParseInt(value, 10, 64)
	return err != nil || until <= now.Unix()
}

// hold says in status which nodes are held, and returns when the next hold ends.
func (w *world) hold(s *v1alpha1.TrainingJobStatus) time.Time {
	holds, before := w.holds(s), s.Holds
	slices.SortFunc(holds, func(a, b v1alpha1.NodeHold) int {
		if a.Node == b.Node && a.Until != nil && b.Until != nil {
			return b.Until.Compare(a.Until.Time) // of two incidents' holds on a node the longer one stays
		}
		return cmp.Compare(a.Node, b.Node)
	})
	s.Holds = slices.CompactFunc(holds, func(a, b v1alpha1.NodeHold) bool { return a.Node == b.Node })
	w.markLate(s, before)
	var next time.Time
	for _, h := range s.Holds {
		if h.Until != nil {
			next = instant.Earliest(next, h.Until.Time)
		}
	}
	return next
}

func (w *world) holds(s *v1alpha1.TrainingJobStatus) []v1alpha1.NodeHold {
	if Finished(s) || w.Job.Spec.Suspend || s.Placement == nil {
		return nil
	}
	policy, limit := v1alpha1.HoldOnRecovery, instant.Seconds(defaultHoldSeconds)
	if h := w.Job.Spec.Hold; h != nil {
		policy, limit = h.Policy, instant.Seconds(ptr.Deref(h.Seconds, defaultHoldSeconds))
	}
	if policy == v1alpha1.HoldAlways {
		return w.standing(s)
	}
	var holds []v1alpha1.NodeHold
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" {
			continue
		}
		until := metav1.NewTime(lastRestart(inc).Add(limit).Truncate(time.Second))
		if !until.After(w.Now) {
			continue
		}
		w.everyRankOf(inc, func(r gang.Rank) bool {
			if node := gang.NodeOf(s.Placement, r); !yields(inc, r) && w.returning(s, inc, r, node) && w.holdable(s, node, r.Task) {
				holds = append(holds, v1alpha1.NodeHold{Node: node, Until: &until})
			}
			return true
		})
	}
	return holds
}

// standing holds every good node of the job, but those that it may have lost by right.
func (w *world) standing(s *v1alpha1.TrainingJobStatus) []v1alpha1.NodeHold {
	var holds []v1alpha1.NodeHold
	gang.EachRank(w.Effective, func(r gang.Rank) {
		lost := slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return yields(&inc, r) })
		if node := gang.NodeOf(s.Placement, r); !lost && w.holdable(s, node, r.Task) {
			holds = append(holds, v1alpha1.NodeHold{Node: node})
		}
	})
	return holds
}

// returning reports whether a rank is being restarted. A hold stays until it is ready:
// to give it up as soon as the pod is bound would take one more write of the status.
// A node that the rank came to without a hold needs none any more.
func (w *world) returning(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank, node string) bool {
	return w.State(s, r) < gang.Bound || (restarted(inc) && w.State(s, r) < gang.Working && placement.Held(s, node))
}

// holdable reports whether a node may take a rank of the task, or is held for one and
// only does not answer just now.
func (w *world) holdable(s *v1alpha1.TrainingJobStatus, node, task string) bool {
	if w.places(s).Usable(node, task) {
		return true
	}
	n, exists := w.Nodes[node]
	return exists && placement.Held(s, node) && !n.Ready && !n.Unschedulable && !n.OutOfService && !placement.Excluded(s, node)
}

// yields reports whether another job may have a rank's node by right: the one that
// preempted it, or whoever came while the job was suspended.
func yields(inc *v1alpha1.Incident, r gang.Rank) bool {
	return inc.Outcome == "" && (inc.Trigger == v1alpha1.JobResumed || (inc.Class == v1alpha1.ClassPreemption && names(inc, r)))
}

// yielding reports whether a job waits its turn like any other.
func yielding(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && (inc.Trigger == v1alpha1.JobResumed || inc.Class == v1alpha1.ClassPreemption)
	})
}

// NextHoldEnd is when the first of a node's holds ends; zero where none does.
func NextHoldEnd(taints []corev1.Taint) time.Time {
	var next time.Time
	for _, t := range taints {
		if !strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) {
			continue
		}
		if until, err := strconv.ParseInt(t.Value, 10, 64); err == nil {
			next = instant.Earliest(next, time.Unix(until, 0))
		}
	}
	return next
}
