// Health: signals of nodes and devices, and the pods that they are told of.

package policies

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
)

var (
	degraded = gang.Signal{Name: "NVLinkReplay", Message: "300 replays in a minute"}
	failed   = gang.Signal{Name: "XID79", Failed: true, Message: "fell off the bus"}
)

func TestHealthEvents(t *testing.T) {
	tests := map[string]struct {
		change func(*scene)
		event  v1alpha1.EventType
		class  v1alpha1.FailureClass
		signal gang.Signal
	}{
		"degraded":                         {func(s *scene) { s.Pods[1].Signals = []gang.Signal{degraded} }, v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, degraded},
		"failed":                           {func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed} }, v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure, failed},
		"the worse of two":                 {func(s *scene) { s.Pods[1].Signals = []gang.Signal{degraded, failed} }, v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure, failed},
		"failed, and its node is silent":   {func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.breakNode("n01") }, v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure, failed},
		"degraded, and its node is silent": {func(s *scene) { s.Pods[1].Signals = []gang.Signal{degraded}; s.breakNode("n01") }, v1alpha1.NodeNotReady, v1alpha1.ClassInfrastructure, gang.Signal{}},
		"degraded and not ready":           {func(s *scene) { s.Pods[1].Signals = []gang.Signal{degraded}; s.unready(1) }, v1alpha1.PodNotReady, v1alpha1.ClassUser, gang.Signal{}},
		"failed and not ready":             {func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.unready(1) }, v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure, failed},
		"failed and crashed":               {func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.crash(1, 1) }, v1alpha1.PodFailed, v1alpha1.ClassUser, gang.Signal{}},
		"degraded and deleted":             {func(s *scene) { s.Pods[1].Signals = []gang.Signal{degraded}; s.Pods[1].Deleting = true }, v1alpha1.PodDeleted, v1alpha1.ClassMaintenance, gang.Signal{}},
		"failed, and its node is gone":     {func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.lose("n01") }, v1alpha1.NodeGone, v1alpha1.ClassInfrastructure, gang.Signal{}},
		"failed, and it has succeeded":     {change: func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.succeed(1) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3)
			tc.change(s)
			w := incident.ViewOf(&s.Observation, s.status())
			got := w.Failures(s.status())
			if tc.event == "" {
				check.Equal(t, "failures", 0, len(got))
				return
			}
			check.Equal(t, "failures", 1, len(got))
			check.Equal(t, "event", tc.event, got[0].Event)
			check.Equal(t, "class", tc.class, got[0].Class)
			check.Equal(t, "signal", tc.signal, got[0].Signal)
		})
	}
}

func TestTheLadderOfASignal(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), bySignal("NVLinkReplay"), step(v1alpha1.MigratePod, 300)))
	s.Pods[1].Signals = []gang.Signal{{Name: "ThermalThrottle"}}
	s.decide()
	check.Equal(t, "another signal", nil, s.summaries())
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	check.Equal(t, "story", "incident 1, HealthDegraded by NVLinkReplay of pod llm-1-worker-1 on node n01", s.incident(t).Message)
	check.Equal(t, "message", degraded.Message, s.incident(t).Cause.Message)

	// It is ready all the time, and yet it has not recovered while the signal is there.
	s.after(time.Minute).decide()
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.Pods[1].Signals = nil
	s.after(time.Minute).decide()
	check.Equal(t, "outcome, the signal is gone", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "fired", nil, s.fired(t))

	// It comes back, and stays.
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	s.after(300 * time.Second).decide()
	check.Equal(t, "fired", []string{"MigratePod@300"}, s.fired(t))
	check.Equal(t, "story", "incident 2, HealthDegraded by NVLinkReplay of pod llm-1-worker-1 on node n01: MigratePod, without a checkpoint", s.incident(t).Message)
	s.back(1, "n04")
	check.Equal(t, "outcome, elsewhere", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "ready", "3/3", s.status().Ready)
}

// A signal that no rule is for does not hide one that has a rule, whichever comes first.
func TestTheSignalThatARuleIsFor(t *testing.T) {
	hot := gang.Signal{Name: "ThermalThrottle"}
	for _, signals := range [][]gang.Signal{{hot, degraded}, {degraded, hot}, {hot, failed, degraded}} {
		s := running(3, rule("ill", on(v1alpha1.HealthDegraded, v1alpha1.HealthFailed), bySignal("NVLinkReplay", "XID79"), step(v1alpha1.MigratePod, 300)))
		s.Pods[1].Signals = signals
		s.decide()
		want := degraded.Name
		if len(signals) > 2 {
			want = failed.Name // the worse one
		}
		check.Equal(t, "signal", want, s.incident(t).Cause.Signal)
	}
}

