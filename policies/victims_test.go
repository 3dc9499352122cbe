// Gangs: what is done to the ranks of a collective that abort because another one is lost.

package policies

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// exits ends the process of a pod in place, some seconds from the start of the scene, as its kubelet reports it.
func (s *scene) exits(i int, code int32, at time.Duration) {
	s.unready(i)
	p := &s.Pods[i]
	p.Failure = gang.Failure{Containers: []gang.ContainerFailure{{Name: "train", ExitCode: code, Reason: "Error", Time: sceneStart.Add(at).Truncate(time.Second)}}}
	p.LastExit, p.StartedTime = &p.Failure.Containers[0], time.Time{}
}

// restarts has the kubelet start the process of a pod again.
func (s *scene) restarts(i int) {
	s.Pods[i].Ready, s.Pods[i].Failure, s.Pods[i].StartedTime = true, gang.Failure{}, s.Now
}

// abort ends the processes of all pods but one.
func (s *scene) abortBut(survivor int, at time.Duration) {
	for i := range s.Pods {
		if i != survivor {
			s.exits(i, 1, at)
		}
	}
}

func (s *scene) victims(t *testing.T) []string { return s.incident(t).Victims }

func TestOneExitAndTheAbortsInItsWake(t *testing.T) {
	s := running(4)
	s.exits(2, 137, 0)
	s.decide()
	s.abortBut(2, 2*time.Second)
	s.after(2 * time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodNotReady, v1alpha1.ClassUser, "restarts-in-place", 1, ""}}, s.summaries())
	check.Equal(t, "culprit", "llm-1-worker-2", s.incident(t).Cause.Pod)
	check.Equal(t, "victims", []string{"llm-1-worker-0", "llm-1-worker-1", "llm-1-worker-3"}, s.victims(t))

	s.after(88 * time.Second).decide()
	check.Equal(t, "restarted is only the culprit", []int32{0, 0, 1, 0}, s.lives())
	s.after(time.Second).back(2, "n02")
	check.Equal(t, "outcome while the victims are down", v1alpha1.Outcome(""), s.incident(t).Outcome)
	for _, i := range []int{0, 1, 3} {
		s.restarts(i)
	}
	s.after(time.Minute).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "lives", []int32{0, 0, 1, 0}, s.lives())
}

// The news of pods that fail together come in any order.
func TestTheCulprit(t *testing.T) {
	exits := func(i int, code int32, at time.Duration) func(*scene) {
		return func(s *scene) { s.exits(i, code, at) }
	}
	oom := func(i int, at time.Duration) func(*scene) {
		return func(s *scene) { s.exits(i, 1, at); s.Pods[i].LastExit.Reason = "OOMKilled" }
	}
	breaks := func(n string) func(*scene) { return func(s *scene) { s.breakNode(n) } }
	tests := map[string]struct {
		first, then func(*scene)
		after       time.Duration
		want        int
	}{
		"who exited first":                           {exits(1, 1, 2*time.Second), exits(2, 1, time.Second), time.Second, 2},
		"not who exited a second later":              {exits(1, 1, time.Second), exits(2, 1, 2*time.Second), time.Second, 1},
		"who was killed a second later":              {exits(1, 1, time.Second), exits(2, 137, 2*time.Second), time.Second, 2},
		"not who was killed two seconds later":       {exits(1, 1, time.Second), exits(2, 137, 3*time.Second), time.Second, 1},
		"who was killed in the same second":          {exits(1, 1, time.Second), exits(2, 137, time.Second), time.Second, 2},
		"not who aborted in the same second":         {exits(1, 1, time.Second), exits(2, 134, time.Second), time.Second, 1},
		"not who was told to stop":                   {exits(1, 1, time.Second), exits(2, 143, time.Second), time.Second, 1},
		"who had no memory in the same second":       {exits(1, 1, time.Second), oom(2, time.Second), time.Second, 2},
		"not once the incident is old":               {exits(1, 1, 2*time.Second), exits(2, 1, time.Second), 11 * time.Second, 1},
		"not whose time nobody knows":                {exits(1, 1, 2*time.Second), func(s *scene) { s.unready(2) }, time.Second, 1},
		"the node that is found silent":              {exits(1, 1, 0), breaks("n02"), time.Minute, 2},
		"not a node that is found silent much later": {exits(1, 1, 0), breaks("n02"), time.Minute + time.Microsecond, 1},
		"the device that is found failed": {exits(1, 1, 0), func(s *scene) {
			s.exits(2, 1, time.Second)
			s.decide()
			s.Pods[2].Signals = []gang.Signal{{Name: "XID79", Failed: true}}
		}, 10 * time.Second, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			tc.first(s)
			s.decide()
			s.after(tc.after)
			tc.then(s)
			s.decide()
			check.Equal(t, "culprit", fmt.Sprintf("llm-1-worker-%d", tc.want), s.status().Incidents[0].Cause.Pod)
			if tc.want == 2 {
				check.Equal(t, "victims", []string{"llm-1-worker-1"}, s.status().Incidents[0].Victims)
				check.Equal(t, "pods", int32(1), s.status().Incidents[0].PodCount)
			}
		})
	}
}

