package lab

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// fails is a play in which rank 1 of four fails at some times.
func fails(job *v1alpha1.TrainingJob, effect Effect, at ...time.Duration) Setup {
	s := Setup{Job: job, HyperNodes: racks(1, 6), For: 10 * time.Hour}
	for _, t := range at {
		s.Failures = append(s.Failures, Failure{At: t, Rank: gang.Rank{Task: "worker", Index: 1}, Cause: Cause{Name: "c", Effect: effect, Repair: 24 * time.Hour}})
	}
	return s
}

func stepsOf(incidents []v1alpha1.Incident) []v1alpha1.Action {
	var all []v1alpha1.Action
	for _, inc := range incidents {
		for _, s := range inc.Steps {
			all = append(all, s.Action)
		}
	}
	return all
}

// Of pods that are not restarted in place all have failed once the peers have aborted: the step finds no Volcano Job that would make
// new ones, and there is a new attempt.
func TestVolcanoEndsAJobWhosePodsHaveAllFailed(t *testing.T) {
	j := job(4)
	j.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "later", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 10}},
	}}}
	r := play(t, fails(j, ProcessExit, time.Hour))
	check.Equal(t, "steps", []v1alpha1.Action{v1alpha1.RestartJob}, stepsOf(r.Incidents))
	check.Equal(t, "outages", 2, len(r.Outages))
}

// The manager learns of a node that is deleted at once, and of one that is silent after NodeNotReady.
func TestADeletedNodeIsReplacedAtOnce(t *testing.T) {
	deleted, silent := play(t, fails(job(4), NodeDeletion, time.Hour)), play(t, fails(job(4), NodeLoss, time.Hour))
	check.Equal(t, "trigger", v1alpha1.NodeGone, deleted.Incidents[0].Trigger)
	check.Equal(t, "steps", []v1alpha1.Action{v1alpha1.RestartPod}, stepsOf(deleted.Incidents))
	check.Equal(t, "until it is known", time.Duration(0), deleted.Outages[1].In[Decide])
	if sooner := silent.Outages[1].Down() - deleted.Outages[1].Down(); sooner < DefaultCosts().NodeNotReady {
		t.Errorf("a deleted node is replaced %s sooner than a silent one", sooner)
	}
}

// The second crash within ten minutes waits for the kubelet's back-off of 10 s, and for its next look.
func TestTheKubeletBacksOff(t *testing.T) {
	costs := DefaultCosts()
	costs.PeerAbort = 0
	setup := fails(job(4), ProcessExit, time.Hour, time.Hour+5*time.Minute, time.Hour+9*time.Minute)
	setup.Costs = &costs
	r := play(t, setup)
	var waits []time.Duration
	for _, o := range r.Outages[1:] {
		waits = append(waits, o.Down()-o.In[Restore])
	}
	check.Equal(t, "waits", []time.Duration{time.Second, 12500 * time.Millisecond, 25 * time.Second}, waits)
}

// Its process is told to end, and the outage has all of the time in which it does.
func TestAPodThatIsDeletedTrainsNoMore(t *testing.T) {
	o := play(t, fails(job(4), PodLoss, time.Hour)).Outages[1]
	check.Equal(t, "since", time.Hour, o.At)
	if c := DefaultCosts(); o.Down() < c.Stop+c.Start+c.Restore {
		t.Errorf("down for %s", o.Down())
	}
}

// The peers of a lost node exit before that is noticed. Where they are ready once they run again, their incident is over by then, and
// the node's is one of its own. Where they are ready only while they train, it is still open: its clock is that of the step.
func TestReadinessDecidesWhenTheClockOfASilentNodeBegins(t *testing.T) {
	j := job(4)
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{
		UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(1))},
		Rules: []v1alpha1.Rule{{
			Name: "later", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 60}},
		}},
	}
	costs := DefaultCosts()
	step := func(whenTraining bool) time.Duration {
		setup := fails(j, NodeLoss, time.Hour)
		setup.Costs, setup.ReadyWhenTraining = &costs, whenTraining
		r := play(t, setup)
		last := r.Incidents[len(r.Incidents)-1]
		check.Equal(t, "steps", []v1alpha1.Action{v1alpha1.RestartPod}, stepsOf(r.Incidents))
		return last.Steps[0].Time.Sub(Begin.Add(time.Hour))
	}
	check.Equal(t, "while it runs", costs.NodeNotReady+costs.React+time.Minute, step(false))
	check.Equal(t, "while it trains", costs.PeerAbort+costs.React+time.Minute, step(true))
}

