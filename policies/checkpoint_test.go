// Checkpoints: whom a move asks first, how long it waits, and what it makes of the answers.

package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

var (
	saved   = gang.Answer{Saved: true}
	refused = gang.Answer{Refused: true, Message: "answered 500 Internal Server Error"}
	nobody  = gang.Answer{Message: "connection refused"}
	asleep  = gang.Answer{}
)

// migrates moves what is degraded, and then restarts it; what has failed is restarted at once.
func migrates() []v1alpha1.Rule {
	return []v1alpha1.Rule{
		rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 30), step(v1alpha1.RestartJob, 90)),
		rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)),
	}
}

// degradedJob is a job of four ranks, asked for checkpoints, one of which has a degraded link
// and is due to be moved.
func degradedJob(pods ...v1alpha1.CheckpointPods) *scene {
	s := aScene(aJob().tasks(task("head", 1), task("worker", 3, withSpares(1))).policy(withRules(migrates()...)).saving(pods...)).started().placed()
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.decide()
	s.after(30 * time.Second)
	return s
}

// answer is what a pod has answered to the request of the newest incident.
func (s *scene) answer(t *testing.T, i int, a gang.Answer) {
	t.Helper()
	if s.Answers == nil {
		s.Answers = map[gang.AnswerKey]gang.Answer{}
	}
	s.Answers[gang.AnswerKey{Request: incident.RequestID(s.Job, s.incident(t)), Pod: s.Pods[i].UID}] = a
}

// asks are the pods that are to be asked.
func (s *scene) asks() []string {
	var out []string
	for _, a := range s.plan().Ask {
		for _, p := range a.Pods {
			out = append(out, p.Name)
		}
	}
	return out
}

func TestCheckpointIsAskedForBeforeTheMove(t *testing.T) {
	s := degradedJob()
	check.Equal(t, "asked before it is due", nil, s.asks())
	check.Equal(t, "changes: the request and nothing else", []string{
		"incidents[1].checkpoint.deadline: 1m30s", "incidents[1].checkpoint.pods: 4", "incidents[1].checkpoint.requestTime: 30s",
	}, s.changes())
	check.Equal(t, "plan", Plan{Ask: []Ask{{
		ID: fmt.Sprintf("%s-1-%d", s.Job.UID, s.Now.UnixMicro()), Incident: 1, Reason: v1alpha1.HealthDegraded, Signal: "NVLinkReplay", Moves: []string{"llm-1-worker-0"},
		Deadline: s.Now.Add(time.Minute), Port: 8081, Path: "/checkpoint",
		Pods: []AskedPod{{"llm-1-head-0", "1", "10.0.0.1"}, {"llm-1-worker-0", "2", "10.0.0.2"}, {"llm-1-worker-1", "3", "10.0.0.3"}, {"llm-1-worker-2", "4", "10.0.0.4"}},
	}}}, s.plan())
	check.Equal(t, "story", "incident 1, HealthDegraded by NVLinkReplay of pod llm-1-worker-0 on node n01: waits for a checkpoint of 4 pods until 03:05:35 UTC", s.incident(t).Message)

	// The answers that come are not written one by one, and nobody is asked twice.
	for i := range 3 {
		s.answer(t, i, saved)
	}
	s.answer(t, 3, asleep)
	check.Equal(t, "changes while one is waited for", nil, s.after(10*time.Second).changes())
	p := s.plan()
	check.Equal(t, "plan", true, p.Empty())

	s.answer(t, 3, saved)
	s.after(2 * time.Second).decide()
	c := s.incident(t).Checkpoint
	check.Equal(t, "outcome", v1alpha1.CheckpointSaved, c.Outcome)
	check.Equal(t, "answered", int32(4), c.Answered)
	check.Equal(t, "fired in the same write", []string{"MigratePod@42"}, s.fired(t))
	check.Equal(t, "deleted: the pod, and the spare that gives its node", []string{"2", "5"}, s.deleted())
	check.Equal(t, "story", "incident 1, HealthDegraded by NVLinkReplay of pod llm-1-worker-0 on node n01: MigratePod, checkpoint saved by 4 of 4 pods in 12s", s.incident(t).Message)
	s.back(1, "n04")
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "changes after", nil, s.changes())
}