// The culprit is ready again before the first of the others is noticed.
func TestACulpritThatIsBackAlready(t *testing.T) {
	s := running(3)
	s.exits(1, 137, 0)
	s.restarts(1)
	s.exits(0, 1, time.Second)
	s.after(2 * time.Second).decide()
	inc := s.incident(t)
	check.Equal(t, "culprit", "llm-1-worker-1", inc.Cause.Pod)
	check.Equal(t, "exit code", int32(137), *inc.Cause.ExitCode)
	check.Equal(t, "victims", []string{"llm-1-worker-0"}, inc.Victims)
	check.Equal(t, "next look", 328*time.Second, s.after(120*time.Second).decide().Next.Sub(sceneStart.Add(2*time.Second))-2*time.Second)
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
}

// A pod is seen not ready, and is replaced. Its exit, and the one of a peer in the same second, are seen only then.
func TestAPodThatExitsBeforeThatIsSeen(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.MigratePod, 0)))
	s.unready(0)
	s.after(5 * time.Second).decide()
	s.exits(0, 1, time.Second)
	s.exits(1, 1, time.Second)
	s.Pods[0].Deleting = true
	s.decide()
	check.Equal(t, "culprit", "llm-1-worker-0", s.incident(t).Cause.Pod)
	check.Equal(t, "victims", []string{"llm-1-worker-1"}, s.victims(t))
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}

// An exit of an hour before, after which the pod was ready again, is not why the pod is not ready now: a peer has exited since.
func TestAnEarlierExitIsNotThatOfTheCause(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.MigratePod, 30)))
	s.exits(0, 1, 0)
	s.unready(0)
	s.after(time.Hour)
	s.Pods[0].Failure = gang.Failure{}
	s.decide()
	s.exits(1, 1, time.Hour)
	s.decide()
	check.Equal(t, "culprit", "llm-1-worker-1", s.incident(t).Cause.Pod)
}

// The gang trains again after a crash, and another rank crashes soon after.
func TestACrashSoonAfterAnotherIsNotItsWake(t *testing.T) {
	s := running(3)
	for i := range s.Pods {
		s.exits(i, 1, 0)
		s.restarts(i)
	}
	s.exits(2, 137, 3*time.Second)
	s.Pods[2].LastExit.StartedTime = sceneStart.Add(time.Second)
	s.after(3 * time.Second).decide()
	check.Equal(t, "culprit", "llm-1-worker-2", s.incident(t).Cause.Pod)
	check.Equal(t, "victims", nil, s.victims(t))
}

func TestANodeIsLostUnderAGang(t *testing.T) {
	s := running(4)
	s.abortBut(2, 0)
	s.decide()
	s.after(40 * time.Second).breakNode("n02")
	s.decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure, "everything-else", 1, ""}}, s.summaries())
	check.Equal(t, "victims", []string{"llm-1-worker-0", "llm-1-worker-1", "llm-1-worker-3"}, sorted(s.victims(t)))
	check.Equal(t, "at once", []int32{0, 0, 1, 0}, s.lives())
	check.Equal(t, "excluded", []string{"n02"}, s.excluded())
	check.Equal(t, "deleted while the node may answer", []string{"3"}, s.deleted())
}

