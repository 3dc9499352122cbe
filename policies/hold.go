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
	"github.com/lockstep-dev/lockstep/policies/incident"
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

// HoldValue is the value of the taint for one hold. No two holds have the same: a cache that is behind may show the taint of an
// earlier hold, which was released since.
func HoldValue(h v1alpha1.NodeHold) string {
	value := v1alpha1.HoldStanding
	if h.Until != nil {
		value = strconv.FormatInt(h.Until.Unix(), 10)
	}
	if h.ID != "" { // unlike that of an earlier version of the manager
		value += "-" + h.ID
	}
	return value
}

// holdEnd returns when a hold of this value ends; zero for a standing one. It returns false for a value that no manager could have
// written.
func holdEnd(value string) (time.Time, bool) {
	end, _, _ := strings.Cut(value, "-")
	if end == v1alpha1.HoldStanding {
		return time.Time{}, true
	}
	until, err := strconv.ParseInt(end, 10, 64)
	return time.Unix(until, 0), err == nil
}

// HoldExpired reports whether a hold of this value has ended. A value that no manager could have written has.
func HoldExpired(value string, now time.Time) bool {
	end, ok := holdEnd(value)
	return !ok || (!end.IsZero() && end.Unix() <= now.Unix())
}

// hold says in status which nodes are held, and returns when the next hold ends.
func (j job) hold(s *v1alpha1.TrainingJobStatus) time.Time {
	holds, before := j.holds(s), s.Holds
	slices.SortFunc(holds, func(a, b v1alpha1.NodeHold) int {
		if a.Node == b.Node && a.Until != nil && b.Until != nil {
			return b.Until.Compare(a.Until.Time) // of two incidents' holds on a node the longer one stays
		}
		return cmp.Compare(a.Node, b.Node)
	})
	holds = slices.CompactFunc(holds, func(a, b v1alpha1.NodeHold) bool { return a.Node == b.Node })
	var next time.Time // what is refused changes the status when it ends, too
	for _, h := range holds {
		if h.Until != nil {
			next = instant.Earliest(next, h.Until.Time)
		}
	}
	var refused refusedHolds
	s.Holds, refused = j.grant(s, holds)
	j.describeRefusedHolds(s, refused)
	j.markBegun(s, before)
	if len(refused.overLimit) > 0 {
		next = instant.Earliest(next, j.Now.Add(queueLimitCheck))
	}
	return next
}

func (j job) holds(s *v1alpha1.TrainingJobStatus) []v1alpha1.NodeHold {
	if gang.Finished(s) || j.Job.Spec.Suspend || s.Placement == nil {
		return nil
	}
	policy, limit := v1alpha1.HoldOnRecovery, instant.Seconds(defaultHoldSeconds)
	if h := j.Job.Spec.Hold; h != nil {
		policy, limit = h.Policy, instant.Seconds(ptr.Deref(h.Seconds, defaultHoldSeconds))
	}
	if policy == v1alpha1.HoldAlways && !j.HoldLimits.NoStanding {
		return j.standing(s)
	}
	var holds []v1alpha1.NodeHold
	for i := range s.Incidents {
		inc := &s.Incidents[i]
		if inc.Outcome != "" {
			continue
		}
		until := metav1.NewTime(incident.LastRestart(inc).Add(limit).Truncate(time.Second))
		if !until.After(j.Now) {
			continue
		}
		j.EveryRankOf(inc, func(r gang.Rank) bool {
			if node := gang.NodeOf(s.Placement, r); !yields(inc, r) && j.returning(s, inc, r, node) && j.holdable(s, node, r.Task) {
				holds = append(holds, v1alpha1.NodeHold{Node: node, Until: &until})
			}
			return true
		})
	}
	return holds
}