// Nothing tells that the node of a failed device is ill until the agent reports it. Where the new gang is on that node by then, it is
// restarted again; where the report is there before it has a place, it keeps away, and the restart that has begun is the only one.
func TestAWholeJobRestartIsRepeatedOnlyOnTheIllNode(t *testing.T) {
	costs := DefaultCosts()
	setup := fails(WholeJobRestarts(job(4)), DeviceFailure, time.Hour)
	setup.Costs = &costs
	for report, want := range map[time.Duration][]v1alpha1.EventType{
		costs.Stop:      {v1alpha1.PodNotReady},
		2 * costs.Stop:  {v1alpha1.PodNotReady, v1alpha1.HealthFailed},
		10 * costs.Stop: {v1alpha1.PodNotReady, v1alpha1.HealthFailed},
	} {
		costs.HealthReport = report
		r := play(t, setup)
		var got []v1alpha1.EventType
		for _, inc := range r.Incidents {
			got = append(got, inc.Trigger)
			check.Equal(t, "node", "n-0-1", inc.Cause.Node)
		}
		check.Equal(t, "restarts with a report after "+report.String(), want, got)
		check.Equal(t, "outages", 2, len(r.Outages))
	}
}

// The kubelet restarts the process that exited before it hears that the pod is deleted. Peers that were restarted as fast train with it,
// lose it once the pod ends, and exit a second time in a row: only the kubelet's back-off brings them back.
func TestPeersCrashAgainWhereAPodIsDeletedAtOnce(t *testing.T) {
	costs := DefaultCosts()
	costs.Stop, costs.PeerAbort, costs.Start, costs.Restore = 700*time.Millisecond, 300*time.Millisecond, time.Second, 700*time.Millisecond
	j := job(3)
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "at-once", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}},
	}}}
	at := time.Hour
	setup := Setup{Job: j, HyperNodes: racks(1, 6), Costs: &costs, ReadyWhenTraining: true, For: 2 * time.Hour, Failures: []Failure{
		failure(at, 0, ProcessExit, 0), failure(at, 2, ProcessExit, 0),
	}}
	down := func(setup Setup) time.Duration {
		r := play(t, setup)
		check.Equal(t, "steps", []v1alpha1.Action{v1alpha1.RestartPod}, stepsOf(r.Incidents))
		return r.Outages[1].Down()
	}
	again := costs.RestartInPlace + relist + costs.PeerAbort + backoffLook + costs.Restore
	check.Equal(t, "down", again, down(setup))
	setup.DeletesAtOnce = true
	if d := down(setup); d > 5*time.Second {
		t.Errorf("down for %s on kubelets that delete at once", d)
	}
	// Peers that notice late do not meet the process any more.
	slowly := costs
	slowly.PeerAbort = 2 * relist
	setup.DeletesAtOnce, setup.Costs = false, &slowly
	if d := down(setup); d > 7*time.Second {
		t.Errorf("down for %s with peers that notice late", d)
	}
}

// A job that a rule fails trains no more, although its kubelets would start its programs again.
func TestAJobThatFailsTrainsNoMore(t *testing.T) {
	j := job(4)
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "end", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.FailJob}},
	}}}
	r := play(t, fails(j, ProcessExit, time.Hour))
	if r.Failed == "" || r.Trained > time.Hour {
		t.Errorf("it trained for %s, and failed: %q", r.Trained, r.Failed)
	}
}
