package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

func TestSignalsFor(t *testing.T) {
	report := func(change func(*v1alpha1.HealthReport)) v1alpha1.HealthReport {
		r := v1alpha1.HealthReport{
			Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0), Message: "off the bus",
		}
		change(&r)
		return r
	}
	xid79 := policies.Signal{Name: "XID79", Failed: true, Message: "gpu/GPU-1: off the bus"}
	tests := map[string]struct {
		change func(*v1alpha1.HealthReport)
		want   []policies.Signal
	}{
		"it concerns all pods of the node": {func(*v1alpha1.HealthReport) {}, []policies.Signal{xid79}},
		"it concerns this pod":             {func(r *v1alpha1.HealthReport) { r.Pods = []string{"research/x", "research/mine"} }, []policies.Signal{xid79}},
		"it concerns another":              {func(r *v1alpha1.HealthReport) { r.Pods = []string{"research/x"} }, nil},
		"nobody uses it":                   {func(r *v1alpha1.HealthReport) { r.Unused = true }, nil},
		"it is degraded": {
			func(r *v1alpha1.HealthReport) { r.State = v1alpha1.HealthStateDegraded },
			[]policies.Signal{{Name: "XID79", Message: "gpu/GPU-1: off the bus"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			equal(t, "signals", tc.want, signalsFor("research/mine", []v1alpha1.HealthReport{report(tc.change)}))
		})
	}
}

// A fault of a GPU moves the pod that holds it, off its node, and no other pod.
func TestFailedGPUMovesItsPod(t *testing.T) {
	e := running(t)
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeHealthStatus{
		Reports: []v1alpha1.HealthReport{{
			Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0),
			Pods: []string{"research/llm-1-worker-1"},
		}},
	}}
	e.must(e.api.Create(t.Context(), health))
	e.calls = nil
	_, err := e.reconcile()
	e.must(err)
	equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm", "delete *v1.Pod llm-1-worker-1"}, e.calls)
	inc := e.job().Status.Incidents[0]
	equal(t, "trigger", v1alpha1.HealthFailed, inc.Trigger)
	equal(t, "signal", "XID79", inc.Cause.Signal)
	equal(t, "excluded", "n1", e.job().Status.ExcludedNodes[0].Name)

	e.volcano(1)
	e.settle()
	in := e.pod("llm-1-worker-1").Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values
	equal(t, "may go to", []string{"host-n0", "host-n2"}, in)
}
