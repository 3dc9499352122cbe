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
		t.say("detected", inc.StartTime.Time, string(inc.Trigger)+", rule "+inc.Rule)
		for _, step := range inc.Steps {
			t.say("step "+string(step.Action), step.Time.Time, "recorded before anything is deleted")
		}
		pod := &corev1.Pod{}
		err := d.Client().Get(d.ctx, t.pod, pod)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if apierrors.IsNotFound(err) || pod.UID != t.uid {
			t.say("deleted", time.Now(), t.pod.Name)
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

func (t *timeline) say(moment string, at time.Time, what string) {
	if t.said[moment] {
		return
	}
	t.said[moment] = true
	say("  %+8.3fs  %-16s %s", at.Sub(t.failed).Seconds(), moment, what)
}
