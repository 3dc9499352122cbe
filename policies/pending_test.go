// PodPending: pods that find no node.

package policies

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

var (
	// noRoom is for pods that find no node, and nothing else.
	noRoom = rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 300))
	// others restarts what is broken, and after a minute the job.
	others = rule("others", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60), step(v1alpha1.RelocateJob, 600))
)

// searching is a job of three one of whose ranks has crashed, was restarted at once and has
// found no node since.
func searching(rules ...v1alpha1.Rule) *scene {
	s := running(3, rules...)
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	s.search(1)
	s.decide()
	return s
}

func TestWhenAPodIsWithoutRoom(t *testing.T) {
	tests := map[string]struct {
		story func(*scene)
		after time.Duration
		want  bool
	}{
		"after 30 s":                       {func(*scene) {}, 30 * time.Second, true},
		"not before":                       {func(*scene) {}, 30*time.Second - 1, false},
		"not without the scheduler's word": {func(s *scene) { s.Pods[1].Unschedulable = false }, time.Hour, false},
		"not with a node":                  {func(s *scene) { s.Pods[1].Node = "n01" }, time.Hour, false},
		"not while it goes":                {func(s *scene) { s.Pods[1].Deleting = true }, time.Hour, false},
		"not of an earlier incarnation": {func(s *scene) {
			gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 1}, v1alpha1.RestartByStep)
		}, time.Hour, false},
		"behind its gate, with nowhere to go":   {func(s *scene) { s.replace(1); s.fill() }, 30 * time.Second, true},
		"behind its gate, not before":           {func(s *scene) { s.replace(1); s.fill() }, 30*time.Second - 1, false},
		"behind its gate, with somewhere to go": {func(s *scene) { s.replace(1) }, time.Hour, false},
		"not while the gang is not complete":    {func(s *scene) { s.replace(2) }, time.Hour, false},
		"nor while another pod of it goes":      {func(s *scene) { s.Pods[2].Deleting = true }, 30 * time.Second, false},
		"not before the gang was placed": {func(s *scene) {
			s.status().Placement = nil
			s.search(0)
			s.search(2)
			s.Pods[0].Node, s.Pods[2].Node = "", ""
		}, time.Hour, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := searching(noRoom, rule("late", step(v1alpha1.RestartPod, 0)))
			tc.story(s)
			s.after(tc.after).decide()
			found := false
			for _, inc := range s.status().Incidents {
				found = found || inc.Trigger == v1alpha1.PodPending
			}
			check.Equal(t, "found", tc.want, found)
		})
	}
	t.Run("the next look is when it will be", func(t *testing.T) {
		s := searching(noRoom, rule("once", step(v1alpha1.RestartPod, 0)))
		next := func() time.Duration { return Decide(&s.Observation).Next.Sub(s.Now) }
		check.Equal(t, "to tell of it", placement.NoRoomToldAfter, next())
		s.after(placement.NoRoomToldAfter)
		check.Equal(t, "to do something about it", placement.NoRoomAfter-placement.NoRoomToldAfter, next())
	})
}

// The scheduler takes longer for a thousand pods than for one: what is let go together
// counts, and what came before does not.
func TestALargeGangIsLookedForLonger(t *testing.T) {
	s := starting(100, noRoom)
	for i := range s.Pods {
		s.bind(i, "n00")
	}
	s.decide()
	again := func(n int) time.Duration {
		s.after(time.Hour)
		for i := range n {
			p := &s.Pods[i]
			p.Node, p.Phase, p.Ready, p.PlacedTime, p.Unschedulable = "", "Pending", false, s.Now, true
		}
		w := incident.ViewOf(&s.Observation, s.status())
		return w.Rooms(s.status()).PendingAt(&s.Pods[0]).Sub(s.Now)
	}
	check.Equal(t, "one", 30*time.Second, again(1))
	check.Equal(t, "all", 40*time.Second, again(100))
}

