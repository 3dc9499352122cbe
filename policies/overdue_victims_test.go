// Victims: what becomes of them where other incidents of the job go on.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Two ranks are replaced and no step is left. That one of them is on a degraded device does not end their incident: the
// other one waits for its peers, and would be without it.
func TestADegradedDeviceIsNoRelapse(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)), rule("rest", step(v1alpha1.RestartPod, 0)))
	for i := range 2 {
		s.replace(i)
	}
	s.decide()
	s.bind(0, "n00")
	s.bind(1, "n01")
	s.exits(0, 1, 30*time.Second)
	s.ail(degraded, 1)
	s.after(30 * time.Second).decide()
	lost := summary{v1alpha1.PodDeleted, v1alpha1.ClassMaintenance, "rest", 2, ""}
	check.Equal(t, "incidents", []summary{lost}, s.summaries())
	check.Equal(t, "lives", []int32{1, 1, 0}, s.lives())

	s.restarts(0)
	s.after(time.Second).decide()
	lost.Outcome = v1alpha1.OutcomeRecovered
	check.Equal(t, "incidents", []summary{lost, {v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, ""}}, s.summaries())
	check.Equal(t, "lives", []int32{1, 2, 0}, s.lives())
}

// An incident whose own ranks are back waits for victims. A step of another one that restarts these restarts its own ranks,
// too, which are not its concern any more.
func TestAStepOfAnotherIncidentRestartsTheVictims(t *testing.T) {
	tests := map[string]struct{ first, second func(*scene) }{
		"after the other one":  {func(s *scene) { s.ail(degraded, 0) }, func(s *scene) { s.ail(failed, 1) }},
		"before the other one": {func(s *scene) { s.ail(failed, 1) }, func(s *scene) { s.ail(degraded, 0) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.RestartJob, 60)), rule("rest", step(v1alpha1.RestartPod, 30)))
			tc.first(s)
			s.decide()
			tc.second(s)
			s.decide()
			s.exits(2, 1, time.Second)
			s.after(time.Second).decide()
			s.Pods[1].Signals = nil
			s.after(58 * time.Second).decide()
			check.Equal(t, "fired while the victim has time", v1alpha1.Restarts{}, s.status().Restarts)
			s.after(time.Second).decide()
			s.decide()
			check.Equal(t, "lives", []int32{1, 1, 1}, s.lives())
			check.Equal(t, "fired", v1alpha1.Restarts{Total: 1, Job: 1, Uncharged: 1}, s.status().Restarts)
			check.Equal(t, "excluded", []string{"n00"}, s.excluded())
			for _, inc := range s.status().Incidents {
				if inc.Trigger == v1alpha1.HealthFailed {
					check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, inc.Outcome)
				}
			}
		})
	}
}

// A step that replaces a rank which has not become ready leaves the replacement alone that waits for it.
func TestAStepSparesAReplacementThatWaitsForItsPeer(t *testing.T) {
	s := running(3, rule("lost", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 60)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.lose("n01")
	s.lose("n02")
	s.decide()
	s.back(1, "n03")
	s.Pods[1].Ready, s.Pods[1].WasReady = false, false
	s.back(2, "n04")
	s.exits(2, 1, 40*time.Second)
	s.after(time.Minute).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartPod@60"}, s.fired(t))
	check.Equal(t, "lives", []int32{0, 2, 1}, s.lives())
}

// A rank of an independent task needs no other one: it exits by itself.
func TestAnIndependentRankIsNoVictim(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 2), task("loader", 1, independent))).started().placed()
	s.lose("n00")
	s.decide()
	s.exits(2, 1, 0)
	s.decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "everything-else", 1, ""},
		{v1alpha1.PodNotReady, v1alpha1.ClassUser, "restarts-in-place", 1, ""},
	}, s.summaries())
}

// A pod of a silent kubelet is not ready and shows no exit. What exits after its task was restarted did so because of that.
func TestWhatExitsAfterARestartIsNoCause(t *testing.T) {
	for name, tc := range map[string]struct {
		at    time.Duration
		lives []int32
		cause string
	}{
		"exited before": {-2 * time.Second, []int32{1, 1, 0}, "llm-1-worker-1"},
		"exited after":  {2 * time.Second, []int32{1, 0, 0}, "llm-1-worker-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("rest", step(v1alpha1.RestartPod, 0)))
			s.unready(0)
			s.decide()
			s.after(3 * time.Second)
			s.exits(1, 1, tc.at)
			s.decide()
			check.Equal(t, "lives", tc.lives, s.lives())
			check.Equal(t, "cause", tc.cause, s.incident(t).Cause.Pod)
		})
	}
}

