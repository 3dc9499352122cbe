// What pods with a supervisor are given, and what their reports mean.

package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A pod that were let go before there is an authority would never connect.
func TestAPodWaitsForTheAuthority(t *testing.T) {
	var authorities []byte
	r := &TrainingJobReconciler{Supervision: &Supervision{Authorities: func() []byte { return authorities }}}
	supervised := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "llm-1-worker-0", Annotations: map[string]string{v1alpha1.AnnotationEpoch: "1"}}}
	}
	if err := r.authorize(supervised()); err == nil {
		t.Error("it is let go without an authority")
	}
	authorities = []byte("PEM")
	pod := supervised()
	if err := r.authorize(pod); err != nil {
		t.Error(err)
	}
	check.Equal(t, "authority", "PEM", pod.Annotations[v1alpha1.AnnotationManagerCA])
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	if err := r.authorize(plain); err != nil || len(plain.Annotations) > 0 {
		t.Errorf("a pod without a supervisor: %v, %v", err, plain.Annotations)
	}
}

// A program that has ended tells of it as its container would.
func TestReportsAreTakenForThoseOfContainers(t *testing.T) {
	at := time.Unix(1700000000, 0)
	p := &gang.Pod{}
	note(p, supervisors.Report{Epoch: 3, State: wire.State_STATE_FAILED, Exit: &supervisors.Exit{Code: 137, Signal: 9, Ended: at, Message: "m"}}, "train")
	want := gang.ContainerFailure{Name: "train", ExitCode: 137, Reason: "Error", Message: "m", Time: at}
	check.Equal(t, "failure", []gang.ContainerFailure{want}, p.Failure.Containers)
	check.Equal(t, "last exit", &want, p.LastExit)
	check.Equal(t, "process", &gang.Process{State: gang.ProcessFailed, Epoch: 3}, p.Process)
	done := &gang.Pod{}
	note(done, supervisors.Report{Epoch: 3, State: wire.State_STATE_SUCCEEDED, Exit: &supervisors.Exit{Ended: at}}, "train")
	check.Equal(t, "completing", true, done.Completing)
	check.Equal(t, "failures of one that has succeeded", 0, len(done.Failure.Containers))
}

func TestWhatProgramsSay(t *testing.T) {
	check.Equal(t, "of one that says nothing", nil, progressOf(supervisors.Report{Epoch: 3}))
	said := &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT, Step: new(int64(7)), TotalSteps: new(int64(9)), CheckpointStep: new(int64(5)), FirstStep: new(int64(3)), FirstStepMicros: 5e6, StepMicros: 2e6, ExpectedMicros: 3e6, OverdueMicros: 4e6, MovedMicros: 6e6}
	check.Equal(t, "the last word of one", &gang.TrainingProgress{
		Epoch: 3, Phase: v1alpha1.PhaseCheckpoint, Step: new(int64(7)), TotalSteps: new(int64(9)), CheckpointStep: new(int64(5)), FirstStep: new(int64(3)), StepTime: 2 * time.Second,
		Expected: 3 * time.Second, Overdue: 4 * time.Second, FirstStepAfter: 5 * time.Second, SaidTime: time.Unix(6, 0).UTC(),
	}, progressOf(supervisors.Report{Epoch: 3, State: wire.State_STATE_SUCCEEDED, Progress: said}))
}

// Decisions need the last reports of pods that have ended only while their job has an order for its supervisors.
func TestWhoseReportsAreKept(t *testing.T) {
	job := aJob()
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	pods := []gang.Pod{{UID: "runs", Phase: corev1.PodRunning}, {UID: "succeeded", Phase: corev1.PodSucceeded}, {UID: "failed", Phase: corev1.PodFailed}}
	check.Equal(t, "with an order", map[types.UID]bool{"runs": true, "succeeded": true, "failed": true}, heard(job, pods, &policies.Plan{Order: &policies.Order{}}))
	check.Equal(t, "without one", map[types.UID]bool{"runs": true}, heard(job, pods, &policies.Plan{}))
	check.Equal(t, "without supervisors", map[types.UID]bool{}, heard(aJob(), pods, &policies.Plan{Order: &policies.Order{}}))
}

func TestTheEnvironmentOfAPlace(t *testing.T) {
	plain := "LOCKSTEP_TASK_INDEX=2\nLOCKSTEP_INCARNATION=5\nVC_TASK_INDEX=2\nVK_TASK_INDEX=2"
	check.Equal(t, "without a framework", plain, environmentOf(policies.Place{Index: 2, Incarnation: 5, PyTorchRank: -1}))
	check.Equal(t, "with PyTorch", plain+"\nRANK=3", environmentOf(policies.Place{Index: 2, Incarnation: 5, PyTorchRank: 3}))
}

// A gang that restarts its programs is left alone for longer the longer decisions about it take, and anything else is not.
func TestAJobRests(t *testing.T) {
	e := running(t)
	e.r.Supervision = &Supervision{}
	job := e.job()
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	open := &v1alpha1.TrainingJobStatus{Epoch: 2, Incidents: []v1alpha1.Incident{{ID: 1, Epoch: 2}}}
	m := e.r.memoryOf(job)
	for name, tc := range map[string]struct {
		job     *v1alpha1.TrainingJob
		s       *v1alpha1.TrainingJobStatus
		thought time.Duration
		want    time.Duration
	}{
		"a gang that restarts":      {job, open, 10 * time.Millisecond, 250 * time.Millisecond},
		"a gang of thousands":       {job, open, time.Second, longestRest},
		"one that trains":           {job, &v1alpha1.TrainingJobStatus{Epoch: 2, Incidents: []v1alpha1.Incident{{ID: 1, Epoch: 1}}}, time.Second, 0},
		"a job without supervisors": {e.job(), open, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e.r.rest(tc.job, tc.s, tc.thought)
			check.Equal(t, "rests", tc.want, max(0, m.rests.Sub(e.Clock.Now())))
		})
	}
}

func TestOnlyWhatIsUrgentEndsARest(t *testing.T) {
	e := running(t)
	m := e.r.memoryOf(e.job())
	m.rests = e.Clock.Now().Add(time.Second)
	e.crash("llm-1-worker-1")
	e.Calls = nil
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "looks again", time.Second, result.RequeueAfter)
	check.Equal(t, "writes", 0, len(e.Calls))
	e.r.noteUrgent(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	_, err = e.reconcile()
	e.Must(err)
	has(t, e.Calls, "update the status of *v1alpha1.TrainingJob llm")
}