// The others of a gang fail again and again while one of its ranks finds no room: that is found out in the end.
func TestARankIsWithoutRoomThoughTheOthersAreRestarted(t *testing.T) {
	s := starting(3, noRoom)
	s.placed()
	pending := func() time.Duration {
		w := incident.ViewOf(&s.Observation, s.status())
		return w.Rooms(s.status()).PendingAt(&s.Pods[0]).Sub(s.Now)
	}
	first := &s.Pods[0]
	first.Node, first.Phase, first.Ready, first.PlacedTime, first.Unschedulable = "", "Pending", false, s.Now, true
	for range 14 {
		s.after(20 * time.Second)
		s.Pods[1].PlacedTime = s.Now
		check.Equal(t, "looks on", true, pending() > 0)
	}
	s.after(20 * time.Second)
	s.Pods[1].PlacedTime = s.Now
	check.Equal(t, "after 5 minutes", time.Duration(0), pending())
}

// A rule that lists PodPending by name has an incident of its own, in which the rank is
// recreated without its pin; the incident that restarted it rests meanwhile.
func TestARuleForPodsWithoutRoom(t *testing.T) {
	s := searching(noRoom, others)
	s.after(30 * time.Second)
	check.Equal(t, "changes", sorted([]string{
		"incidents[2].cause.pod: llm-1-worker-1",
		"incidents[2].class: Infrastructure",
		"incidents[2].id: 2",
		"incidents[2].podCount: 1",
		"incidents[2].pods[llm-1-worker-1]: task worker, uid 4",
		"incidents[2].ranks[0]: failed 1, task worker",
		"incidents[2].rule: no-room",
		"incidents[2].startTime: 30s",
		"incidents[2].steps[0]: action RestartPod, index 0, time 30s",
		"incidents[2].trigger: PodPending",
		"holds[n01]: late true, until 10m30s",
		"restarts.pod: 2",
		"restarts.total: 2",
		"restarts.uncharged: 1",
		"tasks[worker].ranks[1]: incarnation 2, reason Step",
	}), s.changes())
	check.Equal(t, "deleted", []string{"4"}, s.deleted())

	s.replace(1)
	s.decide()
	check.Equal(t, "goes to", placement.Target{In: []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"}}, s.plan().Lift[0].Target)
	s.search(1)
	s.after(100 * time.Second).decide()
	first := &s.status().Incidents[0]
	check.Equal(t, "the other one rests", 1, len(first.Steps))
	check.Equal(t, "lives of the others", []int32{0, 2, 0}, s.lives())

	// It is closed once its pod is bound, be it not ready yet. The other one goes on then, and
	// gives the pod as long as the ladder gives one after the step before.
	s.bind(1, "n04")
	s.Pods[1].Ready, s.Pods[1].WasReady = false, false
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.status().Incidents[1].Outcome)
	check.Equal(t, "the other", v1alpha1.Outcome(""), s.status().Incidents[0].Outcome)
	check.Equal(t, "the other's steps", 1, len(s.status().Incidents[0].Steps))
	check.Equal(t, "changes, before its time", nil, s.after(59*time.Second).changes())
	s.after(time.Second).decide()
	check.Equal(t, "the other's steps", 2, len(s.status().Incidents[0].Steps))
	check.Equal(t, "lives", []int32{3, 3, 3}, s.lives())
}

func TestBothIncidentsEnd(t *testing.T) {
	s := searching(noRoom, others)
	s.after(30 * time.Second).decide()
	s.back(1, "n04")
	check.Equal(t, "outcomes", []summary{
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "others", 1, v1alpha1.OutcomeRecovered},
		{v1alpha1.PodPending, v1alpha1.ClassInfrastructure, "no-room", 1, v1alpha1.OutcomeRecovered},
	}, s.summaries())
	check.Equal(t, "excluded", 0, len(s.status().ExcludedNodes))
}

func TestTheLadderOfAPodWithoutRoomEndsElsewhere(t *testing.T) {
	s := searching(noRoom, others)
	s.after(30 * time.Second).decide()
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(300 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RelocateJob@300"}, s.fired(t))
	check.Equal(t, "left", "rack-a", s.status().LeftHyperNodes[0].Name)
	check.Equal(t, "home", true, s.status().Placement == nil)
}

// Without a rule of its own the waiting belongs to the incident that restarted the rank,
// whose ladder goes on.
func TestWithoutARuleForItTheLadderGoesOn(t *testing.T) {
	s := searching(others)
	s.after(30 * time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodFailed, v1alpha1.ClassUser, "others", 1, ""}}, s.summaries())
	s.after(30 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartJob@60"}, s.fired(t))

	// A rank that falls out of nothing has an incident by the rule for all.
	s = running(3, others)
	s.status().Incidents = nil
	s.replace(1)
	s.status().Placement.Tasks[0].Nodes[1] = ""
	s.decide()
	s.search(1)
	s.after(30 * time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodPending, v1alpha1.ClassInfrastructure, "others", 1, ""}}, s.summaries())
}

