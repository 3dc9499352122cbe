// Gangs that Volcano has admitted and makes no pods for.

package policies

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// lacking is a gang of three whose Volcano Job has this many pods, and that is known to lack some since the scene began.
func lacking(pods int) *scene {
	s := starting(3)
	s.Pods = s.Pods[:pods]
	s.LackingSince = sceneStart
	return s
}

func TestAGangThatVolcanoForgets(t *testing.T) {
	tests := map[string]struct {
		story func() *scene
		// sync is when Volcano is asked first, and again when it has been asked before; zero for never.
		sync time.Duration
	}{
		"no pod":                      {func() *scene { return lacking(0) }, 20 * time.Second},
		"some pods":                   {func() *scene { return lacking(2) }, 20 * time.Second},
		"all pods":                    {func() *scene { return lacking(3) }, 0},
		"no PodGroup":                 {func() *scene { s := lacking(0); s.PodGroup = nil; return s }, 20 * time.Second},
		"in its queue":                {func() *scene { s := lacking(0); s.PodGroup.Pending = true; return s }, 0},
		"no Volcano Job":              {func() *scene { s := lacking(0); s.VolcanoJobs = nil; return s }, 0},
		"its Volcano Job has ended":   {func() *scene { s := lacking(0); s.VolcanoJobs[0].Ended = true; return s }, 0},
		"its Volcano Job is stopping": {func() *scene { s := lacking(0); s.VolcanoJobs[0].Stopping = true; return s }, 0},
		"suspended":                   {func() *scene { s := lacking(0); s.Job.Spec.Suspend = true; return s }, 0},
		"a pod was made 15 s later":   {func() *scene { s := lacking(2); s.Pods[1].CreatedTime = sceneStart.Add(15 * time.Second); return s }, 35 * time.Second},
		"a pod is on its way out":     {func() *scene { s := lacking(3); s.Pods[2].Deleting = true; return s }, 0},
		"it was asked 10 s later":     {func() *scene { s := lacking(0); s.SyncedTime = sceneStart.Add(10 * time.Second); return s }, 40 * time.Second},
		"the gang is smaller":         {func() *scene { s := lacking(2); s.Job.Spec.MinAvailable = new(int32(2)); return s }, 0},
		"seen for the first time":     {func() *scene { s := lacking(0); s.LackingSince = time.Time{}; return s }, 20 * time.Second},
		"in a dry run": {func() *scene {
			s := lacking(0)
			s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
			return s
		}, 20 * time.Second},
		"the first pods are of another": {func() *scene { s := lacking(3); s.Pods[2].Attempt = 0; return s }, 20 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			d := Decide(&s.Observation)
			if tc.sync == 0 {
				s.Now = sceneStart.Add(time.Hour)
				s.decide()
				check.Equal(t, "asks", false, s.plan().Sync)
				check.Equal(t, "is said", false, conditionReason(s, v1alpha1.ConditionScheduled) == v1alpha1.ReasonPodsNotCreated)
				return
			}
			check.Equal(t, "looks again", sceneStart.Add(tc.sync), d.Next)
			if s.LackingSince.IsZero() {
				s.LackingSince = sceneStart
			}
			s.Now = sceneStart.Add(tc.sync - time.Second)
			s.decide()
			check.Equal(t, "asks before", false, s.plan().Sync)
			s.Now = sceneStart.Add(tc.sync)
			d = s.decide()
			check.Equal(t, "asks", true, s.plan().Sync)
			check.Equal(t, "looks again after", s.Now.Add(syncEvery), d.Next)
			check.Equal(t, "lacks", true, d.Lacking)
			check.Equal(t, "reason", v1alpha1.ReasonPodsNotCreated, conditionReason(s, v1alpha1.ConditionScheduled))
		})
	}
}