// The pod on the second node is seen not ready just before the node is seen silent.
func TestTwoNodesAreLostUnderAGang(t *testing.T) {
	s := running(4)
	s.exits(0, 1, 0)
	s.exits(3, 1, 0)
	s.decide()
	s.after(time.Second).breakNode("n02")
	s.unready(1)
	s.decide()
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure, "everything-else", 2, ""}}, s.summaries())
	check.Equal(t, "victims", []string{"llm-1-worker-0", "llm-1-worker-3"}, sorted(s.victims(t)))
	check.Equal(t, "number of victims", int32(2), s.incident(t).VictimCount)
	check.Equal(t, "lives", []int32{0, 1, 1, 0}, s.lives())
}

// The programs end with 0. Their kubelets say that the pods are not ready before they say that these have succeeded.
func TestAGangThatCompletes(t *testing.T) {
	s := running(3)
	for i := range s.Pods {
		s.unready(i)
		s.Pods[i].Completing = true
	}
	s.decide()
	check.Equal(t, "incidents", []summary(nil), s.summaries())
	s.Pods[1].LastExit = &gang.ContainerFailure{Name: "train", ExitCode: 1, Time: sceneStart}
	s.breakNode("n02")
	s.after(time.Minute).decide()
	check.Equal(t, "rule for a node that falls silent", "node-may-return", s.incident(t).Rule)
}

func TestASilentNodeOfAGangThatTrainsOn(t *testing.T) {
	s := running(4)
	s.breakNode("n02")
	s.decide()
	check.Equal(t, "rule", "node-may-return", s.incident(t).Rule)
	s.after(30 * time.Second).decide()
	check.Equal(t, "lives", []int32{0, 0, 0, 0}, s.lives())
	s.exits(0, 1, 30*time.Second)
	s.decide()
	check.Equal(t, "rule once they abort", "everything-else", s.incident(t).Rule)
	check.Equal(t, "lives", []int32{0, 0, 1, 0}, s.lives())
}

func TestWhetherTheGangRuns(t *testing.T) {
	tests := map[string]struct {
		change func(*scene)
		down   bool
	}{
		"it does":                           {func(*scene) {}, false},
		"a rank exited before, and is back": {func(s *scene) { s.exits(0, 1, -59*time.Second); s.restarts(0) }, true},
		"a rank exited long before":         {func(s *scene) { s.exits(0, 1, -61*time.Second); s.restarts(0) }, false},
		"a clock is hours ahead":            {func(s *scene) { s.exits(0, 1, 2*time.Hour); s.restarts(0) }, false},
		"a clock is minutes ahead":          {func(s *scene) { s.exits(0, 1, 4*time.Minute); s.restarts(0) }, true},
		"it started after that exit": {func(s *scene) {
			s.exits(0, 1, -30*time.Second)
			s.restarts(0)
			s.Pods[2].StartedTime = sceneStart.Add(-35 * time.Second)
		}, false},
		"a rank exited long after it started": {func(s *scene) {
			s.exits(0, 1, -30*time.Second)
			s.restarts(0)
			s.Pods[2].StartedTime = sceneStart.Add(-45 * time.Second)
		}, true},
		"it has exited itself":                    {func(s *scene) { s.exits(2, 1, 0); s.restarts(2) }, false},
		"a rank waits to be restarted":            {func(s *scene) { s.exits(0, 1, -5*time.Minute) }, true},
		"a rank is missing":                       {func(s *scene) { s.replace(0) }, true},
		"a rank is not ready, and has not exited": {func(s *scene) { s.unready(0) }, false},
		"a replica has yet to find a node":        {func(s *scene) { s.replace(0); s.status().Placement.Tasks[0].Nodes[0] = "" }, false},
		"a rank has succeeded":                    {func(s *scene) { s.succeed(0) }, false},
		"another node is silent too":              {func(s *scene) { s.breakNode("n00"); s.exits(0, 1, -5*time.Second) }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			s.breakNode("n02")
			tc.change(s)
			w := incident.ViewOf(&s.Observation, s.status())
			check.Equal(t, "down", tc.down, w.OthersDown(s.status(), gang.Rank{Task: "worker", Index: 2}, &s.Pods[2]))
		})
	}
}