// While a rank is broken otherwise too, the covering incident does not rest.
func TestAnIncidentRestsOnlyWhereAllItsRanksWait(t *testing.T) {
	s := running(3, noRoom, others)
	s.crash(0, 1)
	s.crash(1, 1)
	s.decide()
	s.replace(0)
	s.replace(1)
	s.decide()
	s.bind(0, "n00")
	s.Pods[0].Ready, s.Pods[0].WasReady = false, false
	s.search(1)
	s.after(30 * time.Second).decide()
	check.Equal(t, "trigger", v1alpha1.PodPending, s.incident(t).Trigger)
	s.after(30 * time.Second).decide()
	check.Equal(t, "fired", 2, len(s.status().Incidents[0].Steps))
}

// Two that wait, one after the other, are one incident; one that crashes meanwhile is part of that which they wait for.
func TestWhoJoinsAPodWithoutRoom(t *testing.T) {
	s := running(3, noRoom, others)
	s.crash(1, 1)
	s.crash(2, 1)
	s.decide()
	s.replace(1)
	s.replace(2)
	s.decide()
	s.search(1)
	s.after(5 * time.Second).search(2)
	s.after(25 * time.Second).decide()
	s.after(5 * time.Second).decide()
	check.Equal(t, "joined", int32(2), s.incident(t).PodCount)
	check.Equal(t, "lives", []int32{0, 2, 2}, s.lives())
	s.after(time.Second).crash(0, 1)
	s.decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "others", 3, ""},
		{v1alpha1.PodPending, v1alpha1.ClassInfrastructure, "no-room", 2, ""},
	}, s.summaries())
}

func TestWhatAWaitingIncidentTells(t *testing.T) {
	s := searching(noRoom, others)
	message := func() string {
		return meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message
	}
	first := "incident 1, PodFailed of pod llm-1-worker-1 on node n01, container train exited with 1 (Error): RestartPod"
	check.Equal(t, "is looked at", first+", then RestartJob at 03:05:05 UTC", message())
	s.after(placement.NoRoomToldAfter).decide()
	check.Equal(t, "searches", first+", waits for room in HyperNode rack-a, then RestartJob at 03:05:05 UTC", message())
	s.after(placement.NoRoomAfter - placement.NoRoomToldAfter).decide()
	second := "; incident 2, PodPending of pod llm-1-worker-1: RestartPod"
	next := ", then RelocateJob at 03:09:35 UTC"
	check.Equal(t, "is restarted", first+second+next, message())
	s.replace(1)
	s.fill()
	s.decide()
	waits := ", waits for a healthy node in HyperNode rack-a"
	check.Equal(t, "behind its gate", first+waits+second+waits+next, message())
}

// Binding a gang takes a while, and one of its pods may lose its node meanwhile. There may be no room for that beside the others.
func TestAGangOfWhichAPartIsPlaced(t *testing.T) {
	s := starting(3, noRoom, rule("others", step(v1alpha1.RestartPod, 0)))
	for i := range s.Pods {
		s.search(i)
	}
	s.after(time.Hour).decide()
	check.Equal(t, "incidents, while none has a node", nil, s.summaries())
	s.bound(0, "n00")
	s.after(20*time.Second).bound(1, "n01")
	s.decide()
	check.Equal(t, "incidents, while they are bound", nil, s.summaries())
	check.Equal(t, "looks again", 30*time.Second, Decide(&s.Observation).Next.Sub(s.Now))
	s.after(30*time.Second - 1).decide()
	check.Equal(t, "incidents, before the scheduler has looked for long", nil, s.summaries())

	s.after(1).decide()
	check.Equal(t, "trigger", v1alpha1.PodPending, s.incident(t).Trigger)
	check.Equal(t, "rank", "llm-1-worker-2", s.incident(t).Cause.Pod)
	check.Equal(t, "lives", []int32{0, 0, 1}, s.lives())
	s.replace(2)
	s.decide()
	s.search(2)
	s.after(300 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartPod@0", "RelocateJob@300"}, s.fired(t))
	check.Equal(t, "deleted", 3, len(s.deleted()))

	s.relocated("n06", "n07", "n08")
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "home", "rack-b", s.status().Placement.HyperNode)
}

