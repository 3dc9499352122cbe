package policies

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// summary is what a test says of an incident.
type summary struct {
	Trigger v1alpha1.EventType
	Class   v1alpha1.FailureClass
	Rule    string
	Pods    int32
	Outcome v1alpha1.Outcome
}

func (s *scene) summaries() []summary {
	var out []summary
	for _, inc := range s.status().Incidents {
		out = append(out, summary{inc.Trigger, inc.Class, inc.Rule, inc.PodCount, inc.Outcome})
	}
	return out
}

func TestIncidentsOpenAndJoin(t *testing.T) {
	const user, infrastructure = v1alpha1.ClassUser, v1alpha1.ClassInfrastructure
	tests := map[string]struct {
		story func(*scene)
		want  []summary
	}{
		"one crash": {
			func(s *scene) { s.crash(1, 1); s.decide() },
			[]summary{{v1alpha1.PodFailed, user, "everything-else", 1, ""}},
		},
		"two at once are one": {
			func(s *scene) { s.crash(1, 1); s.crash(2, 1); s.decide() },
			[]summary{{v1alpha1.PodFailed, user, "everything-else", 2, ""}},
		},
		"one in the wake of another": {
			func(s *scene) { s.crash(1, 1); s.decide(); s.after(10*time.Second).crash(2, 1); s.decide() },
			[]summary{{v1alpha1.PodFailed, user, "everything-else", 2, ""}},
		},
		"one in its wake, much later": {
			func(s *scene) { s.crash(1, 1); s.decide(); s.after(2*time.Minute).crash(2, 1); s.decide() },
			[]summary{{v1alpha1.PodFailed, user, "everything-else", 2, ""}},
		},
		"a victim that the kubelet restarts": {
			func(s *scene) { s.crash(1, 1); s.unready(2); s.decide() },
			[]summary{{v1alpha1.PodFailed, user, "everything-else", 1, ""}},
		},
		"the same failure seen twice": {
			func(s *scene) { s.crash(1, 1); s.decide(); s.after(time.Minute).decide() },
			[]summary{{v1alpha1.PodFailed, user, "everything-else", 1, ""}},
		},
		"a stronger signal decides": {
			func(s *scene) { s.unready(1); s.decide(); s.after(time.Second).breakNode("n01"); s.decide() },
			[]summary{{v1alpha1.NodeNotReady, infrastructure, "node-may-return", 1, ""}},
		},
		"a weaker signal does not": {
			func(s *scene) {
				s.breakNode("n01")
				s.decide()
				s.node("n01", func(n *gang.Node) { n.Ready = true })
				s.unready(1)
				s.after(time.Second).decide()
			},
			[]summary{{v1alpha1.NodeNotReady, infrastructure, "node-may-return", 1, ""}},
		},
		"the death of its node explains it, after the first restart too": {
			func(s *scene) {
				s.crash(1, 1)
				s.decide()
				s.after(time.Second).replace(1)
				delete(s.Nodes, "n01")
				s.decide()
			},
			[]summary{{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "everything-else", 1, ""}},
		},
		"nor one of a new pod": {
			func(s *scene) {
				s.unready(1)
				s.decide()
				s.after(90 * time.Second).decide()
				s.replace(1)
				s.bind(1, "n01")
				s.breakNode("n01")
				s.after(time.Second).decide()
			},
			[]summary{{v1alpha1.PodNotReady, user, "restarts-in-place", 1, ""}},
		},
		"it comes back by itself": {
			func(s *scene) { s.unready(1); s.decide(); s.Pods[1].Ready = true; s.after(time.Minute).decide() },
			[]summary{{v1alpha1.PodNotReady, user, "restarts-in-place", 1, v1alpha1.OutcomeRecovered}},
		},
		"ready again on a silent node is not recovered": {
			func(s *scene) { s.breakNode("n01"); s.decide(); s.after(time.Second).decide() },
			[]summary{{v1alpha1.NodeNotReady, infrastructure, "node-may-return", 1, ""}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			tc.story(s)
			check.Equal(t, "incidents", tc.want, s.summaries())
		})
	}
}