// A signal that no rule is for keeps no rank from being well again.
func TestASignalThatNoRuleIsFor(t *testing.T) {
	s := running(3, rule("crash", on(v1alpha1.PodFailed), step(v1alpha1.RestartPod, 0)))
	s.Pods[1].Signals = []gang.Signal{failed}
	s.decide()
	check.Equal(t, "incidents", nil, s.summaries())
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	s.bind(1, "n01")
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// A signal that a rule ignores is none: the job runs, other signals are heard, and whoever has only
// that one is left alone.
func TestASignalThatIsIgnored(t *testing.T) {
	other := gang.Signal{Name: "PCIeWidth", Message: "4 lanes"}
	s := running(3,
		rule("shrug", bySignal(degraded.Name), step(v1alpha1.Ignore, 0)),
		rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)))
	for i := range s.Pods {
		s.Pods[i].Signals = []gang.Signal{degraded}
	}
	s.decide()
	check.Equal(t, "incidents", nil, s.summaries())
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)

	s.after(time.Minute).Pods[1].Signals = []gang.Signal{degraded, other}
	s.decide()
	check.Equal(t, "signal", other.Name, s.incident(t).Cause.Signal)
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	s.replace(1)
	s.decide()
	s.bind(1, "n04")
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// Whoever tells the operator to ignore what it waits to act upon has it stop waiting.
func TestASignalThatIsToBeIgnoredFromNowOn(t *testing.T) {
	s := running(3, rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 300)))
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	check.Equal(t, "outcome", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.Job.Spec.RestartPolicy.Rules[0].Steps = []v1alpha1.Step{{Action: v1alpha1.Ignore}}
	s.after(time.Minute).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	s.Job.Spec.RestartPolicy.Rules[0].Steps = []v1alpha1.Step{{Action: v1alpha1.MigratePod}}
	s.after(time.Minute).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
}

// A device that has failed, and that no rule is for, hides neither that another is degraded nor
// that the node is silent.
func TestASignalThatNoRuleIsForHidesNothing(t *testing.T) {
	for event, change := range map[v1alpha1.EventType]func(*scene){
		v1alpha1.HealthDegraded: func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed, degraded} },
		v1alpha1.NodeNotReady:   func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.breakNode("n01") },
		v1alpha1.PodNotReady:    func(s *scene) { s.Pods[1].Signals = []gang.Signal{failed}; s.unready(1) },
	} {
		s := running(3, rule("r", on(event), step(v1alpha1.RestartPod, 60)))
		change(s)
		s.decide()
		check.Equal(t, "trigger", event, s.incident(t).Trigger)
	}
}

// Degraded devices fail: the same incident follows the stronger event's rule.
func TestASignalThatBecomesWorse(t *testing.T) {
	s := running(3,
		rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 300)),
		rule("dead", on(v1alpha1.HealthFailed), step(v1alpha1.RestartPod, 5)))
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	s.Pods[1].Signals = []gang.Signal{failed}
	s.after(5 * time.Second).decide()
	check.Equal(t, "incidents", []summary{{v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure, "dead", 1, ""}}, s.summaries())
	check.Equal(t, "fired", []string{"RestartPod@5"}, s.fired(t))
	check.Equal(t, "excluded", []string{"n01"}, s.excluded())
	check.Equal(t, "by default", "everything-else", func() string {
		r, _ := rules.Match(rules.DefaultRules(false), rules.Failure{Event: v1alpha1.HealthFailed})
		return r.Name
	}())
}

// A pod that is back is not restarted for its device: that has a rule, and five minutes, of its own.
func TestAPodThatIsBackOnADegradedDevice(t *testing.T) {
	s := running(3)
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	s.after(5 * time.Second).unready(1)
	s.decide()
	s.after(20 * time.Second).Pods[1].Ready = true
	s.decide()
	check.Equal(t, "the kubelet has restarted it", []summary{
		{v1alpha1.PodNotReady, v1alpha1.ClassUser, "restarts-in-place", 1, v1alpha1.OutcomeRecovered},
		{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "health-degraded", 1, ""},
	}, s.summaries())
	s.after(299 * time.Second).decide()
	check.Equal(t, "steps", nil, s.fired(t))
	s.after(time.Second).decide()
	check.Equal(t, "steps", []string{"MigratePod@300"}, s.fired(t))

	// A replacement that finds itself on another degraded device is back all the same.
	s = running(3)
	s.Pods[1].Signals = []gang.Signal{failed}
	s.decide()
	s.replace(1)
	s.decide()
	s.bind(1, "n04")
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	s.Pods[1].Signals = []gang.Signal{failed}
	if w := incident.ViewOf(&s.Observation, s.status()); w.IsHealedFor(s.status(), s.incident(t), gang.Rank{Task: "worker", Index: 1}) {
		t.Error("a pod on a device that has failed is back")
	}
	check.Equal(t, "a replacement", []summary{
		{v1alpha1.HealthFailed, v1alpha1.ClassInfrastructure, "everything-else", 1, v1alpha1.OutcomeRecovered},
		{v1alpha1.HealthDegraded, v1alpha1.ClassInfrastructure, "health-degraded", 1, ""},
	}, s.summaries())
}