// bound binds a pod whose gate was lifted before.
func (s *scene) bound(i int, node string) {
	lifted := s.Pods[i].PlacedTime
	s.bind(i, node)
	s.Pods[i].PlacedTime, s.Pods[i].BoundTime = lifted, s.Now
}

// relocated makes all pods again, on these nodes.
func (s *scene) relocated(nodes ...string) {
	for i, node := range nodes {
		s.replace(i)
		s.bind(i, node)
	}
	s.decide()
}

// A part that has failed keeps no place for the rest.
func TestAGangOfWhichAPartHasFailedLooksForRoomAsAWhole(t *testing.T) {
	s := starting(2, noRoom, rule("others", on(v1alpha1.PodNotReady), step(v1alpha1.RestartPod, 0)))
	s.bind(0, "n00")
	s.search(1)
	s.crash(0, 1)
	s.after(time.Hour).decide()
	check.Equal(t, "incidents", nil, s.summaries())
}

// An incident about a pod's start that has no step left lets the others go on once its rank looks for a node.
func TestAnIncidentGoesOnWhereOneAboutAStartIsAtItsEnd(t *testing.T) {
	s := running(3, rule("starts", on(v1alpha1.PodNotStarted), step(v1alpha1.MigratePod, 0)), rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 300)))
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	s.bind(1, "n01")
	p := &s.Pods[1]
	p.Phase, p.Ready, p.WasReady, p.BoundTime, p.StartProblem = corev1.PodPending, false, false, s.Now, gang.StartProblem{Reason: "ImagePullBackOff"}
	s.after(30 * time.Second).decide()
	check.Equal(t, "incidents", 2, len(s.status().Incidents))
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(270 * time.Second).decide()
	first := s.status().Incidents[0]
	check.Equal(t, "last step", v1alpha1.RestartJob, first.Steps[len(first.Steps)-1].Action)
}

// A rank whose program waits for its gang has its node: an incident about room has nothing to decide on it.
func TestAnIncidentGoesOnWhereOneAboutRoomHasBroughtAllToNodes(t *testing.T) {
	s := supervised(3, rule("room", on(v1alpha1.PodPending), step(v1alpha1.RestartJob, 0)), rule("r", step(v1alpha1.RestartProcesses, 0), step(v1alpha1.RestartJob, 600)))
	s.fails(0, 1)
	s.decide()
	s.Pods[1].Deleting = true
	s.decide()
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(placement.NoRoomAfter).decide()
	check.Equal(t, "incidents", 2, len(s.status().Incidents))
	for i := range s.Pods {
		s.replace(i)
		s.decide()
		s.bind(i, "n0"+strconv.Itoa(i))
		s.reports(i, gang.ProcessWaiting)
	}
	s.fails(0, 1) // before the others have started
	s.after(600 * time.Second).decide()
	first := s.status().Incidents[0]
	check.Equal(t, "last step", v1alpha1.RestartJob, first.Steps[len(first.Steps)-1].Action)
}

// A step that was put off while a rank had no room does not come as soon as it has a node, but as long after that as its rule says.
func TestAStepThatWasPutOffWaitsAgainOnceThereIsRoom(t *testing.T) {
	s := running(3, rule("room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0), step(v1alpha1.RelocateJob, 40)),
		rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 60)))
	s.fill("n00", "n01", "n02")
	s.lose("n01")
	s.decide()
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(placement.NoRoomAfter).decide()
	s.replace(1)
	s.decide()
	s.search(1)
	s.after(40 * time.Second).decide()
	check.Equal(t, "left", []string{"rack-a"}, s.left())
	for i := range s.Pods {
		s.replace(i)
	}
	s.decide()
	for i, node := range []string{"n06", "n07", "n08"} {
		s.bind(i, node)
		s.unready(i)
	}
	s.decide()
	check.Equal(t, "steps of the first", 1, len(s.status().Incidents[0].Steps))
	s.after(60 * time.Second).decide()
	check.Equal(t, "steps of the first, later", 2, len(s.status().Incidents[0].Steps))
}
