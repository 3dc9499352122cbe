// The kubelet's events about pods that do not start, where their status gives no reason.

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// maxEventLookups is the number of a job's pods whose events are read one by one within lookAgain. Those of more pods are read together.
	maxEventLookups = 4
	// lookAgain is how long after its events were read those of a pod are not read again. Passes come every 30 s for such a pod, and
	// one may come a moment early.
	lookAgain = 29 * time.Second
	// maxEvents is how many events of an object are read. Their writers merge similar ones, and write at most some 40 of an object an
	// hour, which is how long they stay (EventCorrelator in client-go). Others of the namespace may write any number.
	maxEvents = 50
	// minWarnings and maxWarnings bound how many warnings of a namespace are read at once for the pods of a job: two for each pod.
	minWarnings, maxWarnings = 500, 10000
	// maxStartMessage is how much of a message is kept, in bytes.
	maxStartMessage = 1024
)

// eventLook is what events said of an object, and when they were read; its time is zero where they were not. For each list of the events of
// an object the API server reads all of its namespace.
type eventLook struct {
	time  time.Time
	alone bool // it was for this object alone
	said  gang.StartProblem
}

// together stands for the pods of a job whose events were read at once.
const together = ""

// keepLooks returns what is remembered of these objects, and nothing of others.
func keepLooks(known map[string]eventLook, uids ...string) map[string]eventLook {
	out := make(map[string]eventLook, len(uids))
	for _, uid := range uids {
		out[uid] = known[uid]
	}
	return out
}

// observeStartProblems reads why pods do not start from the kubelet's events, for pods that have not started for as long
// as starting may take and whose status gives no reason: their sandbox, or a volume, cannot be made.
func (r *TrainingJobReconciler) observeStartProblems(ctx context.Context, o *gang.Observation) error {
	var silent, due []*gang.Pod
	var uids []string
	for i := range o.Pods {
		if p := &o.Pods[i]; gang.StartsSilently(p, o.Now) {
			silent, uids = append(silent, p), append(uids, p.UID)
		}
	}
	if len(silent) > 0 {
		uids = append(uids, together)
	}
	m := r.memoryOf(o.Job)
	m.podEvents = keepLooks(m.podEvents, uids...)
	looks := m.podEvents
	left := maxEventLookups
	for _, p := range silent {
		if o.Now.Sub(looks[p.UID].time) >= lookAgain {
			due = append(due, p)
		} else if looks[p.UID].alone {
			left--
		}
	}
	if len(due) > maxEventLookups && o.Now.Sub(looks[together].time) >= lookAgain {
		if err := r.lookTogether(ctx, o, due, looks); err != nil {
			return err
		}
	}
	if err := r.lookAlone(ctx, o, due, looks, left); err != nil {
		return err
	}
	for _, p := range silent {
		p.StartProblem = looks[p.UID].said
	}
	return nil
}

// lookTogether reads the warnings of a namespace for many pods at once. If it does not read all of them, pods without one have yet to be looked
// at.
func (r *TrainingJobReconciler) lookTogether(ctx context.Context, o *gang.Observation, pods []*gang.Pod, looks map[string]eventLook) error {
	most := int64(min(max(minWarnings, 2*len(pods)), maxWarnings))
	events, all, err := r.eventsWith(ctx, o.Job.Namespace, fields.Set{"type": corev1.EventTypeWarning, "source": "kubelet"}, most)
	if err != nil {
		return fmt.Errorf("list events of pods: %w", err)
	}
	looks[together] = eventLook{time: o.Now}
	byPod := map[string][]corev1.Event{}
	for _, e := range events {
		byPod[string(e.InvolvedObject.UID)] = append(byPod[string(e.InvolvedObject.UID)], e)
	}
	for _, p := range pods {
		if found := byPod[p.UID]; all || len(found) > 0 {
			looks[p.UID] = eventLook{time: o.Now, said: lastWarning(found)}
		}
	}
	return nil
}

// lookAlone reads the events of single pods, those at which nobody has looked for the longest time first.
func (r *TrainingJobReconciler) lookAlone(ctx context.Context, o *gang.Observation, pods []*gang.Pod, looks map[string]eventLook, most int) error {
	slices.SortFunc(pods, func(a, b *gang.Pod) int {
		return cmp.Or(looks[a.UID].time.Compare(looks[b.UID].time), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range pods[:min(len(pods), max(most, 0))] {
		if looks[p.UID].time.Equal(o.Now) {
			return nil
		}
		events, _, err := r.eventsWith(ctx, o.Job.Namespace, fields.Set{"involvedObject.uid": p.UID, "type": corev1.EventTypeWarning, "source": "kubelet"}, maxEvents)
		if err != nil {
			return fmt.Errorf("list events of pod %s: %w", p.Name, err)
		}
		looks[p.UID] = eventLook{time: o.Now, alone: true, said: lastWarning(events)}
	}
	return nil
}

// lastWarning is what the last of some warnings says. Their times are of seconds, and the end of the name of an event is when it first happened, in
// nanoseconds (GenerateEventName in client-go).
func lastWarning(warnings []corev1.Event) gang.StartProblem {
	if len(warnings) == 0 {
		return gang.StartProblem{}
	}
	last := slices.MaxFunc(warnings, func(a, b corev1.Event) int {
		return cmp.Or(a.LastTimestamp.Compare(b.LastTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return gang.StartProblem{Reason: last.Reason, Message: cut(last.Message, maxStartMessage)}
}

// eventsWith lists events of a namespace, a number of them at most, and reports whether these are all.
func (r *TrainingJobReconciler) eventsWith(ctx context.Context, namespace string, selected fields.Set, most int64) (events []corev1.Event, all bool, err error) {
	list := &corev1.EventList{}
	err = r.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: selected.AsSelector()}, client.Limit(most))
	return list.Items, list.Continue == "", err
}