func TestPodConditions(t *testing.T) {
	have := func(kind, status, reason string) []corev1.PodCondition {
		return []corev1.PodCondition{
			{Type: "Initialized", Status: corev1.ConditionTrue},
			{Type: corev1.PodConditionType(kind), Status: corev1.ConditionStatus(status), Reason: reason},
		}
	}
	tests := map[string]struct {
		rule       v1alpha1.Rule
		conditions []corev1.PodCondition
		want       bool
	}{
		"it has it":                    {rule("r", withCondition("DisruptionTarget", "", "")), have("DisruptionTarget", "True", "Any"), true},
		"it has none":                  {rule("r", withCondition("DisruptionTarget", "", "")), nil, false},
		"of another type":              {rule("r", withCondition("DisruptionTarget", "", "")), have("Ready", "True", ""), false},
		"not true":                     {rule("r", withCondition("DisruptionTarget", "", "")), have("DisruptionTarget", "False", ""), false},
		"false, as is asked for":       {rule("r", withCondition("GPUHealthy", "False", "")), have("GPUHealthy", "False", ""), true},
		"true, and false is asked for": {rule("r", withCondition("GPUHealthy", "False", "")), have("GPUHealthy", "True", ""), false},
		"its reason":                   {rule("r", withCondition("DisruptionTarget", "True", "Preempted")), have("DisruptionTarget", "True", "Preempted"), true},
		"another reason":               {rule("r", withCondition("DisruptionTarget", "True", "Preempted")), have("DisruptionTarget", "True", "Drained"), false},
		"one of two":                   {rule("r", withCondition("A", "", ""), withCondition("B", "", "")), have("B", "True", ""), true},
		"beside another part that does not match": {rule("r", withCondition("B", "", ""), because("Evicted")), have("B", "True", ""), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(2, rule("r", step(v1alpha1.RestartPod, 30)))
			tc.rule.Steps = s.Job.Spec.RestartPolicy.Rules[0].Steps
			s.Job.Spec.RestartPolicy.Rules[0] = tc.rule
			s.Pods[1].Conditions = tc.conditions
			s.crash(1, 1)
			s.decide()
			check.Equal(t, "matches", tc.want, len(s.status().Incidents) == 1)
		})
	}
}

func TestSignalsNarrow(t *testing.T) {
	tests := map[string]struct {
		rule v1alpha1.Rule
		f    rules.Failure
		want bool
	}{
		"its signal":      {rule("r", bySignal("A", "B")), rules.Failure{Signal: gang.Signal{Name: "B"}}, true},
		"another signal":  {rule("r", bySignal("A")), rules.Failure{Signal: gang.Signal{Name: "B"}}, false},
		"no signal":       {rule("r", bySignal("A")), rules.Failure{Event: v1alpha1.PodFailed}, false},
		"no signal asked": {rule("r"), rules.Failure{Signal: gang.Signal{Name: "B"}}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "matches", tc.want, rules.Matches(tc.rule.Match, tc.f)) })
	}
}

// A node of which something has failed takes no pod, whoever found it, and a rank that
// lives there on a good GPU is left alone until it has to be restarted.
func TestNoPodGoesToAnIllNode(t *testing.T) {
	s := running(3)
	s.node("n01", func(n *gang.Node) { n.Ill = true })
	s.node("n04", func(n *gang.Node) { n.Ill = true })
	s.decide()
	check.Equal(t, "incidents", 0, len(s.status().Incidents))
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.decide()
	check.Equal(t, "may go to", []string{"host-n00", "host-n02", "host-n03", "host-n05"}, s.plan().Lift[0].Target.In)
}

// A rule for signals while the gang is down applies then, and only then.
func TestASignalWhileTheGangIsDown(t *testing.T) {
	down := rule("down", on(v1alpha1.HealthFailed), step(v1alpha1.RestartPod, 0))
	down.Match.GangRunning = new(false)
	s := running(4, down)
	s.ail(gang.Signal{Name: "NVLinkDown", Failed: true}, 1)
	s.decide()
	check.Equal(t, "incidents, while the others run", 0, len(s.status().Incidents))
	s.crash(2, 1)
	s.decide()
	check.Equal(t, "rule", "down", s.incident(t).Rule)
	check.Equal(t, "lives", []int32{0, 1, 0, 0}, s.lives())
}