// A pod on a silent node counts as dead sooner where its gang is down and its policy says so.
func TestWhenAPodOfAGangThatIsDownCountsAsDead(t *testing.T) {
	sooner := func(p *v1alpha1.RestartPolicy) {
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(60)), GangDownAfterSeconds: new(int32(5))}
	}
	proof := func(p *v1alpha1.RestartPolicy) {
		p.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof, GangDownAfterSeconds: new(int32(5))}
	}
	tests := map[string]struct {
		policy func(*v1alpha1.RestartPolicy)
		aborts bool
		after  time.Duration // zero: never
	}{
		"by default":          {func(*v1alpha1.RestartPolicy) {}, true, time.Minute},
		"sooner":              {sooner, true, 5 * time.Second},
		"while they train on": {sooner, false, time.Minute},
		"with proof":          {proof, true, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := aJob().tasks(task("worker", 3)).policy(tc.policy, withRules(rule("lost", step(v1alpha1.RestartPod, 0))))
			s := aScene(job).started().placed()
			s.breakNode("n01")
			if tc.aborts {
				s.abortBut(1, 0)
			}
			s.decide()
			w := jobOf(&s.Observation, s.status())
			at := w.ForceDeleteDeadline(s.status(), &s.Pods[1], s.Nodes["n01"])
			if tc.after == 0 {
				check.Equal(t, "never", true, at.IsZero())
				return
			}
			check.Equal(t, "after", tc.after, at.Sub(s.Now))
		})
	}
}

// A victim that does not come back is brought back like those that the incident is about, and the rest of the ladder
// keeps its distance.
func TestAVictimThatDoesNotComeBack(t *testing.T) {
	s := running(3, rule("lost", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 400)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.lose("n02")
	s.decide()
	s.abortBut(2, 0)
	s.decide()
	s.after(10*time.Second).back(2, "n03")
	placed := s.Now
	next := s.decide().Next
	check.Equal(t, "next look", 330*time.Second, next.Sub(placed))
	s.Now = placed.Add(330*time.Second - 1)
	s.restarts(1)
	s.decide()
	check.Equal(t, "lives in time", []int32{0, 0, 1}, s.lives())
	s.after(1).decide()
	check.Equal(t, "lives", []int32{1, 0, 1}, s.lives())
	check.Equal(t, "pods", int32(2), s.incident(t).PodCount)
	check.Equal(t, "steps", []string{"RestartPod@0", "RestartPod@340"}, s.fired(t))
	check.Equal(t, "restarts", int32(2), s.status().Restarts.Pod)
	s.after(399 * time.Second).decide()
	check.Equal(t, "before the ladder's distance", 2, len(s.incident(t).Steps))
	s.after(time.Second).decide()
	check.Equal(t, "at it", v1alpha1.RestartJob, s.incident(t).Steps[2].Action)
}

// A step for pods that would touch nobody is not taken.
func TestAStepWithNothingToRestartWaits(t *testing.T) {
	s := running(3)
	s.exits(0, 137, 0)
	s.decide()
	s.exits(1, 1, time.Second)
	s.restarts(0)
	s.after(90 * time.Second).decide()
	check.Equal(t, "fired", nil, s.fired(t))
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
	s.Now = sceneStart.Add(330 * time.Second)
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "fired", []string{"RestartPod@330"}, s.fired(t))
}

