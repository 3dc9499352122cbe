// What is announced to be done next.

package policies

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/placement"
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
	}
	s.FitErrors = []string{"Insufficient nvidia.com/gpu", "node(s) pod number exceeded"}
	without := "some pods of the gang have no node yet"
	s.decide()
	check.Equal(t, "at first", without, s.status().Message)
	s.after(placement.NoRoomToldAfter).decide()
	check.Equal(t, "with reasons", without+": no node fits: Insufficient nvidia.com/gpu, node(s) pod number exceeded", s.status().Message)
	s.Pods[0].Untried, s.FitErrors = true, nil
	s.decide()
	check.Equal(t, "untried", without+": the scheduler tries no node for them: queue default may be over its share, which `kubectl lockstep why` compares with its limits", s.status().Message)
}

// Room is missing only where the scheduler says so.
func TestWhatAReplacementLacks(t *testing.T) {
	const room, affinity = ", waits for room in HyperNode rack-a", "node(s) didn't match Pod's node affinity/selector"
	tests := map[string]struct {
		reasons []string
		want    string
	}{
		"nothing is said":         {nil, room},
		"resources":               {[]string{"Insufficient nvidia.com/gpu", affinity}, room},
		"nodes that nobody holds": {[]string{HeldByOthers}, room},
		"a volume": {[]string{"Insufficient nvidia.com/gpu", `persistentvolumeclaim "nope" not found`},
			`, finds no node in HyperNode rack-a: Insufficient nvidia.com/gpu, persistentvolumeclaim "nope" not found`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := searching(rule("all", step(v1alpha1.RestartPod, 0)))
			s.FitErrors = tc.reasons
			s.after(placement.NoRoomToldAfter).decide()
			story := "incident 1, PodFailed of pod llm-1-worker-1 on node n01, container train exited with 1 (Error): RestartPod"
			check.Equal(t, "message", story+tc.want, s.status().Message)
		})
	}
}

// In a dry run a step is announced as one.
func TestNextStepOfADryRun(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 10)))
	s.dryRun(true)
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "dry run", true, s.status().NextStep.DryRun)
	if !strings.HasSuffix(s.status().Message, ", in a dry run then RestartPod at 03:04:15 UTC") {
		t.Errorf("the message is %q", s.status().Message)
	}
}

// What is told where the replacement is not even there.
func TestARecoveryThatIsRefused(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	s.Refused = "the Volcano Job is refused: no"
	s.decide()
	if !strings.HasSuffix(s.status().Message, ": RestartPod, the Volcano Job is refused: no") {
		t.Errorf("the message is %q", s.status().Message)
	}
}
