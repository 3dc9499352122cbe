// The phases of an incident, and the times that they are computed from.

package policies

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// phases tells the phases of an incident, each with when it ended and how long it took.
func phases(inc *v1alpha1.Incident) []string {
	var out []string
	for _, p := range incident.Phases(inc) {
		out = append(out, fmt.Sprintf("%s %s until %s", p.Phase, p.Duration(), p.Until.Sub(inc.StartTime.Time)))
	}
	return out
}

func TestPhases(t *testing.T) {
	at := func(seconds int) *metav1.MicroTime {
		return new(metav1.NewMicroTime(sceneStart.Add(time.Duration(seconds) * time.Second)))
	}
	fired := func(action v1alpha1.Action, seconds int) v1alpha1.FiredStep {
		return v1alpha1.FiredStep{Action: action, Time: *at(seconds)}
	}
	const recovered = v1alpha1.OutcomeRecovered
	tests := map[string]struct {
		inc  v1alpha1.Incident
		want []string
	}{
		"open, nothing done": {v1alpha1.Incident{}, nil},
		"back by itself":     {v1alpha1.Incident{EndTime: at(20), Outcome: recovered}, []string{"Start 20s until 20s"}},
		"seen late": {v1alpha1.Incident{Cause: v1alpha1.Cause{Time: new(metav1.NewTime(sceneStart.Add(-2 * time.Second)))}, EndTime: at(20), Outcome: recovered},
			[]string{"Detect 2s until 0s", "Start 20s until 20s"}},
		"a cause that is noted late": {v1alpha1.Incident{Cause: v1alpha1.Cause{Time: new(metav1.NewTime(sceneStart.Add(time.Hour)))}, EndTime: at(20), Outcome: recovered},
			[]string{"Start 20s until 20s"}},
		"a step": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 90)}, PlacedTime: at(91), BoundTime: at(93), EndTime: at(120), Outcome: recovered},
			[]string{"Decide 1m30s until 1m30s", "Place 3s until 1m33s", "Start 27s until 2m0s"}},
		"two steps": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 0), fired(v1alpha1.RestartJob, 600)}, PlacedTime: at(601), BoundTime: at(602), EndTime: at(630), Outcome: recovered},
			[]string{"Place 10m2s until 10m2s", "Start 28s until 10m30s"}},
		"waits for room": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 0)}, NoRoomTime: at(2), PlacedTime: at(300), BoundTime: at(301), EndTime: at(310), Outcome: recovered},
			[]string{"Place 2s until 2s", "WaitForRoom 4m59s until 5m1s", "Start 9s until 5m10s"}},
		"waited for room before it began": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 0)}, NoRoomTime: at(-30), BoundTime: at(1), EndTime: at(2), Outcome: recovered},
			[]string{"WaitForRoom 1s until 1s", "Start 1s until 2s"}},
		"gives up who has no room": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 0), fired(v1alpha1.ShrinkTask, 120)}, NoRoomTime: at(2), EndTime: at(125), Outcome: recovered},
			[]string{"Place 2s until 2s", "WaitForRoom 1m58s until 2m0s", "Start 5s until 2m5s"}},
		"somebody else took the pod away": {v1alpha1.Incident{PlacedTime: at(1), BoundTime: at(2), EndTime: at(9), Outcome: recovered},
			[]string{"Place 2s until 2s", "Start 7s until 9s"}},
		"Kubernetes notes to the second": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 1)}, BoundTime: at(0), EndTime: at(2), Outcome: recovered},
			[]string{"Decide 1s until 1s", "Start 1s until 2s"}},
		"steps that are only recorded": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, DryRun: true, Time: *at(5)}, fired(v1alpha1.Ignore, 6)}, EndTime: at(20), Outcome: recovered},
			[]string{"Start 20s until 20s"}},
		"open, after a step": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 5), fired(v1alpha1.RestartJob, 9)}},
			[]string{"Decide 5s until 5s", "Place 4s until 9s"}},
		"open, without room": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 5)}, NoRoomTime: at(7)},
			[]string{"Decide 5s until 5s", "Place 2s until 7s"}},
		"programs restarted": {v1alpha1.Incident{Epoch: 2, Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartProcesses, 1)}, StoppedTime: at(3), BarrierTime: at(6), RunningTime: at(7), EndTime: at(20), Outcome: recovered},
			[]string{"Decide 1s until 1s", "Stop 2s until 3s", "Barrier 3s until 6s", "Start 14s until 20s"}},
		"programs restarted with a replacement": {v1alpha1.Incident{Epoch: 2, Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 1)}, StoppedTime: at(3), PlacedTime: at(4), BoundTime: at(5), BarrierTime: at(8), EndTime: at(20), Outcome: recovered},
			[]string{"Decide 1s until 1s", "Stop 2s until 3s", "Place 2s until 5s", "Barrier 3s until 8s", "Start 12s until 20s"}},
		"a replacement waits for room while programs stop": {v1alpha1.Incident{Epoch: 2, Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 1)}, NoRoomTime: at(2), StoppedTime: at(3), BoundTime: at(5), BarrierTime: at(8), EndTime: at(20), Outcome: recovered},
			[]string{"Decide 1s until 1s", "Place 1s until 2s", "WaitForRoom 3s until 5s", "Barrier 3s until 8s", "Start 12s until 20s"}},
		"given up before a step": {v1alpha1.Incident{EndTime: at(20), Outcome: v1alpha1.OutcomeCancelled}, []string{"Decide 20s until 20s"}},
		"given up after a step": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 5)}, EndTime: at(20), Outcome: v1alpha1.OutcomeFailed},
			[]string{"Decide 5s until 5s", "Place 15s until 20s"}},
		"given up without room": {v1alpha1.Incident{Steps: []v1alpha1.FiredStep{fired(v1alpha1.RestartPod, 5)}, NoRoomTime: at(7), EndTime: at(20), Outcome: v1alpha1.OutcomeFailed},
			[]string{"Decide 5s until 5s", "Place 2s until 7s", "WaitForRoom 13s until 20s"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.inc.StartTime = *at(0)
			check.Equal(t, "phases", tc.want, phases(&tc.inc))
		})
	}
}

