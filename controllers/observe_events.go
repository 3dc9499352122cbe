// The kubelet's events about pods that do not start, where their status gives no reason.

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// maxEventLookups is of how many pods in one pass the events are read. The others fail for the same reason, more often
// than not, and are read as soon as these start.
const maxEventLookups = 4

// observeStartProblems reads why pods do not start from the kubelet's events, for pods that have not started for as long
// as starting may take and whose status gives no reason: their sandbox, or a volume, cannot be made.
func (r *TrainingJobReconciler) observeStartProblems(ctx context.Context, o *gang.Observation) error {
	lookups := 0
	for i := range o.Pods {
		p := &o.Pods[i]
		if lookups == maxEventLookups || !gang.StartsSilently(p, o.Now) {
			continue
		}
		lookups++
		problem, err := r.lastWarning(ctx, o.Job.Namespace, p.UID)
		if err != nil {
			return fmt.Errorf("list events of pod %s: %w", p.Name, err)
		}
		p.StartProblem = problem
	}
	return nil
}

// lastWarning is the last warning about a pod.
func (r *TrainingJobReconciler) lastWarning(ctx context.Context, namespace, uid string) (gang.StartProblem, error) {
	list := &corev1.EventList{}
	err := r.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.uid": uid, "type": corev1.EventTypeWarning}),
	})
	if err != nil {
		return gang.StartProblem{}, err
	}
	var last *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if e.Source.Component == "kubelet" && (last == nil || e.LastTimestamp.After(last.LastTimestamp.Time)) {
			last = e
		}
	}
	if last == nil {
		return gang.StartProblem{}, nil
	}
	return gang.StartProblem{Reason: last.Reason, Message: last.Message}, nil
}
