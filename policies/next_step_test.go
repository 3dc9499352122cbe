// What is announced to be done next.

package policies

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestNextStep(t *testing.T) {
	crashes := rule("crashes", on(v1alpha1.PodFailed), step(v1alpha1.RestartPod, 10), step(v1alpha1.RestartJob, 60))
	others := rule("others", step(v1alpha1.RestartTask, 30))
	at := func(incident int32, action v1alpha1.Action, after time.Duration) *v1alpha1.NextStep {
		return &v1alpha1.NextStep{Incident: incident, Action: action, Time: metav1.NewTime(sceneStart.Add(after).Truncate(time.Second))}
	}
	tests := map[string]struct {
		story func(*scene)
		want  *v1alpha1.NextStep
	}{
		"nothing is broken":     {func(*scene) {}, nil},
		"before the first step": {func(s *scene) { s.crash(1, 1) }, at(1, v1alpha1.RestartPod, 10*time.Second)},
		"after it":              {func(s *scene) { s.crash(1, 1); s.decide(); s.after(10 * time.Second) }, at(1, v1alpha1.RestartJob, 60*time.Second)},
		"the sooner of two":     {func(s *scene) { s.crash(1, 1); s.decide(); s.after(11 * time.Second).decide(); s.replace(2) }, at(2, v1alpha1.RestartTask, 41*time.Second)},
		"after the last":        {func(s *scene) { s.breakNode("n02"); s.decide(); s.after(30 * time.Second) }, nil},
		"of a job that is over": {func(s *scene) { s.crash(1, 1); s.decide(); s.succeed(0); s.succeed(1); s.succeed(2) }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, crashes, others)
			tc.story(s)
			s.decide()
			check.Equal(t, "next step", tc.want, s.status().NextStep)
		})
	}
}

// What keeps a gang from its first place is told once the scheduler has had its time.
func TestWhatKeepsAGangFromItsPlace(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 2))).started()
	for i := range s.Pods {
		s.Pods[i].Gated, s.Pods[i].PlacedTime, s.Pods[i].Unschedulable = false, s.Now, true
		s.Pods[i].FitErrors = []string{"Insufficient nvidia.com/gpu", "Too many pods"}
	}
	without := "some pods of the gang have no node yet"
	s.decide()
	check.Equal(t, "at first", without, s.status().Message)
	s.after(noRoomToldAfter).decide()
	check.Equal(t, "with reasons", without+": no node fits the pods of task worker: Insufficient nvidia.com/gpu, Too many pods", s.status().Message)
	s.Pods[0].Untried, s.Pods[0].FitErrors = true, nil
	s.decide()
	check.Equal(t, "untried", without+": the scheduler tries no node for them: queue default may be closed or over its share, as it is where the cluster has no room left", s.status().Message)
}

// Room is missing only where the scheduler says so.
func TestWhatAReplacementLacks(t *testing.T) {
	for reason, want := range map[string]string{
		"Insufficient nvidia.com/gpu": ", waits for room in HyperNode rack-a",
		"node(s) had untolerated taint {" + v1alpha1.HoldTaintPrefix + "other: 1}": ", waits for room in HyperNode rack-a",
		`persistentvolumeclaim "nope" not found`:                                   `, finds no node in HyperNode rack-a: persistentvolumeclaim "nope" not found`,
	} {
		s := searching(rule("all", step(v1alpha1.RestartPod, 0)))
		s.Pods[1].FitErrors = []string{reason}
		s.after(noRoomToldAfter).decide()
		story := "incident 1, PodFailed of pod llm-1-worker-1 on node n01, container train exited with 1 (Error): RestartPod"
		check.Equal(t, reason, story+want, s.status().Message)
	}
}