// A replacement that exits while its peers are not back has waited for them.
func TestAReplacementThatWaitsForItsPeers(t *testing.T) {
	s := running(3, rule("lost", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 60), step(v1alpha1.RestartJob, 600)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.lose("n02")
	s.abortBut(2, 0)
	s.decide()
	s.after(time.Second).back(2, "n03")
	s.exits(2, 1, 40*time.Second)
	s.after(60 * time.Second).decide()
	check.Equal(t, "lives", []int32{0, 0, 1}, s.lives())
	check.Equal(t, "fired", []string{"RestartPod@0"}, s.fired(t))
}

// Templates with Never: victims whose pods have ended are replaced with the culprit, on their own nodes.
func TestVictimsThatHaveEndedAreReplaced(t *testing.T) {
	s := running(4)
	s.lose("n02")
	s.decide()
	s.crash(0, 1)
	s.exits(1, 1, 0)
	s.after(20 * time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "everything-else", 2, ""}}, s.summaries())
	check.Equal(t, "victims", []string{"llm-1-worker-0", "llm-1-worker-1"}, sorted(s.victims(t)))
	check.Equal(t, "lives", []int32{1, 0, 1, 0}, s.lives())
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
	check.Equal(t, "excluded", []string{"n02"}, sorted(s.excluded()))
	s.replace(0)
	s.decide()
	check.Equal(t, "goes back to", placement.Target{In: []string{"host-n00"}}, s.plan().Lift[0].Target)
}

// A rule that fails the job is for whom it matches, in whoever's wake.
func TestARuleThatFailsTheJobIsForVictimsToo(t *testing.T) {
	s := running(3, rule("bad-config", exits(v1alpha1.ExitCodesIn, "", 2), step(v1alpha1.FailJob, 0)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.exits(0, 1, 0)
	s.decide()
	s.exits(1, 2, time.Second)
	s.after(time.Second).decide()
	check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
}

// Of a gang of a thousand all but the victims' number is known.
func TestALargeGangFallsInTheWakeOfOne(t *testing.T) {
	s := starting(1000)
	for i := range s.Pods {
		s.bind(i, "n00")
	}
	s.bind(7, "n01")
	s.decide()
	s.abortBut(7, 0)
	s.breakNode("n01")
	s.decide()
	inc := s.incident(t)
	check.Equal(t, "pods", int32(1), inc.PodCount)
	check.Equal(t, "victims", int32(999), inc.VictimCount)
	check.Equal(t, "named", 32, len(inc.Victims))
	check.Equal(t, "lives raised", 1, len(s.status().Tasks[0].Ranks))
	again := s.after(time.Second).decide()
	check.Equal(t, "the same again", *s.status(), again.Status)
}

// A program that exits while another rank has yet to start is nobody's failure.
func TestAnExitWhileAnotherRankStarts(t *testing.T) {
	s := running(3)
	p := &s.Pods[2]
	p.Phase, p.Ready, p.WasReady, p.BoundTime = corev1.PodPending, false, false, s.Now
	s.exits(0, 1, 5*time.Second)
	s.after(5 * time.Second).decide()
	check.Equal(t, "incidents", nil, s.summaries())
	check.Equal(t, "state", v1alpha1.StateStarting, s.status().State)
}

// Templates with Never: a victim that has joined an incident does not take the blame.
func TestAVictimIsNotBlamedForTheNode(t *testing.T) {
	s := running(3, rule("lost", step(v1alpha1.RestartPod, 30)))
	s.breakNode("n02")
	s.decide()
	s.crash(0, 1)
	s.after(time.Second).decide()
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure, "lost", 2, ""}}, s.summaries())
	check.Equal(t, "culprit", "llm-1-worker-2", s.incident(t).Cause.Pod)
	s.after(28 * time.Second).decide()
	check.Equal(t, "lives", []int32{1, 0, 1}, s.lives())
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
}

// A rank that is degraded trains on until it is moved: then the others abort.
func TestAMoveForHealthStopsTheGang(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.Pods[2].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	s.decide()
	s.abortBut(2, time.Second)
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, ""}}, s.summaries())
	check.Equal(t, "victims", []string{"llm-1-worker-0", "llm-1-worker-1"}, sorted(s.victims(t)))
}

