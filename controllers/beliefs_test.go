package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Jobs are looked at for what they believe of a node.
func TestWhatOfANodesHealthMattersToJobs(t *testing.T) {
	health := func(verdict *v1alpha1.HealthVerdict, signals ...string) *v1alpha1.NodeHealth {
		h := &v1alpha1.NodeHealth{Status: v1alpha1.NodeHealthStatus{Verdict: verdict}}
		for _, signal := range signals {
			h.Status.Reports = append(h.Status.Reports, v1alpha1.HealthReport{Signal: signal, State: v1alpha1.HealthStateFailed})
		}
		return h
	}
	at := new(metav1.NewTime(t0))
	well := &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, AdmittedTime: at}
	failed := &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, AdmittedTime: at}
	held := &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, AdmittedTime: at, HeldBackTime: at}
	quarantined := &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, AdmittedTime: at, QuarantinedTime: at}
	for name, c := range map[string]struct {
		before, after *v1alpha1.NodeHealth
		want          bool
	}{
		"a report without a verdict":        {health(well), health(well, "XID79"), false},
		"a report that is held back":        {health(well, "XID79"), health(held, "XID79"), false},
		"a report that is let through":      {health(well, "XID79"), health(failed, "XID79"), true},
		"another on a node that has failed": {health(failed, "XID79"), health(failed, "XID79", "XID48"), true},
		"one that is taken back":            {health(failed, "XID79"), health(failed), true},
		"a quarantine that ends":            {health(quarantined), health(well), true},
		"a heartbeat":                       {health(failed, "XID79"), health(failed, "XID79"), false},
	} {
		t.Run(name, func(t *testing.T) { check.Equal(t, "matters", c.want, beliefsMatter(c.before, c.after)) })
	}
}
