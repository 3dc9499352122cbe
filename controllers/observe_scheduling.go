// What Volcano says of pods that have no node, and of pods that it cannot make.

package controllers

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies"
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

// nodeCount is the number of nodes before a reason.
var nodeCount = regexp.MustCompile(`^[0-9]+ `)

// fitErrors are the reasons in what the scheduler says of a pod, as in "0/8 nodes are unavailable: 6 Insufficient cpu, 2 node(s) had
// untolerated taint {x: y}.": sorted and without the numbers of nodes, which change from round to round.
func fitErrors(pod *corev1.Pod) []string {
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
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// reasonFailedCreate is the reason of Volcano's events about pods that it could not make (job_controller_actions.go in 1.14.1).
const reasonFailedCreate = "FailedCreate"

// apiMessage is the message of an API server's error in Volcano's events, which print it as a Go value.
var apiMessage = regexp.MustCompile(`Message:("(?:[^"\\]|\\.)*")`)

// observeCreateErrors reads why Volcano makes no more pods for a gang that has lacked some for a while.
func (r *TrainingJobReconciler) observeCreateErrors(ctx context.Context, o *policies.Observation) error {
	if o.LackingSince.IsZero() || o.Now.Sub(o.LackingSince) < policies.LacksFor {
		return nil
	}
	for i := range o.VolcanoJobs {
		v := &o.VolcanoJobs[i]
		if v.Attempt != o.Job.Status.Attempt {
			continue
		}
		list := &corev1.EventList{}
		err := r.Live.List(ctx, list, client.InNamespace(o.Job.Namespace), client.MatchingFieldsSelector{
			Selector: fields.SelectorFromSet(fields.Set{"involvedObject.uid": v.UID, "reason": reasonFailedCreate}),
		})
		if err != nil {
			return fmt.Errorf("list events of Volcano Job %s: %w", v.Name, err)
		}
		v.CreateError = createError(list.Items)
	}
	return nil
}

// maxCreateError is how much is told of an error, in bytes.
const maxCreateError = 512

// createError is the last of Volcano's errors, in the API server's own words.
func createError(events []corev1.Event) string {
	if len(events) == 0 {
		return ""
	}
	last := slices.MaxFunc(events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	message := last.Message
	if found := apiMessage.FindStringSubmatch(message); found != nil {
		if unquoted, err := strconv.Unquote(found[1]); err == nil {
			message = unquoted
		}
	}
	return strings.ToValidUTF8(message[:min(len(message), maxCreateError)], "")
}
