// Silence: programs that run while their supervisors have no stream to this manager, as where a NetworkPolicy is between them.

package controllers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// silenceTold is how long supervisors of a job have to be silent before its users are told: longer than they take to find a new leader,
// since they try every 30 s at least.
const silenceTold = 2 * time.Minute

// silenceRepeated is how long it takes until they are told again: as long as the API server keeps an event by default.
const silenceRepeated = time.Hour

// silence is that of a job's supervisors.
type silence struct {
	namespace, queue string

	ranks int
	since time.Time
	due   time.Time // when the job's users are told
}

// observeSilence notes the ranks whose supervisors have been silent for so long that users are told.
func (r *TrainingJobReconciler) observeSilence(o *gang.Observation) {
	names := silent(o)
	if s := r.memoryOf(o.Job).noteSilence(o, len(names)); len(names) > 0 && !o.Now.Before(s.since.Add(silenceTold)) {
		o.SilentRanks = names
	}
}

// reportSilence counts the running programs whose supervisors are not heard, and tells the job's users where some have not been for a while.
// It returns when it is due next; zero for never.
func (r *TrainingJobReconciler) reportSilence(o *gang.Observation) time.Time {
	if r.Supervision == nil || o.Job.Spec.Supervisor == nil {
		return time.Time{}
	}
	names := silent(o)
	s := r.memoryOf(o.Job).noteSilence(o, len(names))
	switch {
	case len(names) == 0:
		return time.Time{}
	case o.Now.Before(s.due):
		return s.due
	}
	s.due = o.Now.Add(silenceRepeated)
	r.tell(o.Job, corev1.EventTypeWarning, "SupervisorsNotConnected", "Connect", fmt.Sprintf(
		"no stream for %s or more from the supervisors of %s: their programs run, but cannot be restarted in place, and one that fails waits for managerTimeoutSeconds. "+
			"Their containers' logs say why, in lines with from=lockstep-run; NetworkPolicies have to let them reach %s and the cluster's DNS",
		silenceTold, named(names), r.Supervision.Pods.Address))
	return s.due
}

// silent are the ranks whose programs run and whose supervisors are not heard.
func silent(o *gang.Observation) (names []string) {
	for i := range o.Pods {
		p := &o.Pods[i]
		runs := p.Phase == corev1.PodRunning && !p.StartedTime.IsZero() && !p.Deleting && !p.Completing
		if runs && p.Process == nil && !p.Spare && isSupervised(o, p.Task) {
			names = append(names, fmt.Sprintf("%s-%d", p.Task, p.Index))
		}
	}
	slices.Sort(names)
	return names
}

func isSupervised(o *gang.Observation, task string) bool {
	for i := range o.Job.Spec.Tasks {
		if t := &o.Job.Spec.Tasks[i]; t.Name == task {
			return !t.Independent
		}
	}
	return false
}

// noteSilence keeps how many ranks of a job are silent.
func (m *memory) noteSilence(o *gang.Observation, ranks int) *silence {
	if m.silence == nil {
		m.silence = &silence{namespace: o.Job.Namespace, queue: queueLabel(o.Job)}
	}
	s := m.silence
	if s.ranks == 0 {
		s.since, s.due = o.Now, o.Now.Add(silenceTold)
	}
	silentSupervisors.WithLabelValues(s.namespace, s.queue).Add(float64(ranks - s.ranks))
	s.ranks = ranks
	return s
}

// endSilence takes a job out of the gauge.
func (m *memory) endSilence() {
	if s := m.silence; s != nil {
		silentSupervisors.WithLabelValues(s.namespace, s.queue).Sub(float64(s.ranks))
		m.silence = nil
	}
}