// standing holds every usable node of the job, except those that a preemptor, or a job that came while this one was suspended,
// may use.
func (j job) standing(s *v1alpha1.TrainingJobStatus) []v1alpha1.NodeHold {
	var holds []v1alpha1.NodeHold
	gang.EachRank(j.Effective, func(r gang.Rank) {
		lost := slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return yields(&inc, r) })
		if node := gang.NodeOf(s.Placement, r); !lost && j.holdable(s, node, r.Task) {
			holds = append(holds, v1alpha1.NodeHold{Node: node})
		}
	})
	return holds
}

// returning reports whether a rank is being restarted. A hold stays until it is ready:
// to give it up as soon as the pod is bound would take one more write of the status.
// A node that the rank came to without a hold needs none any more.
func (j job) returning(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, r gang.Rank, node string) bool {
	return j.State(s, r) < gang.Bound || (incident.Restarted(inc) && j.State(s, r) < gang.Working && placement.Held(s, node))
}

// holdable reports whether a node may take a rank of the task, or is held for one and
// only does not answer just now.
func (j job) holdable(s *v1alpha1.TrainingJobStatus, node, task string) bool {
	if j.Places(s).Usable(node, task) {
		return true
	}
	n, exists := j.Nodes[node]
	return exists && placement.Held(s, node) && !n.Ready && !n.Unschedulable && !n.OutOfService && !placement.Excluded(s, node)
}

// yields reports whether another job may take a rank's node: its preemptor, or one that came while the job was suspended.
func yields(inc *v1alpha1.Incident, r gang.Rank) bool {
	return inc.Outcome == "" && (inc.Trigger == v1alpha1.JobResumed || (inc.Class == v1alpha1.ClassPreemption && incident.Names(inc, r)))
}

// NextHoldEnd is when the first of a node's holds ends; zero where none does.
func NextHoldEnd(taints []corev1.Taint) time.Time {
	var next time.Time
	for _, t := range taints {
		if !strings.HasPrefix(t.Key, v1alpha1.HoldTaintPrefix) {
			continue
		}
		if end, ok := holdEnd(t.Value); ok {
			next = instant.Earliest(next, end)
		}
	}
	return next
}

// markBegun gives the holds that begin their ids, and says which nodes were free before they were held: when the hold began, while its
// taint was still to come, or as their pods' deletion has shown since. The status is written only over the version that was observed, so that no other hold has the same id.
func (j job) markBegun(s *v1alpha1.TrainingJobStatus, before []v1alpha1.NodeHold) {
	if len(s.Holds) == 0 {
		return
	}
	vacant := map[string]bool{}
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if node := gang.NodeOf(s.Placement, r); node != "" && !j.occupies(s, r, node) {
			vacant[node] = true
		}
	})
	for i := range s.Holds {
		h := &s.Holds[i]
		if was := placement.HoldOn(before, h.Node); was != nil {
			h.Late, h.ID = was.Late || j.vacated(*was) || (vacant[h.Node] && !j.hasTaint(*was)), was.ID
		} else {
			h.Late, h.ID = vacant[h.Node], j.Job.ResourceVersion
		}
	}
}

// vacated reports whether the pod of a node was gone already, or not as seen, when it was to be deleted under a hold.
func (j job) vacated(h v1alpha1.NodeHold) bool {
	id, found := j.Vacated[h.Node]
	return found && id == h.ID
}

// hasTaint reports whether a node was seen with the taint of a hold, though it may still have the end that the hold had before.
func (j job) hasTaint(h v1alpha1.NodeHold) bool {
	value, id, _ := strings.Cut(j.Nodes[h.Node].Hold, "-")
	return value != "" && id == h.ID
}

// occupies reports whether the room of a rank on its node is taken by its pod, or by the spare whose node it gets.
func (j job) occupies(s *v1alpha1.TrainingJobStatus, r gang.Rank, node string) bool {
	there := func(p *gang.Pod) bool { return p != nil && p.Node == node && !p.Deleting && !p.Finished() }
	found := there(j.Pod(r))
	j.EachSpare(r.Task, func(_ gang.Rank, p *gang.Pod) { found = found || (there(p) && gang.IsStale(s, p)) })
	return found
}
