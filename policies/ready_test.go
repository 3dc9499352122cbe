// Pods that are not ready while their containers run.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A pod's readiness probe fails before its end is reported: it has 5 s, unless a container of it has just exited.
func TestAPodThatIsNotReadyWhileItsContainersRun(t *testing.T) {
	unready := func(exit *ContainerFailure) *scene {
		s := running(3)
		s.unready(1)
		p := &s.Pods[1]
		p.StartedTime, p.LastExit = s.Now.Add(-time.Hour), exit
		p.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.Now)}}
		return s
	}
	exitAt := func(at time.Duration) *ContainerFailure {
		return &ContainerFailure{Name: "train", ExitCode: 1, Time: sceneStart.Add(at)}
	}
	for name, s := range map[string]*scene{"none": unready(nil), "long ago": unready(exitAt(-time.Minute))} {
		next := s.decide().Next
		equal(t, "incidents at once, last exit "+name, nil, s.summaries())
		equal(t, "next look", endReportedWithin, next.Sub(s.Now))
		s.Now = next
		s.decide()
		equal(t, "trigger", v1alpha1.PodNotReady, s.incident(t).Trigger)
	}
	s := unready(exitAt(-time.Second))
	s.decide()
	equal(t, "after an exit, at once", v1alpha1.PodNotReady, s.incident(t).Trigger)
}
