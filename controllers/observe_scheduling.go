// What Volcano says of pods that have no node, and of pods that it cannot make.

package controllers

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// unschedulable is what the scheduler says of a pod for which it has found no node.
func unschedulable(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// untried is what Volcano's gang plugin says of a pod for which the scheduler has tried no node, and of whose gang it
// has tried none: it names no origin of the failure (JobInfo.FitError in 1.14.1).
func untried(pod *corev1.Pod) bool {
	if !unschedulable(pod) {
		return false
	}
	message := conditionOf(pod, corev1.PodScheduled).Message
	return strings.HasPrefix(message, "pod group is not ready") && !strings.Contains(message, "nodes are unavailable") &&
		!strings.Contains(message, "Origin reason")
}

const (
	// fitErrorsFor is how long the reason of a scheduler's round is told after it. Volcano runs a round each second.
	fitErrorsFor = time.Minute
	// maxFitErrors is how many reasons are told.
	maxFitErrors = 5
)

// noteFitErrors adds the reasons that a job's pods have now, and returns those of late. A job of which no pod looks for a node has none. A
// round of Volcano tells of several resources that a node lacks only one, of several HyperNodes the last one, and of several pods the first
// one, in the order of Go's maps (in 1.14.1).
func (m *memory) noteFitErrors(pods []corev1.Pod, now time.Time) []string {
	seen := map[string]time.Time{}
	looks := false
	for i := range pods {
		looks = looks || unschedulable(&pods[i])
		for _, reason := range reasonsOf(&pods[i]) {
			seen[reason] = now
		}
	}
	if !looks {
		m.fitErrors = nil
		return nil
	}
	for reason, at := range m.fitErrors {
		if _, again := seen[reason]; !again && now.Sub(at) < fitErrorsFor {
			seen[reason] = at
		}
	}
	m.fitErrors = seen
	reasons := slices.Sorted(maps.Keys(seen))
	if more := len(reasons) - maxFitErrors; more > 0 {
		return append(reasons[:maxFitErrors], fmt.Sprintf("%d more", more))
	}
	return reasons
}

var (
	// nodeCount is the number of nodes before a reason, and taintValue the value of a taint in it.
	nodeCount  = regexp.MustCompile(`^[0-9]+ `)
	taintValue = regexp.MustCompile(`\{([^:{}]+): [^{}]*\}`)
)

// maxReason is how much is told of one reason, in bytes.
const maxReason = 200

// reasonsOf are the reasons in what the scheduler says of a pod, as in "0/8 nodes are unavailable: 6 Insufficient cpu, 2 node(s) had
// untolerated taint {x: y}.", without the numbers of nodes and the values of taints, which change from round to round.
func reasonsOf(pod *corev1.Pod) []string {
	if !unschedulable(pod) {
		return nil
	}
	_, list, found := strings.Cut(conditionOf(pod, corev1.PodScheduled).Message, "nodes are unavailable: ")
	if !found {
		return nil
	}
	var reasons []string
	for part := range strings.SplitSeq(strings.TrimSuffix(list, "."), ", ") {
		if begin := nodeCount.FindString(part); begin != "" || len(reasons) == 0 {
			reasons = append(reasons, strings.TrimPrefix(part, begin))
		} else {
			reasons[len(reasons)-1] += ", " + part // a reason with a comma in it
		}
	}
	for i, reason := range reasons {
		reason = taintValue.ReplaceAllString(reason, "{$1}")
		if strings.Contains(reason, v1alpha1.HoldTaintPrefix) {
			reason = policies.HeldByOthers // its taint has a time in it
		}
		reasons[i] = cut(reason, maxReason)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// reasonFailedCreate is the reason of Volcano's events about pods that it could not make (job_controller_actions.go in 1.14.1).
const reasonFailedCreate = "FailedCreate"

var (
	// apiMessage is the message of an API server's error in Volcano's events, which print it as a Go value.
	apiMessage = regexp.MustCompile(`Message:("(?:[^"\\]|\\.)*")`)
	// whichPod is the name of a pod in such a message.
	whichPod = regexp.MustCompile(`^pods "[^"]*" is `)
)

// observeCreateErrors reads why Volcano makes no more pods for a gang that has lacked some for a while.
func (r *TrainingJobReconciler) observeCreateErrors(ctx context.Context, o *gang.Observation) error {
	m, since := r.memoryOf(o.Job), policies.LackingSince(o)
	at := slices.IndexFunc(o.VolcanoJobs, func(v gang.VolcanoJob) bool { return v.Attempt == o.Job.Status.Attempt })
	if at < 0 || since.IsZero() || o.Now.Sub(since) < policies.LacksFor {
		m.createErrors = nil
		return nil
	}
	v := &o.VolcanoJobs[at]
	m.createErrors = keepLooks(m.createErrors, v.UID)
	looks := m.createErrors
	if o.Now.Sub(looks[v.UID].time) >= policies.LacksFor {
		events, _, err := r.eventsWith(ctx, o.Job.Namespace, fields.Set{"involvedObject.uid": v.UID, "reason": reasonFailedCreate}, maxEvents)
		if err != nil {
			return fmt.Errorf("list events of Volcano Job %s: %w", v.Name, err)
		}
		said := createError(events, incompleteSince(o))
		if said == "" {
			if said, err = r.takenName(ctx, o); err != nil {
				return err
			}
		}
		looks[v.UID] = eventLook{time: o.Now, said: gang.StartProblem{Message: said}}
	}
	v.CreateError = looks[v.UID].said.Message
	return nil
}

// incompleteSince is since when the gang has not been complete and has got no further pod, to the second, as objects show it: a
// process that was started since knows it, too.
func incompleteSince(o *gang.Observation) time.Time {
	var since time.Time
	if c := meta.FindStatusCondition(o.Job.Status.Conditions, v1alpha1.ConditionScheduled); c != nil && c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Attempt == o.Job.Status.Attempt {
			since = instant.Latest(since, p.CreatedTime)
		}
	}
	return since
}

// maxCreateError is how much is told of an error, in bytes.
const maxCreateError = 512

// createError is why pods could not be made since a time, in the API server's own words. Of several errors it is always the same
// one: Volcano collects them in any order.
func createError(events []corev1.Event, since time.Time) string {
	var told []string
	for i := range events {
		if events[i].LastTimestamp.Time.Before(since.Truncate(time.Second)) {
			continue // of what was mended since
		}
		found := apiMessage.FindAllStringSubmatch(events[i].Message, -1)
		for _, f := range found {
			if message, err := strconv.Unquote(f[1]); err == nil {
				told = append(told, whichPod.ReplaceAllString(message, "pods are "))
			}
		}
		if len(found) == 0 {
			told = append(told, events[i].Message)
		}
	}
	if len(told) == 0 {
		return ""
	}
	first := slices.Min(told)
	return cut(first, maxCreateError)
}