func TestWhatIsSaidOfAForgottenGang(t *testing.T) {
	s := lacking(1)
	s.after(20 * time.Second).decide()
	want := "Volcano has made 1 of the 3 pods of the gang, and makes no more: it is asked every 30s to look at its Job again"
	check.Equal(t, "condition", want, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionScheduled).Message)
	check.Equal(t, "message", want, s.status().Message)
	check.Equal(t, "state", v1alpha1.StateStarting, s.status().State)

	before := s.status().DeepCopy()
	s.SyncedTime = s.Now
	s.after(29 * time.Second).decide()
	check.Equal(t, "asks too soon", false, s.plan().Sync)
	s.after(time.Second).decide()
	check.Equal(t, "asks again", true, s.plan().Sync)
	check.Equal(t, "status", before, s.status())

	s.make(gang.Rank{Task: "worker", Index: 1}, false)
	s.make(gang.Rank{Task: "worker", Index: 2}, false)
	check.Equal(t, "lacks", false, s.decide().Lacking)
	check.Equal(t, "reason", v1alpha1.ReasonPodsPending, conditionReason(s, v1alpha1.ConditionScheduled))
}

// A Job that was deleted just before another one of its name was made can have Volcano forget that for good.
func TestAGangThatVolcanoForgetsForGood(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*scene)
		attempts int32
	}{
		"no pod":                   {func(*scene) {}, 2},
		"Volcano has not heard it": {func(s *scene) { s.SyncHeard = false }, 1},
		"it was asked just now":    {func(s *scene) { s.SyncedTime = s.Now.Add(-29 * time.Second) }, 1},
		"some pods":                {func(s *scene) { s.make(gang.Rank{Task: "worker"}, false) }, 1},
		"pods are refused":         {func(s *scene) { s.VolcanoJobs[0].CreateError = "exceeded quota" }, 1},
		"in its queue":             {func(s *scene) { s.PodGroup.Pending = true }, 1},
		"it has run before":        {func(s *scene) { s.Job.Status.Placement = &v1alpha1.Placement{} }, 1},
		"it is moving":             {func(s *scene) { s.Job.Status.Incidents = []v1alpha1.Incident{{ID: 1, Trigger: v1alpha1.PodFailed}} }, 1},
		"suspended":                {func(s *scene) { s.Job.Spec.Suspend = true }, 1},
		"it has had its tries":     {func(s *scene) { s.Job.Status.Attempt, s.VolcanoJobs[0].Attempt = 21, 21 }, 21},
	} {
		t.Run(name, func(t *testing.T) {
			s := lacking(0)
			s.after(50 * time.Second).decide()
			s.SyncedTime, s.SyncHeard = s.Now, true
			s.after(30 * time.Second)
			tc.change(s)
			s.decide()
			check.Equal(t, "attempt", tc.attempts, s.status().Attempt)
			if tc.attempts == 2 {
				p := s.plan()
				check.Equal(t, "makes another Job", true, p.Create)
				check.Equal(t, "deletes", []string{s.VolcanoJobs[0].Name}, p.DeleteVolcanoJobs)
				check.Equal(t, "restarts", 0, s.status().Restarts.Total)
			}
		})
	}
}

// Volcano cannot replace a pod that is on its way out, and then it has its time.
func TestARecoveryIsNotForgottenAtOnce(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	s.Pods[1].Deleting = true
	check.Equal(t, "lacks", false, s.after(5*time.Minute).decide().Lacking)
	s.Pods = append(s.Pods[:1], s.Pods[2:]...)
	d := s.decide()
	check.Equal(t, "lacks", true, d.Lacking)
	check.Equal(t, "asks", false, s.plan().Sync)
	s.LackingSince = s.Now
	s.after(20 * time.Second).decide()
	check.Equal(t, "asks", true, s.plan().Sync)
	check.Equal(t, "reason", v1alpha1.ReasonPodsNotCreated, conditionReason(s, v1alpha1.ConditionScheduled))
}

// Nothing is lacking of a job that is not to run.
func TestAStoppedJobLacksNoPods(t *testing.T) {
	s := starting(2)
	s.Pods = nil
	check.Equal(t, "lacks pods", true, s.decide().Lacking)
	s.Job.Spec.Suspend = true
	check.Equal(t, "lacks pods, suspended", false, s.decide().Lacking)
}