func TestOutcomesOfACheckpoint(t *testing.T) {
	all := func(s *scene, t *testing.T, a gang.Answer) {
		for i := range 4 {
			s.answer(t, i, a)
		}
	}
	tests := map[string]struct {
		happens func(*scene, *testing.T)
		after   time.Duration
		outcome v1alpha1.CheckpointOutcome
		fired   []string
		tells   string
	}{
		"nobody has answered yet": {after: time.Minute - time.Nanosecond, tells: "waits for a checkpoint of 4 pods"},
		"nobody answers":          {after: time.Minute, outcome: v1alpha1.CheckpointTimedOut, fired: []string{"MigratePod@90"}, tells: "MigratePod, without a checkpoint: TimedOut, 0 of 4 pods answered (llm-1-head-0 has not answered)"},
		"one does": {
			happens: func(s *scene, t *testing.T) { s.answer(t, 0, saved) }, after: time.Minute,
			outcome: v1alpha1.CheckpointTimedOut, fired: []string{"MigratePod@90"}, tells: "TimedOut, 1 of 4 pods answered (llm-1-worker-0 has not answered)",
		},
		"all but one that is not there": {
			happens: func(s *scene, t *testing.T) { all(s, t, saved); s.answer(t, 2, nobody) }, after: time.Minute,
			outcome: v1alpha1.CheckpointUnreachable, fired: []string{"MigratePod@90"}, tells: "Unreachable, 3 of 4 pods answered (llm-1-worker-1: connection refused)",
		},
		"one that is not there is tried again":          {happens: func(s *scene, t *testing.T) { all(s, t, nobody) }, after: time.Minute - time.Nanosecond, tells: "waits"},
		"several that are not there: the first is told": {happens: func(s *scene, t *testing.T) { all(s, t, nobody) }, after: time.Minute, outcome: v1alpha1.CheckpointUnreachable, fired: []string{"MigratePod@90"}, tells: "(llm-1-head-0: connection refused)"},
		"one refuses, and the others are not waited for": {
			happens: func(s *scene, t *testing.T) { s.answer(t, 0, saved); s.answer(t, 3, refused) }, after: time.Second,
			outcome: v1alpha1.CheckpointRefused, fired: []string{"MigratePod@31"}, tells: "Refused, 1 of 4 pods answered (llm-1-worker-2 answered 500 Internal Server Error)",
		},
		"all answer at the last moment": {
			happens: func(s *scene, t *testing.T) { all(s, t, saved) }, after: time.Minute,
			outcome: v1alpha1.CheckpointSaved, fired: []string{"MigratePod@90"}, tells: "saved by 4 of 4 pods in 1m0s",
		},
		"it becomes worse, and the answers are not waited for": {
			happens: func(s *scene, t *testing.T) { s.answer(t, 0, saved); s.Pods[1].Signals = []gang.Signal{failed} }, after: time.Second,
			outcome: v1alpha1.CheckpointOvertaken, fired: []string{"RestartPod@31"}, tells: "RestartPod, without a checkpoint: Overtaken, 1 of 4 pods answered (something else came before the answers)",
		},
		"its pod fails": {
			happens: func(s *scene, _ *testing.T) { s.crash(1, 1) }, after: time.Second,
			outcome: v1alpha1.CheckpointOvertaken, fired: []string{"RestartPod@31"}, tells: "Overtaken",
		},
		"its node is gone": {
			happens: func(s *scene, _ *testing.T) { s.lose("n01") }, after: time.Second,
			outcome: v1alpha1.CheckpointOvertaken, fired: []string{"RestartPod@31"}, tells: "Overtaken",
		},
		"the signal is gone": {
			happens: func(s *scene, _ *testing.T) { s.Pods[1].Signals = nil }, after: time.Second,
			outcome: v1alpha1.CheckpointCancelled, tells: "checkpoint cancelled",
		},
		"the job is suspended": {
			happens: func(s *scene, _ *testing.T) { s.Job.Spec.Suspend = true }, after: time.Second,
			outcome: v1alpha1.CheckpointCancelled, tells: "checkpoint cancelled",
		},
		"nobody wants it any more": {
			happens: func(s *scene, _ *testing.T) { s.Job.Spec.Checkpoint = nil }, after: time.Second,
			outcome: v1alpha1.CheckpointCancelled, fired: []string{"MigratePod@31"}, tells: "MigratePod, checkpoint cancelled (spec.checkpoint was removed)",
		},
		"a dry run begins": {
			happens: func(s *scene, _ *testing.T) { s.dryRun(true) }, after: time.Second,
			outcome: v1alpha1.CheckpointCancelled, fired: []string{"MigratePod@31"}, tells: "MigratePod would be taken, but this is a dry run, checkpoint cancelled (this is a dry run now)",
		},
		"the rule is changed to one that asks nobody": {
			happens: func(s *scene, _ *testing.T) { s.Job.Spec.RestartPolicy.Rules[0].Steps[0].Action = v1alpha1.RestartTask }, after: time.Second,
			outcome: v1alpha1.CheckpointOvertaken, fired: []string{"RestartTask@31"}, tells: "RestartTask, without a checkpoint: Overtaken",
		},
		"its time is changed, for the next one": {
			happens: func(s *scene, _ *testing.T) { s.Job.Spec.Checkpoint.Request.TimeoutSeconds = 1 }, after: 30 * time.Second, tells: "waits",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := degradedJob()
			s.decide()
			if tc.happens != nil {
				tc.happens(s, t)
			}
			s.after(tc.after).decide()
			inc := s.incident(t)
			check.Equal(t, "outcome", tc.outcome, inc.Checkpoint.Outcome)
			check.Equal(t, "fired", tc.fired, s.fired(t))
			check.Equal(t, "is over", tc.outcome != "", inc.Checkpoint.EndTime != nil)
			if !strings.Contains(inc.Message, tc.tells) {
				t.Errorf("story %q does not tell %q", inc.Message, tc.tells)
			}
			if tc.outcome != "" {
				check.Equal(t, "asked after", nil, s.asks())
				check.Equal(t, "requests", nil, incident.Requests(s.Job, s.status()))
			}
		})
	}
}

