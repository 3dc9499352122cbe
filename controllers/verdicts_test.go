package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Jobs are looked at for what they believe of a node, once.
func TestWhatOfANodesHealthMattersToJobs(t *testing.T) {
	health := func(version string, verdict *v1alpha1.HealthVerdict, signals ...string) *v1alpha1.NodeHealth {
		h := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: version}}
		h.Status.Verdict = verdict
		for _, signal := range signals {
			h.Status.Reports = append(h.Status.Reports, v1alpha1.HealthReport{Signal: signal, State: v1alpha1.HealthStateFailed})
		}
		return h
	}
	well := &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, AdmittedTime: new(metav1.NewTime(t0))}
	failed := &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, AdmittedTime: new(metav1.NewTime(t0))}
	held := failed.DeepCopy()
	held.HeldBackTime = new(metav1.NewTime(t0))
	quarantined := well.DeepCopy()
	quarantined.QuarantinedTime = new(metav1.NewTime(t0))
	for name, c := range map[string]struct {
		before, after *v1alpha1.NodeHealth
		want          bool
	}{
		"a report without a verdict":          {health("1", well), health("2", well, "XID79"), false},
		"a report that is held back":          {health("1", well, "XID79"), health("2", held, "XID79"), false},
		"a report that is let through":        {health("1", well, "XID79"), health("2", failed, "XID79"), true},
		"another on a node that has failed":   {health("1", failed, "XID79"), health("2", failed, "XID79", "XID48"), true},
		"one that is taken back":              {health("1", failed, "XID79"), health("2", failed), true},
		"a quarantine that ends":              {health("1", quarantined), health("2", well), true},
		"a heartbeat":                         {health("1", failed, "XID79"), health("2", failed, "XID79"), false},
		"what this process has written":       {health("8", well, "XID79"), health("9", failed, "XID79"), false},
		"what somebody wrote since over that": {health("9", well, "XID79"), health("10", failed, "XID79"), true},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Verdicts{}
			v.note(t.Context(), health("9", failed, "XID79"))
			equal(t, "matters", c.want, v.matter(c.before, c.after))
			if name != "what this process has written" {
				equal(t, "to a process that writes no verdicts", c.want, (*Verdicts)(nil).matter(c.before, c.after))
			}
		})
	}
}
