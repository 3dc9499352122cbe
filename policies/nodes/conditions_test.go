package nodes

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestWithConditions(t *testing.T) {
	at := metav1.NewTime(began)
	missing := v1alpha1.NodeConditionSource{Type: "example.com/GPUMissing", State: v1alpha1.HealthStateFailed}
	ready := v1alpha1.NodeConditionSource{Type: "AcceleratedHardwareReady", BadStatus: "False", Signal: "HardwareNotReady"}
	condition := func(kind string, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, Reason: "R", Message: "m", LastTransitionTime: at}
	}
	agent := v1alpha1.HealthSource{Name: "dcgm", State: v1alpha1.HealthHealthy}
	own := v1alpha1.HealthReport{Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: v1alpha1.HealthStateFailed}
	bad := v1alpha1.HealthReport{Source: "node-condition/" + missing.Type, Entity: "node", Signal: "GPUMissing", State: v1alpha1.HealthStateFailed, Since: at, Message: "R: m"}
	source := func(name string, state v1alpha1.HealthState) v1alpha1.HealthSource {
		return v1alpha1.HealthSource{Name: name, State: state}
	}
	unknown := v1alpha1.HealthSource{Name: "node-condition/" + missing.Type, State: v1alpha1.HealthUnknown, Message: "m"}
	type status = v1alpha1.NodeHealthStatus
	tests := map[string]struct {
		from       []v1alpha1.NodeConditionSource
		conditions []corev1.NodeCondition
		was, want  *status
	}{
		"nothing is asked for": {conditions: []corev1.NodeCondition{condition(missing.Type, "True")}},
		"no such condition":    {from: []v1alpha1.NodeConditionSource{missing}},
		"well":                 {from: []v1alpha1.NodeConditionSource{missing}, conditions: []corev1.NodeCondition{condition(missing.Type, "False")}, want: &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+missing.Type, v1alpha1.HealthHealthy)}}},
		"ill": {
			from: []v1alpha1.NodeConditionSource{missing}, conditions: []corev1.NodeCondition{condition(missing.Type, "True")},
			want: &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+missing.Type, v1alpha1.HealthHealthy)}, Reports: []v1alpha1.HealthReport{bad}},
		},
		"ill where it is not true, with a signal of its own, degraded by default": {
			from: []v1alpha1.NodeConditionSource{ready}, conditions: []corev1.NodeCondition{condition(ready.Type, "False")},
			want: &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+ready.Type, v1alpha1.HealthHealthy)}, Reports: []v1alpha1.HealthReport{
				{Source: "node-condition/" + ready.Type, Entity: "node", Signal: "HardwareNotReady", State: v1alpha1.HealthStateDegraded, Since: at, Message: "R: m"}}},
		},
		"unknown clears nothing": {
			from: []v1alpha1.NodeConditionSource{missing}, conditions: []corev1.NodeCondition{condition(missing.Type, "Unknown")},
			was:  &status{Reports: []v1alpha1.HealthReport{bad}},
			want: &status{Sources: []v1alpha1.HealthSource{unknown}, Reports: []v1alpha1.HealthReport{bad}},
		},
		"a condition that is gone clears nothing": {
			from: []v1alpha1.NodeConditionSource{missing},
			was:  &status{Reports: []v1alpha1.HealthReport{bad}},
			want: &status{Sources: []v1alpha1.HealthSource{{Name: unknown.Name, State: v1alpha1.HealthUnknown, Message: noCondition}}, Reports: []v1alpha1.HealthReport{bad}},
		},
		"another's condition that never was": {
			from: []v1alpha1.NodeConditionSource{missing, ready}, conditions: []corev1.NodeCondition{condition(missing.Type, "False")},
			was:  &status{Reports: []v1alpha1.HealthReport{bad}},
			want: &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+missing.Type, v1alpha1.HealthHealthy)}},
		},
		"the agent's entries stay": {
			from: []v1alpha1.NodeConditionSource{missing}, conditions: []corev1.NodeCondition{condition(missing.Type, "False")},
			was:  &status{Sources: []v1alpha1.HealthSource{agent}, Reports: []v1alpha1.HealthReport{own, bad}},
			want: &status{Sources: []v1alpha1.HealthSource{agent, source("node-condition/"+missing.Type, v1alpha1.HealthHealthy)}, Reports: []v1alpha1.HealthReport{own}},
		},
		"the agent's entries come after": {
			from: []v1alpha1.NodeConditionSource{missing}, conditions: []corev1.NodeCondition{condition(missing.Type, "True")},
			was:  &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+missing.Type, v1alpha1.HealthHealthy), agent}, Reports: []v1alpha1.HealthReport{bad, own}},
			want: &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+missing.Type, v1alpha1.HealthHealthy), agent}, Reports: []v1alpha1.HealthReport{bad, own}},
		},
		"asked for in another order": {
			from:       []v1alpha1.NodeConditionSource{missing, ready},
			conditions: []corev1.NodeCondition{condition(missing.Type, "False"), condition(ready.Type, "True")},
			want:       &status{Sources: []v1alpha1.HealthSource{source("node-condition/"+ready.Type, v1alpha1.HealthHealthy), source("node-condition/"+missing.Type, v1alpha1.HealthHealthy)}},
		},
		"not asked for any more": {
			was:  &status{Sources: []v1alpha1.HealthSource{agent, source("node-condition/"+missing.Type, v1alpha1.HealthHealthy)}, Reports: []v1alpha1.HealthReport{bad}},
			want: &status{Sources: []v1alpha1.HealthSource{agent}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: tc.conditions}}
			var h *v1alpha1.NodeHealth
			if tc.was != nil {
				h = &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: *tc.was}
			}
			spec := &v1alpha1.HealthPolicySpec{NodeConditions: tc.from}
			got := WithConditions(h, node, spec)
			if tc.want == nil {
				check.Equal(t, "none", true, got == nil)
				return
			}
			check.Equal(t, "name", "n1", got.Name)
			check.Equal(t, "status", *tc.want, got.Status)
			check.Equal(t, "the same again", true, WithConditions(got, node, spec) == got)
		})
	}
}

func TestSignalOfALongCondition(t *testing.T) {
	check.Equal(t, "length", maxSignal, len(signalOf(&v1alpha1.NodeConditionSource{Type: "example.com/" + strings.Repeat("x", 100)})))
	check.Equal(t, "between letters", "é", cut("éé", 3))
}