func TestAFailureThatNoRuleMatchesOpensNothing(t *testing.T) {
	s := running(3, rule("nodes", on(v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "incidents", nil, s.summaries())
}

func TestWholeGangAtOnceIsOneIncidentOneChargeOneAttempt(t *testing.T) {
	s := running(4)
	s.crashAll()
	s.VolcanoJobs[0].Ended = true
	s.decide()
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodFailed, v1alpha1.ClassUser, "everything-else", 4, ""}}, s.summaries())
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Job: 1, Charged: 1, ChargedTimes: s.status().Restarts.ChargedTimes}, s.status().Restarts)
	check.Equal(t, "home", "rack-a", s.status().Placement.HyperNode)
	p := s.plan()
	check.Equal(t, "deleted Volcano Jobs", []string{"llm-1"}, p.DeleteVolcanoJobs)
	check.Equal(t, "create", true, p.Create)
}

func TestCrashesThatComeOneByOneAreOneIncident(t *testing.T) {
	s := running(3)
	for i := range 3 {
		s.crash(i, 1)
		s.after(2 * time.Second).decide()
	}
	s.VolcanoJobs[0].Ended = true
	s.decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.PodFailed, v1alpha1.ClassUser, "everything-else", 3, ""}}, s.summaries())
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
}

func TestClosedIncidentsAreForgottenButTen(t *testing.T) {
	s := running(2)
	for range 14 {
		s.unready(0)
		s.after(time.Minute).decide()
		s.Pods[0].Ready = true
		s.after(time.Second).decide()
	}
	all := s.status().Incidents
	check.Equal(t, "remembered", 10, len(all))
	check.Equal(t, "first", int32(5), all[0].ID)
	check.Equal(t, "last", int32(14), all[9].ID)
}

// An incident names 32 pods, and yet all that fell are restarted.
func TestPodsThatAnIncidentDoesNotNameAreRestarted(t *testing.T) {
	s := starting(40)
	for i := range 40 {
		s.bind(i, "n00")
	}
	s.decide()
	for i := range 39 {
		s.crash(i, 1)
	}
	s.decide()
	check.Equal(t, "named", 32, len(s.incident(t).Pods))
	check.Equal(t, "deleted", 39, len(s.deleted()))
	check.Equal(t, "life of the one that is well", int32(0), s.lives()[39])
}

func TestTwoPodsThatAreGoneHaveTheirNames(t *testing.T) {
	s := running(3)
	s.replace(0)
	s.replace(1)
	s.decide()
	var names []string
	for _, p := range s.incident(t).Pods {
		names = append(names, p.Name)
	}
	check.Equal(t, "names", []string{"llm-1-worker-0", "llm-1-worker-1"}, names)
}

// The pod that comes after a silent one has another number than it, whoever removed it.
func TestAPodThatIsTakenAwayHasANewLife(t *testing.T) {
	s := running(3)
	s.breakNode("n01")
	s.decide()
	s.after(30 * time.Second).replace(1)
	s.decide()
	s.after(time.Second).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())

	s = running(3, rule("late", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 60)))
	s.Pods[1].Deleting = true
	s.decide()
	check.Equal(t, "lives while it goes", []int32{0, 0, 0}, s.lives())
	s.after(time.Second).replace(1)
	s.decide()
	s.after(time.Second).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}

func TestAPodThatFallsAfterTheLastStepBeginsAnew(t *testing.T) {
	s := running(3, rule("pod", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.bind(1, "n01")
	s.crash(1, 1)
	s.after(time.Minute).decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "pod", 1, v1alpha1.OutcomeFailed},
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "pod", 1, ""},
	}, s.summaries())
	check.Equal(t, "charged", int32(2), s.status().Restarts.Charged)
	check.Equal(t, "life", int32(2), s.lives()[1])
}

// A replacement that is moved to another degraded device has fallen again.
func TestAPodThatIsMovedToAnotherDegradedDevice(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)))
	s.ail(degraded, 1)
	s.decide()
	s.replace(1)
	s.decide()
	s.bind(1, "n04")
	s.ail(degraded, 1)
	s.after(time.Minute).decide()
	ill := summary{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "ill", 1, v1alpha1.OutcomeFailed}
	again := ill
	again.Outcome = ""
	check.Equal(t, "incidents", []summary{ill, again}, s.summaries())
	check.Equal(t, "lives", []int32{0, 2, 0}, s.lives())
}