// A ShrinkTask step has nobody to give up where the kubelet restarts all that are missing.
func TestShrinkTaskWaitsForVictims(t *testing.T) {
	s := running(3, rule("lost", step(v1alpha1.ShrinkTask, 10), step(v1alpha1.RestartJob, 600)))
	s.exits(0, 137, 0)
	s.decide()
	s.exits(1, 1, time.Second)
	s.restarts(0)
	s.after(10 * time.Second).decide()
	check.Equal(t, "fired", nil, s.fired(t))
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
}

// Whether the gang runs depends on how long ago the last exit was: the manager looks again when it does not count any more.
func TestWhenAnExitDoesNotCountAnyMore(t *testing.T) {
	up := rule("up", on(v1alpha1.PodDeleted), step(v1alpha1.RestartPod, 100))
	up.Match.GangRunning = new(true)
	s := running(3, up)
	s.exits(0, 1, 0)
	s.restarts(0)
	s.replace(2)
	next := s.decide().Next
	check.Equal(t, "incidents", nil, s.summaries())
	check.Equal(t, "next look", sceneStart.Add(time.Minute).Truncate(time.Second), next)
	s.Now = next
	s.decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodDeleted, v1alpha1.ClassMaintenance, "up", 1, ""}}, s.summaries())
}

// A rank that exits alone is no reason to take the gang for down.
func TestTheGangIsNotDownForTheExitOfOneRank(t *testing.T) {
	for gangRunning, want := range map[bool]string{true: "alone", false: "rest"} {
		alone := rule("alone", on(v1alpha1.PodNotReady), step(v1alpha1.RestartPod, 90))
		alone.Match.GangRunning = &gangRunning
		s := running(3, alone, rule("rest", step(v1alpha1.RestartPod, 90)))
		s.exits(1, 1, 0)
		s.decide()
		check.Equal(t, "incidents", []summary{{v1alpha1.PodNotReady, v1alpha1.ClassUser, want, 1, ""}}, s.summaries())
	}
}

// A culprit that is back, and whose exit a rule ignores, is no reason to leave alone who fell in its wake.
func TestAnExitThatIsIgnored(t *testing.T) {
	s := running(3, rule("known", exits(v1alpha1.ExitCodesIn, "", 3), step(v1alpha1.Ignore, 0)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.exits(1, 3, 0)
	s.restarts(1)
	s.exits(0, 1, time.Second)
	s.after(2 * time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodNotReady, v1alpha1.ClassUser, "rest", 1, ""}}, s.summaries())
	s.decide()
	check.Equal(t, "changes, decided again", nil, s.changes())
}

// Once no pod of the task starts any more it is not for the node, and the ladder waits.
func TestALadderWaitsWhereNoPodStarts(t *testing.T) {
	s := running(2, rule("starts", on(v1alpha1.PodNotStarted), step(v1alpha1.MigratePod, 0), step(v1alpha1.MigratePod, 300)))
	stalls := func(i int) {
		p := &s.Pods[i]
		p.Phase, p.Ready, p.WasReady, p.BoundTime, p.StartProblem = corev1.PodPending, false, false, s.Now, gang.StartProblem{Reason: "ImagePullBackOff"}
	}
	stalls(1)
	s.after(30 * time.Second).decide()
	check.Equal(t, "fired", []string{"MigratePod@0"}, s.fired(t))
	s.replace(1)
	s.decide()
	s.bind(1, "n03")
	stalls(0)
	stalls(1)
	s.after(time.Hour).decide()
	check.Equal(t, "while none starts", []string{"MigratePod@0"}, s.fired(t))
	s.Pods[0].Phase, s.Pods[0].Ready, s.Pods[0].StartProblem = corev1.PodRunning, true, gang.StartProblem{}
	s.decide()
	check.Equal(t, "once another has started", []string{"MigratePod@0", "MigratePod@3600"}, s.fired(t))
}

// The Volcano Job of a job whose pods did not start has ended: no pod is on its way any more.
func TestAPodThatDoesNotStartWhereTheVolcanoJobHasEnded(t *testing.T) {
	s := running(2)
	p := &s.Pods[1]
	p.Phase, p.Ready, p.WasReady, p.StartProblem = corev1.PodPending, false, false, gang.StartProblem{Reason: "ErrImagePull"}
	s.after(30 * time.Second).decide()
	check.Equal(t, "trigger", v1alpha1.PodNotStarted, s.incident(t).Trigger)
	check.Equal(t, "steps", []string{"MigratePod@0"}, s.fired(t))
	s.Pods = nil
	s.VolcanoJobs[0].Ended = true
	s.after(time.Second).decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
}

