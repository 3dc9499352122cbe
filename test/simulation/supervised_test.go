package simulation

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

// supervisedWorld is a world of one supervised job, whose two ranks run.
func supervisedWorld(t *testing.T, survivors v1alpha1.Survivors) (*world, *tenant) {
	t.Helper()
	w := &world{rng: rand.New(rand.NewPCG(1, 0)), now: start, queueOpen: true, nodes: map[string]*node{}, members: map[string][]string{}, census: census{}}
	w.makeNodes()
	job := w.newTenant("llm")
	w.supervision = supervisionOf(1)
	job.confined, job.never, job.supervised = true, false, true
	job.job.Spec = v1alpha1.TrainingJobSpec{
		Queue: "default", Supervisor: &v1alpha1.Supervisor{Survivors: survivors},
		Tasks: []v1alpha1.Task{{Name: "head", Replicas: 1}, {Name: "worker", Replicas: 1}},
	}
	w.tenants = append(w.tenants, job)
	w.calm = true
	w.settle()
	if !job.well() {
		t.Fatal(job.String())
	}
	job.acting = job.manager
	return w, job
}

// movesUnasked records that an incident moves a rank, whose program is not asked for a checkpoint.
func (t *tenant) movesUnasked() {
	t.job.Spec.Checkpoint = &v1alpha1.Checkpoint{}
	step := v1alpha1.FiredStep{Action: v1alpha1.MigratePod, Time: metav1.NewMicroTime(t.now)}
	s := t.incidentAbout(t.pods[0], t.now, step)
	t.recordOf(t.observe(), &t.job.Status, s).checkAsked(&v1alpha1.Incident{}, &s.Incidents[0], step)
}

// A program that fails at each start costs its job the budget, and neither is restarted for days nor fills the status.
func TestAProgramFailsAtEachStart(t *testing.T) {
	w, job := supervisedWorld(t, "")
	job.failsAfter = time.Second
	for w.now.Sub(start) < 24*time.Hour && !isFinished(&job.job.Status) {
		w.settle()
		w.passCalmly()
	}
	if s := &job.job.Status; !isTrue(s, v1alpha1.ConditionFailed) || s.Restarts.Charged < 20 {
		t.Errorf("after %s the job is %s in epoch %d, with %d charged restarts", w.now.Sub(start), s.State, s.Epoch, s.Restarts.Charged)
	}
}

func TestOraclesOfSupervisedGangs(t *testing.T) {
	status := func(job *tenant) *v1alpha1.TrainingJobStatus { return job.job.Status.DeepCopy() }
	for name, test := range map[string]struct {
		survivors v1alpha1.Survivors
		want      Invariant
		deed      func(*world, *tenant)
	}{
		"a program starts beside one of an earlier epoch": {want: Barrier, deed: func(_ *world, job *tenant) {
			p := job.pods[0]
			p.running, p.left, p.kept, p.ordered = false, false, 2, true
			job.startProgram(p, 2, 0)
		}},
		"a program starts at once beside one of a later epoch": {want: Barrier, deed: func(_ *world, job *tenant) {
			p, other := job.pods[0], job.pods[1]
			p.running, p.left, other.epoch, other.alone = false, false, 2, false
			job.startProgram(p, 1, 0)
		}},
		"a program starts in an epoch older than one seen": {want: Barrier, deed: func(_ *world, job *tenant) {
			p := job.pods[0]
			p.running, p.left, p.kept = false, false, 2
			job.startProgram(p, 1, 0)
		}},
		"programs of a run resume from two steps": {want: Barrier, deed: func(_ *world, job *tenant) {
			p, other := job.pods[0], job.pods[1]
			p.running, p.left, p.kept, p.ordered, job.shared = false, false, 1, true, []int64{5, 7}
			other.alone, other.resumes = false, 5
			job.startProgram(p, 1, 7)
		}},
		"a program resumes from a step that it cannot read": {want: Barrier, deed: func(_ *world, job *tenant) {
			p := job.pods[0]
			p.running, p.left, p.kept, p.ordered, p.copies, job.shared = false, false, 1, true, []int64{8}, []int64{5}
			job.startProgram(p, 1, 7)
		}},
		"two programs run in a pod": {want: OneLife, deed: func(_ *world, job *tenant) { job.startProgram(job.pods[0], 1, 0) }},
		"a survivor that is kept is stopped": {v1alpha1.SurvivorsKeep, Survivors, func(_ *world, job *tenant) {
			job.orders = []policies.Order{{Epoch: 2}}
			job.manager.order = &job.orders[0]
			job.obey(job.pods[0])
		}},
		"an epoch begins for nothing": {want: OneEpoch, deed: func(_ *world, job *tenant) {
			s := status(job)
			s.Epoch++
			job.recordOf(job.observe(), &job.job.Status, s).checkEpochs()
		}},
		"another pod meets the others": {want: OneEpoch, deed: func(_ *world, job *tenant) {
			s := status(job)
			s.Tasks[0].Incarnation++
			job.recordOf(job.observe(), &job.job.Status, s).checkEpochs()
		}},
		"a recovery of a rank that is given up leaves others behind": {want: WholeRun, deed: func(w *world, job *tenant) {
			s := job.incidentAbout(job.pods[1], w.now, v1alpha1.FiredStep{Action: v1alpha1.RestartProcesses})
			s.Epoch, s.Incidents[0].Epoch, s.Incidents[0].Trigger = 2, 2, v1alpha1.ProcessFailed
			job.job.Status = *s.DeepCopy()
			job.job.Spec.Tasks[1].Replicas = 0
			s.Incidents[0].Outcome = v1alpha1.OutcomeRecovered
			job.recordOf(job.observe(), &job.job.Status, s).checkEpochs()
		}},
		"a rank is left in an earlier epoch, which no open incident has begun": {want: Timing, deed: func(w *world, job *tenant) {
			s := &job.job.Status
			s.Epoch, s.EpochTime = 2, new(metav1.NewMicroTime(w.now))
			for _, after := range []time.Duration{10 * time.Minute, overdueAfter, time.Second} {
				w.now = w.now.Add(after)
				job.recordOf(job.observe(), s, s).checkOverdue()
			}
		}},
		"a program that trains is moved, and is not asked": {want: Checkpoint, deed: func(_ *world, job *tenant) { job.movesUnasked() }},
		"a program that is stuck is moved, and is not asked": {want: "", deed: func(w *world, job *tenant) {
			s := &job.job.Status
			s.Epoch, s.EpochTime = 2, new(metav1.NewMicroTime(w.now))
			w.now = w.now.Add(10 * time.Minute)
			job.movesUnasked()
		}},
		"a recovery leaves a rank behind": {want: WholeRun, deed: func(w *world, job *tenant) {
			old := status(job)
			old.Epoch = 2
			job.job.Status = *old
			s := job.incidentAbout(job.pods[0], w.now, v1alpha1.FiredStep{Action: v1alpha1.RestartProcesses})
			s.Epoch, s.Incidents[0].Epoch, s.Incidents[0].Trigger = 2, 2, v1alpha1.ProcessFailed
			job.job.Status = *s.DeepCopy()
			s.Incidents[0].Outcome = v1alpha1.OutcomeRecovered
			job.recordOf(job.observe(), &job.job.Status, s).checkEpochs()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, job := supervisedWorld(t, test.survivors)
			if got := broken(func() { test.deed(w, job) }); got != string(test.want) {
				t.Errorf("it breaks %q, want %q", got, test.want)
			}
		})
	}
}
