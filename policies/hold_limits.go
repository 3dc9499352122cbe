// Limits of holds: which of the nodes that a job would hold it may hold. A hold keeps all other jobs from a
// node, so that a job has to request half of the node. The manager's flags set further limits.

package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// holdShare is the fraction of a node that a job has to request to hold it, one half: a node of 8 GPUs is held for pods that
	// together request 4.
	holdShare = 2
	// queueLimitCheck is how often a job that its queue's limit keeps from a hold looks again. No event says that another job of the
	// queue has released a node.
	queueLimitCheck = time.Minute
	// maxHolds is how many nodes a job holds at most: the status of a job with so many holds fits into etcd.
	maxHolds = 5000
)

// refusedHolds are the nodes that a job would hold, and may not.
type refusedHolds struct {
	// shared are the nodes of which the job requests too little.
	shared []string
	// overLimit are those beyond the limit of the queue.
	overLimit []string
	// beyond are those for which the status has no room.
	beyond []string
}

// grant returns the holds that a job may have.
func (j job) grant(s *v1alpha1.TrainingJobStatus, holds []v1alpha1.NodeHold) ([]v1alpha1.NodeHold, refusedHolds) {
	var refused refusedHolds
	requested := j.requestedOn(s, holds)
	holds = slices.DeleteFunc(holds, func(h v1alpha1.NodeHold) bool {
		if j.usesHalfOf(h.Node, requested[h.Node]) {
			return false
		}
		refused.shared = append(refused.shared, h.Node)
		return true
	})
	if j.HoldLimits.MaxPerQueue > 0 {
		holds, refused.overLimit = firstHolds(s, holds, j.HoldLimits.MaxPerQueue-j.HeldInQueue)
	}
	holds, refused.beyond = firstHolds(s, holds, maxHolds)
	return holds, refused
}

// firstHolds returns the holds for which there is room, and the nodes of the others. Those that the job has stay: else two jobs that
// exceed a limit together would both give up what they hold.
func firstHolds(s *v1alpha1.TrainingJobStatus, holds []v1alpha1.NodeHold, room int) (granted []v1alpha1.NodeHold, refused []string) {
	held := map[string]bool{}
	for _, h := range s.Holds {
		held[h.Node] = true
	}
	for _, h := range holds {
		if held[h.Node] {
			room--
		}
	}
	granted = slices.DeleteFunc(holds, func(h v1alpha1.NodeHold) bool {
		if held[h.Node] {
			return false
		}
		if room--; room >= 0 {
			return false
		}
		refused = append(refused, h.Node)
		return true
	})
	return granted, refused
}

// deciding are the resources by which a job holds a node.
func (j job) deciding() []corev1.ResourceName {
	return append([]corev1.ResourceName{corev1.ResourceCPU}, j.HoldLimits.Resources...)
}

// requestedOn returns what the ranks on each node that would be held request together of the resources that decide, in thousandths:
// what their pods request, or the template's requests for a rank that has no pod. A rank that has succeeded does not return. One whose
// program ends with 0 because its pod is deleted does.
func (j job) requestedOn(s *v1alpha1.TrainingJobStatus, holds []v1alpha1.NodeHold) map[string][]int64 {
	if len(holds) == 0 {
		return nil
	}
	resources := j.deciding()
	sums := make(map[string][]int64, len(holds))
	for _, h := range holds {
		sums[h.Node] = make([]int64, len(resources))
	}
	gang.EachRank(j.Effective, func(r gang.Rank) {
		sum, known := sums[gang.NodeOf(s.Placement, r)]
		if !known || j.State(s, r) == gang.Succeeded {
			return
		}
		requests := j.requestsOf(r)
		for i, name := range resources {
			quantity := requests[name]
			sum[i] += quantity.MilliValue()
		}
	})
	return sums
}

// requestsOf returns what a rank requests: a pod that takes little, whatever made it so, holds little.
func (j job) requestsOf(r gang.Rank) corev1.ResourceList {
	if p := j.Pod(r); p != nil && p.Requests != nil {
		return p.Requests
	}
	return j.Requests[r.Task]
}

// usesHalfOf reports whether a job requests half of some resource of a node. A resource that the node does not report at present,
// because its device plugin restarts, counts as 0: pods that request it were placed there, so that the node had it.
func (j job) usesHalfOf(node string, requested []int64) bool {
	for i, name := range j.deciding() {
		allocatable := j.Nodes[node].Allocatable[name]
		if requested[i] > 0 && holdShare*requested[i] >= allocatable.MilliValue() {
			return true
		}
	}
	return false
}

// describeRefusedHolds sets the condition that says which holds the job does not get, and why.
func (j job) describeRefusedHolds(s *v1alpha1.TrainingJobStatus, refused refusedHolds) {
	reason := ""
	var messages []string
	add := func(why, message string) {
		if reason == "" {
			reason = why
		}
		messages = append(messages, message)
	}
	if h := j.Job.Spec.Hold; h != nil && h.Policy == v1alpha1.HoldAlways && j.HoldLimits.NoStanding && !j.stopped(s) {
		add(v1alpha1.ReasonStandingHoldsOff, "the manager does not allow hold.policy Always (--allow-standing-holds=false): nodes are held while the job recovers")
	}
	if len(refused.shared) > 0 {
		add(v1alpha1.ReasonNodesShared, fmt.Sprintf("not held, because the job's pods there request less than half of the %s: %s",
			joinResources(j.deciding()), listed(refused.shared)))
	}
	if len(refused.overLimit) > 0 {
		add(v1alpha1.ReasonHoldLimitReached, fmt.Sprintf("not held, because the jobs of queue %s may hold %d nodes at a time (--max-holds-per-queue): %s",
			j.Job.Spec.Queue, j.HoldLimits.MaxPerQueue, listed(refused.overLimit)))
	}
	if len(refused.beyond) > 0 {
		add(v1alpha1.ReasonHoldLimitReached, fmt.Sprintf("not held, because a job holds %d nodes at most: %s", maxHolds, listed(refused.beyond)))
	}
	switch {
	case reason != "":
		j.SetCondition(s, v1alpha1.ConditionHoldsRefused, true, reason, strings.Join(messages, "; "))
	case meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHoldsRefused) != nil:
		j.SetCondition(s, v1alpha1.ConditionHoldsRefused, false, v1alpha1.ReasonHoldsGranted, "no hold is refused")
	}
}

func joinResources(names []corev1.ResourceName) string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, string(name))
	}
	return strings.Join(out, " or ")
}