// One incident of a rank has no step left, and another one has.
func TestARankIsNamedOnceByAnIncident(t *testing.T) {
	s := running(3, rule("job", on(v1alpha1.NodeGone), step(v1alpha1.RestartJob, 0)), rule("pod", step(v1alpha1.RestartPod, 60)))
	delete(s.Nodes, "n00")
	s.decide()
	for i, node := range []string{"n03", "n01", "n02"} {
		s.replace(i)
		s.bind(i, node)
	}
	s.unready(0)
	s.decide()
	s.status().Incidents = append(s.status().Incidents, v1alpha1.Incident{
		ID: 2, Trigger: v1alpha1.PodNotReady, Class: v1alpha1.ClassUser, StartTime: metav1.NewMicroTime(s.Now),
	})
	inc := s.incident(t)
	inc.Rule, inc.PodCount = "pod", 1
	inc.Pods = []v1alpha1.IncidentPod{{Name: "llm-1-worker-1", UID: "5", Task: "worker", Index: 1, Node: "n01"}}
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "job", 1, v1alpha1.OutcomeFailed},
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "pod", 1, ""}, // the rank that is not ready is a victim
	}, s.summaries())
}

// Every incident that has no step left for a rank that falls again is over, and the new one
// goes on with the ranks that they were still bringing back, whether or not a rule is for these.
func TestAllThatARankFallsOutOfEnds(t *testing.T) {
	s := running(3, rule("job", on(v1alpha1.NodeGone), step(v1alpha1.RestartJob, 0)), rule("pod", on(v1alpha1.PodFailed), step(v1alpha1.RestartPod, 0)))
	starts := func(i int, node string) {
		s.replace(i)
		s.decide()
		s.bind(i, node)
		s.Pods[i].Ready, s.Pods[i].WasReady = false, false
	}
	s.crash(1, 1)
	s.decide()
	starts(1, "n01")
	s.after(2 * time.Minute).lose("n00")
	s.decide()
	s.replace(2)
	starts(0, "n03")
	starts(1, "n01")
	s.crash(1, 1)
	s.after(time.Second).decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "pod", 1, v1alpha1.OutcomeFailed},
		{v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, "job", 1, v1alpha1.OutcomeFailed},
		{v1alpha1.PodFailed, v1alpha1.ClassUser, "pod", 2, ""},
	}, s.summaries())
	check.Equal(t, "taken over", "llm-1-worker-2", s.incident(t).Pods[1].Name)
	check.Equal(t, "lives", []int32{2, 3, 2}, s.lives())
	check.Equal(t, "held", []string{"n01", "n02"}, s.held())
}

func TestADeletedVolcanoJobEndsWhatWasOpen(t *testing.T) {
	s := running(3)
	s.unready(1)
	s.decide()
	s.VolcanoJobs = nil
	s.after(2 * time.Minute).decide()
	check.Equal(t, "incidents", []summary{
		{v1alpha1.PodNotReady, v1alpha1.ClassUser, "restarts-in-place", 1, v1alpha1.OutcomeCancelled},
		{v1alpha1.VolcanoJobDeleted, v1alpha1.ClassMaintenance, "everything-else", 0, ""},
	}, s.summaries())
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
}

// A rank's pod ends a second after the programs of two others have failed, and before anything has been restarted. Its event decides, because
// nothing is left of it, and the first exit stays the cause with each decision.
func TestTheCauseOfAnIncidentStays(t *testing.T) {
	s := supervised(4, rule("later", on(v1alpha1.AnyEvent), step(v1alpha1.RestartTask, 90)))
	s.fails(1, 1)
	s.fails(2, 1)
	s.after(time.Second).crash(0, 1)
	s.Pods[0].Failure.Containers[0].Time = s.Now
	s.decide()
	check.Equal(t, "cause at first", "llm-1-worker-1", s.status().Incidents[0].Cause.Pod)
	for range 4 {
		s.decide()
		inc := s.status().Incidents[0]
		check.Equal(t, "trigger", v1alpha1.PodFailed, inc.Trigger)
		check.Equal(t, "cause", "llm-1-worker-1", inc.Cause.Pod)
	}
}
