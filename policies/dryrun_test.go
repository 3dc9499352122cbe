// Dry runs: what would be done is recorded, and nothing is.

package policies

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// What each step would change in earnest is in TestWhatAStepChanges.
func TestADryRunRecordsAndNothingElse(t *testing.T) {
	for _, action := range []v1alpha1.Action{
		v1alpha1.Ignore, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartPartition, v1alpha1.RestartJob,
		v1alpha1.MigratePod, v1alpha1.ShrinkTask, v1alpha1.RelocateJob, v1alpha1.FailJob,
	} {
		for name, breaks := range map[string]func(*scene){
			"a crash": func(s *scene) { s.crash(2, 1) },
			"a node":  func(s *scene) { s.lose("n02") },
		} {
			t.Run(string(action)+", "+name, func(t *testing.T) {
				job := aJob().tasks(task("head", 1), task("worker", 4, downTo(1), withSpares(1))).policy(withRules(rule("r", step(action, 10))))
				s := aScene(job).started().placed()
				s.dryRun(true)
				breaks(s)
				s.decide()
				check.Equal(t, "changes", []string{"incidents[1].steps[0]: action " + string(action) + ", dryRun true, index 0, time 10s"}, s.after(10*time.Second).changes())
				check.Equal(t, "changes, decided again", nil, s.after(time.Minute).changes())
				p := s.plan()
				check.Equal(t, "plan", true, p.Empty())
				message := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message
				check.Equal(t, "story", message, incident.Story(s.incident(t)))
				check.Equal(t, "tells", true, strings.HasSuffix(message, ": "+string(action)+" would be taken, but this is a dry run"))
			})
		}
	}
}

func TestADryRunGoesUpTheWholeLadder(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60), step(v1alpha1.FailJob, 120)))
	s.Job.Spec.RestartPolicy.Budget = policy(budget(0, 60)).Budget
	s.dryRun(true)
	s.crash(1, 1)
	for range 4 {
		s.decide()
		s.after(time.Minute)
	}
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartJob@60", "FailJob@120"}, s.fired(t))
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
	check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
	check.Equal(t, "restarts", v1alpha1.Restarts{}, s.status().Restarts)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))

	// What mends itself recovers in a dry run too.
	s.replace(1)
	s.decide()
	s.bind(1, "n01")
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// Turned off in the middle of an incident, what was only recorded is done, and the ladder
// goes on from there.
func TestADryRunThatEnds(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
	s.dryRun(true)
	s.crash(1, 1)
	s.decide()
	s.dryRun(false)
	s.after(10 * time.Second).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
	s.after(60*time.Second - 1).decide()
	check.Equal(t, "lives, before the next step", []int32{0, 1, 0}, s.lives())
	// A pin is not given up for a step that was only recorded.
	w := incident.ViewOf(&s.Observation, s.status())
	check.Equal(t, "goes back to", placement.Target{In: []string{"host-n01"}}, w.Rooms(s.status()).ForRank(gang.Rank{Task: "worker", Index: 1}))
	s.after(1).decide()
	check.Equal(t, "lives", []int32{2, 2, 2}, s.lives())
	check.Equal(t, "fired", []string{"RestartPod@0", "RestartPod@10", "RestartJob@70"}, s.fired(t))
	check.Equal(t, "restarts", int32(2), s.status().Restarts.Total)
}

// Turned on in the middle, what was done stays done.
func TestADryRunThatBegins(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 60)))
	s.crash(1, 1)
	s.decide()
	s.dryRun(true)
	check.Equal(t, "still to be deleted", []string{"2"}, s.deleted())
	s.after(time.Minute).decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	s.back(1, "n01")
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// Where the Volcano Job has ended, a dry run neither makes it again nor fails the job.
func TestADryRunOfAJobThatHasEnded(t *testing.T) {
	for name, ladder := range map[string][]func(*v1alpha1.Rule){
		"a step that is left": {step(v1alpha1.RestartPod, 0)},
		"no step that helps":  {step(v1alpha1.Ignore, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(2, rule("r", ladder...))
			s.dryRun(true)
			s.crashAll()
			s.VolcanoJobs[0].Ended = true
			s.decide()
			s.after(time.Minute).decide()
			check.Equal(t, "attempt", int32(1), s.status().Attempt)
			check.Equal(t, "state", v1alpha1.StateRecovering, s.status().State)
			check.Equal(t, "steps", 1, len(s.incident(t).Steps))
		})
	}
}

func TestOnlyTrueIsADryRun(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "": false, "True": false, "yes": false} {
		s := running(2)
		s.Job.Annotations = map[string]string{v1alpha1.DryRun: value}
		check.Equal(t, value, want, incident.ViewOf(&s.Observation, s.status()).DryRun)
	}
}

// Volcano makes a pod again that somebody has deleted, in a dry run like in any other: its program resumes.
func TestAPodThatIsGoneIsMadeAgainInADryRun(t *testing.T) {
	s := running(3)
	s.dryRun(true)
	s.replace(1)
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "resumes", "true", s.plan().Lift[0].Annotations[v1alpha1.AnnotationResume])
}

// A rank whose device fails during a dry run is like any other, where no HealthPolicy counts its moves, or where its node is silent.
func TestAnIllRankThatJoinedDuringADryRun(t *testing.T) {
	for name, tc := range map[string]struct{ bounded, silent bool }{
		"no HealthPolicy": {false, false}, "a HealthPolicy": {true, false}, "a HealthPolicy, and its node is silent": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 600)))
			s.after(time.Minute).crash(1, 1)
			s.decide()
			s.dryRun(true)
			s.ail(failed, 2)
			s.after(time.Second).decide()
			s.dryRun(false)
			if tc.bounded {
				s.HealthPolicy = &v1alpha1.HealthPolicySpec{}
			}
			if tc.silent {
				s.breakNode("n02")
			}
			s.after(time.Second).decide()
			want := []int32{0, 1, 1}
			if tc.bounded && !tc.silent {
				want = []int32{0, 1, 0}
			}
			check.Equal(t, "lives after it", want, s.lives())
		})
	}
}

// A rank that fails during a dry run, and joins an incident that has restarted others before, is restarted once the dry run is over.
func TestARankThatJoinedDuringADryRun(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartJob, 600)))
	s.after(time.Minute).crash(1, 1)
	s.decide()
	s.dryRun(true)
	s.crash(2, 1)
	s.after(time.Second).decide()
	check.Equal(t, "lives in the dry run", []int32{0, 1, 0}, s.lives())
	s.dryRun(false)
	s.after(time.Minute).decide()
	check.Equal(t, "lives after it", []int32{0, 1, 1}, s.lives())
	s.after(time.Minute).decide()
	check.Equal(t, "restarted once", []int32{0, 1, 1}, s.lives())
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
}
