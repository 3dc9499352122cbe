package placement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTolerates(t *testing.T) {
	taint := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		toleration corev1.Toleration
		want       bool
	}{
		"equal":            {corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule}, true},
		"equal by default": {corev1.Toleration{Key: "k", Value: "v"}, true},
		"another value":    {corev1.Toleration{Key: "k", Value: "w"}, false},
		"exists":           {corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}, true},
		"another key":      {corev1.Toleration{Key: "l", Operator: corev1.TolerationOpExists}, false},
		"every key":        {corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		"more than":        {corev1.Toleration{Key: "rank", Operator: "Gt", Value: "3"}, false},
		"another effect":   {corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "tolerates", tc.want, tolerates([]corev1.Toleration{tc.toleration}, taint))
		})
	}
	ranked := corev1.Taint{Key: "rank", Value: "5", Effect: corev1.TaintEffectNoSchedule}
	check.Equal(t, "a greater number", true, tolerates([]corev1.Toleration{{Key: "rank", Operator: "Gt", Value: "3"}}, ranked))
	check.Equal(t, "a smaller number", false, tolerates([]corev1.Toleration{{Key: "rank", Operator: "Lt", Value: "3"}}, ranked))
	check.Equal(t, "without tolerations", false, tolerates(nil, taint))
}
