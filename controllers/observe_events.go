// The kubelet's events about pods that do not start, where their status gives no reason.

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// maxEventLookups is of how many pods of a job the events are read within lookAgain. The others fail for the same reason, more
	// often than not.
	maxEventLookups = 4
	// lookAgain is how long after its events were read those of a pod are not read again. Passes come every 30 s for such a pod, and
	// one may come a moment early.
	lookAgain = 29 * time.Second
	// maxEvents is how many events of an object are read. Their writers merge similar ones, and write at most some 40 of an object an
	// hour, which is how long they stay (EventCorrelator in client-go). Others of the namespace may write any number.
	maxEvents = 50
	// maxStartMessage is how much of a message is kept, in bytes.
	maxStartMessage = 1024
)

// eventMemory remembers what events said of objects. For each list of the events of an object the API server reads all of its
// namespace.
type eventMemory struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]map[string]eventLook // by job, and the UID of what the events are about
}

// eventLook is what was found, and when; its time is zero where nobody has looked.
type eventLook struct {
	time time.Time
	said gang.StartProblem
}

// keep returns what is remembered of these objects of a job, and forgets the others. Only this job's passes use the result, one after
// the other.
func (m *eventMemory) keep(job types.NamespacedName, uids ...string) map[string]eventLook {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.jobs[job]
	delete(m.jobs, job)
	if len(uids) == 0 {
		return nil
	}
	if m.jobs == nil {
		m.jobs = map[types.NamespacedName]map[string]eventLook{}
	}
	m.jobs[job] = make(map[string]eventLook, len(uids))
	for _, uid := range uids {
		m.jobs[job][uid] = known[uid]
	}
	return m.jobs[job]
}

// observeStartProblems reads why pods do not start from the kubelet's events, for pods that have not started for as long
// as starting may take and whose status gives no reason: their sandbox, or a volume, cannot be made. Pods at which nobody has looked
// for the longest time come first.
func (r *TrainingJobReconciler) observeStartProblems(ctx context.Context, o *gang.Observation) error {
	var silent []*gang.Pod
	var uids []string
	for i := range o.Pods {
		if p := &o.Pods[i]; gang.StartsSilently(p, o.Now) {
			silent, uids = append(silent, p), append(uids, p.UID)
		}
	}
	looks := r.podEvents.keep(client.ObjectKeyFromObject(o.Job), uids...)
	slices.SortFunc(silent, func(a, b *gang.Pod) int {
		return cmp.Or(looks[a.UID].time.Compare(looks[b.UID].time), cmp.Compare(a.Name, b.Name))
	})
	isRecent := func(p *gang.Pod) bool { return o.Now.Sub(looks[p.UID].time) < lookAgain }
	left := maxEventLookups
	for _, p := range silent {
		if isRecent(p) {
			left--
		}
	}
	for _, p := range silent {
		if left > 0 && !isRecent(p) {
			left--
			problem, err := r.lastWarning(ctx, o.Job.Namespace, p.UID)
			if err != nil {
				return fmt.Errorf("list events of pod %s: %w", p.Name, err)
			}
			looks[p.UID] = eventLook{o.Now, problem}
		}
		p.StartProblem = looks[p.UID].said
	}
	return nil
}

// lastWarning is the last warning of a kubelet about a pod.
func (r *TrainingJobReconciler) lastWarning(ctx context.Context, namespace, uid string) (gang.StartProblem, error) {
	events, err := r.eventsWith(ctx, namespace, fields.Set{"involvedObject.uid": uid, "type": corev1.EventTypeWarning, "source": "kubelet"})
	if err != nil || len(events) == 0 {
		return gang.StartProblem{}, err
	}
	last := slices.MaxFunc(events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return gang.StartProblem{Reason: last.Reason, Message: cut(last.Message, maxStartMessage)}, nil
}

func (r *TrainingJobReconciler) eventsWith(ctx context.Context, namespace string, selected fields.Set) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := r.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: selected.AsSelector()}, client.Limit(maxEvents))
	return list.Items, err
}