// The times of an incident are those of the last replacement.
func TestTimesOfReplacements(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartTask, 5)))
	s.crash(1, 1)
	s.decide()
	s.after(5 * time.Second).decide()
	for i := range s.Pods {
		s.replace(i)
		s.after(time.Second).bind(i, fmt.Sprintf("n%02d", i))
		s.Pods[i].Ready, s.Pods[i].BoundTime = false, s.Now.Add(500*time.Millisecond)
	}
	s.after(time.Second).decide()
	check.Equal(t, "while it is open", nil, s.incident(t).BoundTime)
	for i := range s.Pods {
		s.Pods[i].Ready = true
	}
	s.after(10 * time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "phases", []string{"Decide 5s until 5s", "Place 3.5s until 8.5s", "Start 10.5s until 19s"}, phases(s.incident(t)))

	// A pod that runs on was bound long ago.
	s = running(3, rule("r", step(v1alpha1.RestartPod, 60)))
	s.Pods[1].BoundTime = s.Now
	s.after(time.Hour).unready(1)
	s.decide()
	s.after(time.Second).ready(1)
	check.Equal(t, "back in place", nil, s.incident(t).BoundTime)
	check.Equal(t, "phases", []string{"Start 1s until 1s"}, phases(s.incident(t)))
}

func TestWhenReplacementsWaitForRoom(t *testing.T) {
	const lookedFor = placement.NoRoomToldAfter
	tests := map[string]struct {
		story func(*scene)
		since time.Duration // after the crash; negative for never
	}{
		"it finds a node at once":                {func(s *scene) { s.search(1); s.after(time.Second).bind(1, "n01"); s.decide() }, -1},
		"it has looked for a moment":             {func(s *scene) { s.search(1); s.after(lookedFor - 1).decide() }, -1},
		"it has looked for some time":            {func(s *scene) { s.after(time.Second).search(1); s.after(lookedFor).decide() }, time.Second},
		"the scheduler tries no node in a round": {func(s *scene) { s.search(1); s.Pods[1].Untried = true; s.after(time.Second).decide() }, -1},
		"the scheduler tries no node":            {func(s *scene) { s.search(1); s.Pods[1].Untried = true; s.after(lookedFor).decide() }, 0},
		"its queue is closed": {func(s *scene) {
			s.search(1)
			s.Pods[1].Untried, s.QueueClosed = true, true
			s.after(lookedFor).decide()
		}, -1},
		"a volume is elsewhere": {func(s *scene) {
			s.search(1)
			s.FitErrors = []string{"node(s) had volume node affinity conflict"}
			s.after(lookedFor).decide()
		}, -1},
		"nodes are full": {func(s *scene) {
			s.search(1)
			s.FitErrors = []string{"Insufficient nvidia.com/gpu"}
			s.after(lookedFor).decide()
		}, 0},
		"no node is good for it": {func(s *scene) { s.fill(); s.after(3 * time.Second).decide() }, 3 * time.Second},
		"the next pod waits, too": {func(s *scene) {
			s.search(1)
			s.after(lookedFor).decide()
			s.replace(1)
			s.fill()
			s.after(time.Minute).decide()
		}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 0)))
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			tc.story(s)
			inc := s.incident(t)
			since := time.Duration(-1)
			if inc.NoRoomTime != nil {
				since = inc.NoRoomTime.Sub(inc.StartTime.Time)
			}
			check.Equal(t, "since", tc.since, since)
		})
	}
}

// A wait for room is told of the incident that it belongs to and of the one that it opens.
func TestPhasesOfAWaitThatOpensAnIncident(t *testing.T) {
	s := running(3, rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RestartPod, 0)), rule("r", step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.after(time.Second).search(1)
	s.after(placement.NoRoomToldAfter).decide()
	s.after(placement.NoRoomAfter).decide()
	check.Equal(t, "trigger", v1alpha1.PodPending, s.incident(t).Trigger)
	s.replace(1)
	s.after(time.Minute).bind(1, "n01")
	s.Pods[1].Ready = false
	s.after(time.Second).decide()
	s.after(time.Second).ready(1)
	all := s.status().Incidents
	check.Equal(t, "of the failure", []string{"Place 1s until 1s", "WaitForRoom 1m35s until 1m36s", "Start 2s until 1m38s"}, phases(&all[0]))
	check.Equal(t, "of the wait", []string{"WaitForRoom 1m0s until 1m0s", "Start 1s until 1m1s"}, phases(&all[1]))
	check.Equal(t, "lost", "from 0s, lost 1m38s to 1 PodFailed", s.availability())
}
