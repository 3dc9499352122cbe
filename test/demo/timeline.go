// The timeline: an incident as it goes, each moment with its time since the failure.

package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// timeline follows one incident by one pod that fell in it.
type timeline struct {
	failed    time.Time
	incidents int
	pod       client.ObjectKey
	uid       types.UID
	said      map[string]bool
	ruled     string    // the trigger and the rule that were told last
	deleted   time.Time // when the pod was seen to be gone
}

func (d *demo) timeline(pod corev1.Pod) *timeline {
	return &timeline{
		failed: time.Now(), incidents: len(d.job.Status.Incidents),
		pod: client.ObjectKeyFromObject(&pod), uid: pod.UID, said: map[string]bool{},
	}
}

// follow prints the moments of the incident until it is over.
func (d *demo) follow(t *timeline) error {
	return d.await("the incident to be over", func() (bool, error) {
		if len(d.job.Status.Incidents) <= t.incidents {
			return false, nil
		}
		inc := d.job.Status.Incidents[t.incidents]
		t.rule(&inc)
		for _, step := range inc.Steps {
			t.say("step "+string(step.Action), step.Time.Time, reasonOf(step))
		}
		if !t.deleted.IsZero() { // seen at the last look, so that the step behind it has been read
			t.say("deleted", t.deleted, t.pod.Name)
		}
		pod := &corev1.Pod{}
		err := d.Client().Get(d.ctx, t.pod, pod)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if t.deleted.IsZero() && (apierrors.IsNotFound(err) || pod.UID != t.uid) {
			t.deleted = time.Now()
		}
		if inc.Outcome == "" {
			return false, nil
		}
		if inc.PlacedTime != nil {
			t.say("gate lifted", inc.PlacedTime.Time, "pinned to its place")
		}
		t.say("running", inc.EndTime.Time, "incident "+string(inc.Outcome))
		return d.job.Status.State == v1alpha1.StateRunning, nil
	})
}

// rule prints what the incident is about and which rule it follows: a failure that says more may change both.
func (t *timeline) rule(inc *v1alpha1.Incident) {
	ruled := string(inc.Trigger) + ", rule " + inc.Rule
	switch t.ruled {
	case ruled:
	case "":
		t.say("detected", inc.StartTime.Time, ruled)
	default:
		at := time.Now()
		if n := len(inc.Steps); n > 0 && inc.Steps[n-1].Time.Time.Before(at) {
			at = inc.Steps[n-1].Time.Time // which came in the same write, or before
		}
		t.say("now "+string(inc.Trigger), at, "rule "+inc.Rule)
	}
	t.ruled = ruled
}

// reasonOf says what matters of a step. The demo has a new attempt only where its Volcano Job is over: no pod could come back in it.
func reasonOf(step v1alpha1.FiredStep) string {
	if step.Action == v1alpha1.RestartJob {
		return "at once, because Volcano had ended its Job"
	}
	return "recorded before anything is deleted"
}

func (t *timeline) say(moment string, at time.Time, what string) {
	if t.said[moment] {
		return
	}
	t.said[moment] = true
	say("  %+8.3fs  %-16s %s", at.Sub(t.failed).Seconds(), moment, what)
}