// A rank that waits to be moved off a degraded device falls with the others, like any of them.
func TestARankOnADegradedDeviceIsAVictim(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 60)), rule("rest", step(v1alpha1.RestartPod, 30)))
	s.ail(degraded, 0)
	s.exits(1, 137, 0)
	s.decide()
	s.after(time.Second).exits(0, 1, time.Second)
	s.decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, ""},
		{v1alpha1.PodNotReady, v1alpha1.ClassUser, "rest", 1, ""},
	}, s.summaries())
	check.Equal(t, "victims", []string{s.Pods[0].Name}, s.status().Incidents[1].Victims)
}

// The kubelet restarts a rank that crashes before anything is seen of that. A peer on a degraded device that aborts since is its victim, like any other.
func TestARankOnADegradedDeviceFollowsACrashThatIsOver(t *testing.T) {
	ill := summary{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, ""}
	tests := map[string]struct {
		degraded []int
		action   v1alpha1.Action
		crash    time.Duration
		want     []summary
		cause    int
	}{
		"after the crash":             {[]int{0}, v1alpha1.RestartJob, 0, []summary{ill, {v1alpha1.PodNotReady, v1alpha1.ClassUser, "killed", 1, ""}}, 1},
		"long after the crash":        {[]int{0}, v1alpha1.RestartJob, -time.Minute, []summary{{v1alpha1.PodNotReady, v1alpha1.ClassUser, "rest", 1, ""}}, 0},
		"the crash is ignored":        {[]int{0}, v1alpha1.Ignore, 0, []summary{{v1alpha1.PodNotReady, v1alpha1.ClassUser, "rest", 1, ""}}, 0},
		"the crash is of an incident": {[]int{0, 1}, v1alpha1.RestartJob, 0, []summary{{v1alpha1.PodNotReady, v1alpha1.ClassUser, "rest", 2, ""}}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 60)),
				rule("killed", exits(v1alpha1.ExitCodesIn, "", 137), step(tc.action, 30)), rule("rest", step(v1alpha1.RestartPod, 30)))
			s.ail(degraded, tc.degraded...)
			s.exits(1, 137, tc.crash)
			s.restarts(1)
			s.decide()
			s.after(2*time.Second).exits(0, 1, 2*time.Second)
			s.decide()
			check.Equal(t, "incidents", tc.want, s.summaries())
			check.Equal(t, "cause", s.Pods[tc.cause].Name, s.incident(t).Cause.Pod)
		})
	}
}

// An incident whose own rank is back waits for its victims, also for one on a degraded device, which has an incident of its own.
func TestAnIncidentWaitsForAVictimOnADegradedDevice(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 60)), rule("rest", step(v1alpha1.RestartPod, 30)))
	ill := summary{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, ""}
	crash := summary{v1alpha1.PodNotReady, v1alpha1.ClassUser, "rest", 1, ""}
	s.ail(degraded, 0)
	s.exits(1, 137, 0)
	s.decide()
	s.after(time.Second).exits(0, 1, time.Second)
	s.decide()
	s.restarts(1)
	s.after(time.Second).decide()
	check.Equal(t, "incidents while the victim is down", []summary{ill, crash}, s.summaries())
	s.restarts(0)
	s.after(time.Second).decide()
	crash.Outcome = v1alpha1.OutcomeRecovered
	check.Equal(t, "incidents once it is back", []summary{ill, crash}, s.summaries())
}

// A node reboots before it is missed: the others abort first, and its kubelet refuses the pod when it is back.
func TestARefusedPodExplainsTheAborts(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  []summary
		cause string
	}{
		"soon": {50 * time.Second, []summary{{v1alpha1.PodFailed, v1alpha1.ClassInfrastructure, "others", 1, ""}}, "llm-1-worker-0"},
		"later": {2 * time.Minute, []summary{
			{v1alpha1.PodNotReady, v1alpha1.ClassUser, "back", 1, ""}, {v1alpha1.PodFailed, v1alpha1.ClassInfrastructure, "others", 1, ""},
		}, "llm-1-worker-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("back", on(v1alpha1.PodNotReady), step(v1alpha1.RestartPod, 300)), others)
			s.exits(1, 1, 0)
			s.exits(2, 1, 0)
			s.decide()
			s.after(tc.after)
			s.Pods[0].Phase, s.Pods[0].Ready, s.Pods[0].Refused = corev1.PodFailed, false, true
			s.Pods[0].Failure = gang.Failure{Reason: "UnexpectedAdmissionError"}
			s.decide()
			check.Equal(t, "incidents", tc.want, s.summaries())
			check.Equal(t, "cause", tc.cause, s.status().Incidents[0].Cause.Pod)
			check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
		})
	}
}