// A pod that was asked and that is none of the incident falls: the save is lost with it.
func TestACheckpointIsLostWithAPodThatWasAsked(t *testing.T) {
	s := degradedJob()
	s.decide()
	s.crash(3, 1)
	s.after(time.Second).decide()
	inc := &s.status().Incidents[0]
	check.Equal(t, "outcome", v1alpha1.CheckpointOvertaken, inc.Checkpoint.Outcome)
	check.Equal(t, "message", "1 of the pods that were asked run no more", inc.Checkpoint.Message)
	check.Equal(t, "steps", v1alpha1.MigratePod, inc.Steps[0].Action)
}

// A manager that is started again finds the request, and sends it again under its old ID.
func TestARequestOutlivesTheManager(t *testing.T) {
	s := degradedJob()
	s.decide()
	first := s.plan().Ask
	s.answer(t, 0, saved)
	s.Answers = nil
	check.Equal(t, "changes", nil, s.after(30*time.Second).changes())
	check.Equal(t, "asked again", first, s.plan().Ask)
	check.Equal(t, "looks again", s.incident(t).Checkpoint.Deadline.Time, s.decide().Next)
	s.after(30 * time.Second)
	check.Equal(t, "asked when its time is over", nil, s.asks())
}

// Each MigratePod step asks again, under another ID; the next one keeps its distance.
func TestEachStepAsksAnew(t *testing.T) {
	s := degradedJob()
	s.Job.Spec.RestartPolicy.Rules[0].Steps[1].Action = v1alpha1.MigratePod
	s.decide()
	first := s.plan().Ask[0].ID
	s.after(time.Minute).decide()
	s.replace(1)
	s.decide()
	s.bind(1, "n05")
	s.Pods[1].Signals = []gang.Signal{degraded}
	s.after(time.Minute - 1).decide()
	check.Equal(t, "fired", []string{"MigratePod@90"}, s.fired(t))
	s.after(1).decide()
	check.Equal(t, "asks", 1, len(s.plan().Ask))
	if second := s.plan().Ask[0].ID; second == first {
		t.Errorf("both requests are %s", first)
	}
	check.Equal(t, "outcome", v1alpha1.CheckpointOutcome(""), s.incident(t).Checkpoint.Outcome)
	s.after(time.Minute).decide()
	check.Equal(t, "fired", []string{"MigratePod@90", "MigratePod@210"}, s.fired(t))
}

