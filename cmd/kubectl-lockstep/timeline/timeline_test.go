package timeline

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// The next step of an open incident is among its events, and what it means that nobody takes it.
func TestTimelineShowsTheNextStep(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		late    time.Duration
		dryRun  bool
		want    string
		overdue bool
	}{
		"later":              {late: -5 * time.Minute, want: "RestartTask is next, in 5m"},
		"a dry run":          {late: -time.Second, dryRun: true, want: "RestartTask is next, in 1s; it will only be recorded: a dry run"},
		"due":                {late: 12 * time.Second, want: "RestartTask is next, and has been due for 12s"},
		"nobody has done it": {late: 70 * time.Hour, want: "RestartTask is next, and has been due for 2d22h", overdue: true},
	} {
		t.Run(name, func(t *testing.T) {
			due := at.Add(-tc.late)
			job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{
				NextStep:  &v1alpha1.NextStep{Incident: 4, Action: v1alpha1.RestartTask, Time: metav1.NewTime(due), DryRun: tc.dryRun},
				Incidents: []v1alpha1.Incident{{ID: 4, Trigger: v1alpha1.NodeGone, StartTime: metav1.NewMicroTime(due.Add(-10 * time.Minute))}},
			}}
			shown := Of(job, at)
			var out bytes.Buffer
			Print(&out, &shown)
			if want := "  " + due.Format(time.DateTime) + "       10m  " + tc.want + "\n"; !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
			check.Equal(t, "hint", tc.overdue, strings.Contains(out.String(), "it may not be running"))
		})
	}
}

// The time of a job that has ended goes to its end.
func TestTheAvailabilityEndsWithTheJob(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	end := metav1.NewMicroTime(begin.Add(time.Hour))
	job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{Availability: &v1alpha1.Availability{StartTime: metav1.NewMicroTime(begin), EndTime: &end}}}
	check.Equal(t, "end", end, Of(job, begin.Add(24*time.Hour)).Availability.EndTime)
}

// The clock of an API server has whole seconds: it is behind a change of the same second.
func TestNoTimeEndsBeforeTheLastChange(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	over := metav1.NewMicroTime(begin.Add(30*time.Second + 700*time.Millisecond))
	job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{
		Availability: &v1alpha1.Availability{StartTime: metav1.NewMicroTime(begin)},
		Incidents:    []v1alpha1.Incident{{ID: 1, StartTime: metav1.NewMicroTime(begin.Add(30 * time.Second)), EndTime: &over, Outcome: v1alpha1.OutcomeRecovered}},
	}}
	check.Equal(t, "in the same second", int64(30700), Of(job, begin.Add(30*time.Second)).Availability.ReadyMilliseconds)
	check.Equal(t, "in the next second", int64(31000), Of(job, begin.Add(31*time.Second)).Availability.ReadyMilliseconds)
}

// A job that grows is Starting, although it may train.
func TestAJobThatGrows(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{State: v1alpha1.StateStarting, Availability: &v1alpha1.Availability{
		StartTime:    metav1.NewMicroTime(begin),
		Interruption: &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(begin.Add(time.Minute)), Cause: v1alpha1.CauseResized},
	}}}
	shown := func() string {
		var out bytes.Buffer
		j := Of(job, begin.Add(time.Hour))
		Print(&out, &j)
		return out.String()
	}
	const want = "\nGrowing since 2026-01-02 03:01:00. Only ranks that were added"
	if out := shown(); !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	job.Status.Availability.Interruption.Cause = v1alpha1.CauseNoIncident
	if out := shown(); strings.Contains(out, "Growing") {
		t.Errorf("it does not grow:\n%s", out)
	}
}

// The start of the programs says what they resume from, as far as it is known.
func TestTimelineShowsTheResume(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for want, inc := range map[string]v1alpha1.Incident{
		"all programs have been started":               {},
		"all programs have been started, from step 30": {ResumeStep: new(int64(30))},
		"all programs have been started, from step 30 (ranks by scope: Pod 23, Shared 1), and their first step came within 4 s": {
			ResumeStep: new(int64(30)), RestoreSeconds: new(int32(4)),
			ResumedFrom: []v1alpha1.ResumeSource{{Scope: v1alpha1.CheckpointScopePod, Ranks: 23}, {Scope: v1alpha1.CheckpointScopeShared, Ranks: 1}},
		},
	} {
		inc.StartTime, inc.RunningTime = metav1.NewMicroTime(began), new(metav1.NewMicroTime(began.Add(time.Second)))
		shown := Of(&v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{Incidents: []v1alpha1.Incident{inc}}}, began.Add(time.Minute))
		var out bytes.Buffer
		Print(&out, &shown)
		if !strings.Contains(out.String(), "  "+want+"\n") {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
