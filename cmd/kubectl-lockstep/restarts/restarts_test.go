package restarts

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestStage(t *testing.T) {
	start := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	at := func(seconds int) *metav1.MicroTime {
		return new(metav1.NewMicroTime(start.Add(time.Duration(seconds) * time.Second)))
	}
	job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{State: v1alpha1.StateRecovering}}
	inc := &v1alpha1.Incident{StartTime: start}
	expect := func(want string) {
		t.Helper()
		check.Equal(t, "stage", want, Stage(job, inc, start.Add(time.Minute)))
	}
	expect("Recovering, Decide")
	inc.Steps = []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: *at(1)}}
	expect("Recovering, Place")
	inc.NoRoomTime = at(2)
	expect("Recovering, WaitForRoom")
	inc.PlacedTime, inc.BoundTime = at(3), at(3)
	expect("Recovering, Start")
}

func TestStaysAway(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds *int32
		want    time.Duration
	}{
		"by default": {nil, time.Hour},
		"longer":     {new(int32(7200)), 2 * time.Hour},
		"not at all": {new(int32(0)), 10 * time.Minute},
	} {
		job := &v1alpha1.TrainingJob{}
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{ExcludeNodeSeconds: tc.seconds}
		check.Equal(t, name, tc.want, StaysAway(job))
	}
}
