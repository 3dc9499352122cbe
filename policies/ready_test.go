// Pods that are not ready while their containers run.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func notReadySince(at time.Time) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(at)}}
}

// A pod's readiness probe fails before its end is reported: it has 5 s, unless a container of it has exited since it was ready.
func TestAPodThatIsNotReadyWhileItsContainersRun(t *testing.T) {
	unready := func(exits ...gang.ContainerFailure) *scene {
		s := running(3)
		s.unready(1)
		p := &s.Pods[1]
		p.StartedTime, p.Failure.Containers = s.Now.Add(-time.Hour), exits
		p.Conditions = notReadySince(s.Now)
		return s
	}
	s := unready()
	s.Pods[1].LastExit = &gang.ContainerFailure{Name: "train", ExitCode: 1, Time: sceneStart.Add(-time.Second)} // it was ready since
	next := s.decide().Next
	check.Equal(t, "incidents at once", nil, s.summaries())
	check.Equal(t, "next look", gang.EndReportedWithin, next.Sub(s.Now))
	s.Now = next
	s.decide()
	check.Equal(t, "trigger", v1alpha1.PodNotReady, s.incident(t).Trigger)

	s = unready(gang.ContainerFailure{Name: "train", ExitCode: 1, Time: sceneStart.Add(-time.Second)})
	s.decide()
	check.Equal(t, "after an exit, at once", v1alpha1.PodNotReady, s.incident(t).Trigger)
}