// What is degraded ends no program: the aborts of others have a cause of their own, be it under the same rule.
func TestAnExitIsNoPartOfADegradedDevice(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 60)))
	s.Pods[0].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	s.decide()
	s.exits(1, 137, time.Second)
	s.exits(2, 1, 2*time.Second)
	s.after(2 * time.Second).decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "all", 1, ""},
		{v1alpha1.PodNotReady, v1alpha1.ClassUser, "all", 1, ""},
	}, s.summaries())
	check.Equal(t, "culprit", "llm-1-worker-1", s.incident(t).Cause.Pod)
	check.Equal(t, "victims", []string{"llm-1-worker-2"}, s.victims(t))
}

// A victim that another incident is about, which is held back, is one all the same: each pass finds the same incidents.
func TestAVictimOfWhichAnIncidentIsHeldBack(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)), rule("rest", step(v1alpha1.RestartPod, 90)))
	s.HealthPolicy = &v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Job: &v1alpha1.BreakerLimit{Percent: 1, Count: new(int32(0))}}}
	s.Pods[1].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	s.decide()
	s.exits(0, 137, time.Second)
	s.restarts(0)
	s.exits(1, 1, 2*time.Second)
	s.after(2 * time.Second).decide()
	n := len(s.status().Incidents)
	s.decide()
	check.Equal(t, "incidents after another pass", n, len(s.status().Incidents))
	check.Equal(t, "culprit", "llm-1-worker-0", s.incident(t).Cause.Pod)
}

// A program that ends after the first restart of an incident ends because of it, whatever is restarted later.
func TestWhatEndsBetweenTwoRestartsIsNoCulprit(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 5)))
	s.unready(0)
	s.decide()
	s.exits(1, 137, 3*time.Second)
	s.after(3 * time.Second).decide()
	s.after(2 * time.Second).decide()
	s.after(time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartPod@5"}, s.fired(t))
	check.Equal(t, "incarnation of the victim", int32(0), s.lives()[1])
}

// Of two incidents about a rank that is back, which wait for a victim, one takes its step: the other would miss the rank in its old pod, and move it.
func TestAStepEndsAnotherIncidentOfItsRanks(t *testing.T) {
	s := aScene(aJob().tasks(task("head", 1), task("worker", 2)).policy(withRules(
		rule("task", on(v1alpha1.NodeNotReady), step(v1alpha1.RestartTask, 30)), rule("move", on(v1alpha1.AnyEvent), step(v1alpha1.MigratePod, 30))))).started().placed()
	s.decide()
	for i, name := range []string{"task", "move"} {
		s.status().Incidents = append(s.status().Incidents, v1alpha1.Incident{
			ID: int32(i + 1), Trigger: v1alpha1.NodeNotReady, Class: v1alpha1.ClassInfrastructure, Rule: name, StartTime: metav1.NewMicroTime(s.Now),
			Pods:  []v1alpha1.IncidentPod{{Name: s.Pods[0].Name, UID: s.Pods[0].UID, Task: "head", Node: s.Pods[0].Node}},
			Ranks: []v1alpha1.IncidentRanks{{Task: "head", Failed: "0"}, {Task: "worker", Victims: "0"}}, PodCount: 1, VictimCount: 1,
		})
	}
	s.exits(1, 1, 0)
	s.after(30 * time.Second).decide()
	check.Equal(t, "outcomes", []v1alpha1.Outcome{"", v1alpha1.OutcomeRecovered}, []v1alpha1.Outcome{s.status().Incidents[0].Outcome, s.status().Incidents[1].Outcome})
	check.Equal(t, "excluded", nil, s.excluded())
	check.Equal(t, "lives", []int32{1, 0, 0}, s.lives())
}
