package nodes

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Only a source that can tell, and is heard, says that GPUs spin: they may long move data, where it is not.
func TestSpinning(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pods := []v1alpha1.SpinningPod{{Pod: "research/llm-1-worker-0", Since: metav1.NewTime(now.Add(-time.Hour))}}
	for name, tc := range map[string]struct {
		state     v1alpha1.HealthState
		heartbeat *metav1.Time
		want      int
	}{
		"one that is heard":        {v1alpha1.HealthHealthy, new(metav1.NewTime(now.Add(-14 * time.Minute))), 1},
		"one that is silent":       {v1alpha1.HealthHealthy, new(metav1.NewTime(now.Add(-15 * time.Minute))), 0},
		"one that was never heard": {v1alpha1.HealthHealthy, nil, 0},
		"one that cannot tell":     {v1alpha1.HealthUnknown, new(metav1.NewTime(now)), 0},
	} {
		h := &v1alpha1.NodeHealth{Status: v1alpha1.NodeHealthStatus{Sources: []v1alpha1.HealthSource{
			{Name: "alertmanager", State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.NewTime(now))},
			{Name: "dcgm", State: tc.state, HeartbeatTime: tc.heartbeat, Spinning: pods},
		}}}
		check.Equal(t, name, tc.want, len(Spinning(h, 15*time.Minute, now)))
	}
}