// The budget is asked when the move comes.
func TestACheckpointBeforeTheBudgetEnds(t *testing.T) {
	s := degradedJob()
	s.Job.Spec.RestartPolicy.Budget = policy(budget(0, 60)).Budget
	s.Job.Spec.RestartPolicy.Rules[0].Charge = v1alpha1.ChargeAlways
	s.decide()
	s.after(time.Minute).decide()
	check.Equal(t, "state", v1alpha1.StateFailed, s.status().State)
	check.Equal(t, "checkpoint", v1alpha1.CheckpointTimedOut, s.incident(t).Checkpoint.Outcome)
	check.Equal(t, "fired", nil, s.fired(t))
}

// Two links at once: each move asks for itself.
func TestTwoIncidentsAskEachForItself(t *testing.T) {
	s := degradedJob()
	s.Pods[2].Signals = []gang.Signal{degraded}
	s.decide()
	s.after(30 * time.Second).decide()
	plan := s.plan()
	ids := incident.Requests(s.Job, s.status())
	check.Equal(t, "requests", 2, len(ids))
	check.Equal(t, "asked", ids, []string{plan.Ask[0].ID, plan.Ask[1].ID})
	check.Equal(t, "moves", []string{"llm-1-worker-1"}, plan.Ask[1].Moves)
}

func TestAProgramThatIsStuckIsNotAsked(t *testing.T) {
	s := supervised(3, rule("again", on(v1alpha1.ProcessFailed), step(v1alpha1.RestartProcesses, 0)), rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.MigratePod, 0)))
	s.savesOnRequest()
	s.fails(0, 1)
	s.decide()
	s.all(gang.ProcessWaiting)
	s.reports(2, gang.ProcessStopping)
	s.Now = s.decide().Next
	s.decide()
	check.Equal(t, "asked", nil, s.asks())
	check.Equal(t, "trigger", v1alpha1.ProcessStuck, s.incident(t).Trigger)
	check.Equal(t, "steps", []string{"MigratePod@0"}, s.fired(t))
}

// savesOnRequest has the program be asked for a checkpoint.
func (s *scene) savesOnRequest() {
	s.Job.Spec.Checkpoint = &v1alpha1.Checkpoint{Request: v1alpha1.CheckpointRequest{
		HTTPPost: v1alpha1.HTTPPost{Port: 8081, Path: "/checkpoint"}, TimeoutSeconds: 60,
	}}
}

func TestAProgramThatHasEndedIsNotAsked(t *testing.T) {
	s := supervised(3, rule("rest", on(v1alpha1.AnyEvent), step(v1alpha1.MigratePod, 0)))
	s.savesOnRequest()
	s.fails(2, 1)
	s.Pods[2].Ready = true
	s.after(time.Millisecond).decide()
	check.Equal(t, "asked", nil, s.asks())
	check.Equal(t, "steps", []string{"MigratePod@0"}, s.fired(t))
}
