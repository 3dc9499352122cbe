// Supervision: what the supervisors of a job's pods report, and what they are told.

package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// Supervision is how the manager and the supervisors of pods find, know and hear each other.
type Supervision struct {
	// Pods says how supervisors get into pods, and where they find the manager.
	Pods volcano.Supervision
	// Hub has their reports, and gives them orders.
	Hub *supervisors.Hub
	// Authorities returns the certificate authorities that they are to trust, in PEM.
	Authorities func() []byte

	began sync.Once
	since time.Time
}

// listensSince is since when this manager looks at jobs, and so is the leader, whom supervisors can reach.
func (s *Supervision) listensSince(now time.Time) time.Time {
	s.began.Do(func() { s.since = now })
	return s.since
}

// processStates are the states of programs by their names on the wire.
var processStates = map[wire.State]gang.ProcessState{
	wire.State_STATE_RUNNING:     gang.ProcessRunning,
	wire.State_STATE_STOPPING:    gang.ProcessStopping,
	wire.State_STATE_WAITING:     gang.ProcessWaiting,
	wire.State_STATE_FAILED:      gang.ProcessFailed,
	wire.State_STATE_SUCCEEDED:   gang.ProcessSucceeded,
	wire.State_STATE_TERMINATING: gang.ProcessTerminating,
	wire.State_STATE_WARMING_UP:  gang.ProcessWarmingUp,
}

// observeProcesses gives the pods what their supervisors report. Of one whose stream is down nothing is known.
func (r *TrainingJobReconciler) observeProcesses(o *gang.Observation) {
	if r.Supervision == nil || o.Job.Spec.Supervisor == nil {
		return
	}
	o.ListensSince = r.Supervision.listensSince(o.Now)
	reports := r.Supervision.Hub.Reports(supervisors.JobOf(o.Job))
	for i := range o.Pods {
		report, known := reports[types.UID(o.Pods[i].UID)]
		if !known {
			continue
		}
		o.Pods[i].Training = progressOf(report)
		o.Pods[i].HeardUntil, o.Pods[i].HeardReached = report.HeardUntil, reached(report)
		if !report.HeardSince.IsZero() {
			note(&o.Pods[i], report, programOf(o.Job, o.Pods[i].Task))
		}
	}
	r.observeSilence(o)
}

// note gives a pod what its supervisor reports. A program that has ended tells as its container would.
func note(p *gang.Pod, report supervisors.Report, container string) {
	p.Process = &gang.Process{
		HeardSince: report.HeardSince, State: processStates[report.State], Epoch: report.Epoch, LastExitEpoch: report.LastExitEpoch,
	}
	p.Process.LastExit = exitOf(report.LastExit, container)
	p.Process.Stopped, p.Process.AtBarrier, p.Process.Started = report.Stopped, report.AtBarrier, report.Started
	p.Completing = p.Completing || p.Process.State == gang.ProcessSucceeded
	p.Process.Progressed, p.Process.Activity = report.Progressed, activities[report.Activity]
	if w := report.Waits; w != nil {
		p.Process.Waits = &gang.Waits{Least: w.Least, Most: w.Most}
	}
	p.Process.Addresses = texts(report.Addresses)
	if report.Hosts > 0 {
		p.Process.Collectives = &gang.Collectives{Hosts: report.Hosts, StillSince: report.StillTime, Behind: texts(report.Behind)}
	}
	p.Process.ResumeStep, p.Process.ResumeScope = report.ResumeStep, scopes[report.ResumeScope]
	if c := report.Checkpoints; c != nil {
		p.Process.Checkpoints = &gang.Checkpoints{Own: c.Own, Shared: c.Shared}
	}
	exit := exitOf(report.Exit, container)
	switch {
	case p.Process.State == gang.ProcessWarmingUp:
		p.Process.WarmUpExit = exit
	case exit != nil:
		p.Failure.Containers, p.LastExit = []gang.ContainerFailure{*exit}, exit
	}
}

// reached is the epoch that a program had reached.
func reached(report supervisors.Report) int64 {
	if report.State == wire.State_STATE_STOPPING {
		return report.Epoch - 1
	}
	return report.Epoch
}

// texts are addresses as text.
func texts(addresses []netip.Addr) (out []string) {
	for _, address := range addresses {
		out = append(out, address.String())
	}
	return out
}

// trainingPhases are the phases of programs by their names on the wire.
var trainingPhases = map[wire.Phase]v1alpha1.TrainingPhase{
	wire.Phase_PHASE_INIT:       v1alpha1.PhaseInit,
	wire.Phase_PHASE_TRAIN:      v1alpha1.PhaseTrain,
	wire.Phase_PHASE_EVALUATE:   v1alpha1.PhaseEvaluate,
	wire.Phase_PHASE_CHECKPOINT: v1alpha1.PhaseCheckpoint,
}

// activities are those of programs by their names on the wire.
var activities = map[wire.Activity]gang.Activity{
	wire.Activity_ACTIVITY_BUSY:    gang.ActivityBusy,
	wire.Activity_ACTIVITY_IDLE:    gang.ActivityIdle,
	wire.Activity_ACTIVITY_BLOCKED: gang.ActivityBlocked,
	wire.Activity_ACTIVITY_STOPPED: gang.ActivityStopped,
}

// scopes are those of folders of checkpoints by their names on the wire.
var scopes = map[wire.CheckpointScope]v1alpha1.CheckpointScope{
	wire.CheckpointScope_CHECKPOINT_SCOPE_POD:    v1alpha1.CheckpointScopePod,
	wire.CheckpointScope_CHECKPOINT_SCOPE_NODE:   v1alpha1.CheckpointScopeNode,
	wire.CheckpointScope_CHECKPOINT_SCOPE_SHARED: v1alpha1.CheckpointScopeShared,
}

// progressOf is how far a program says that it is. That stays said when the stream ends, as it does with the last word.
func progressOf(report supervisors.Report) *gang.TrainingProgress {
	p := report.Progress
	if p == nil {
		return nil
	}
	return &gang.TrainingProgress{
		Epoch: report.Epoch,
		Phase: trainingPhases[p.GetPhase()], Step: p.Step, TotalSteps: p.TotalSteps, CheckpointStep: p.CheckpointStep, Percent: p.Percent,
		FirstStep: p.FirstStep, FirstStepAfter: time.Duration(p.GetFirstStepMicros()) * time.Microsecond, Phases: p.GetPhases(),
		StepTime: time.Duration(p.GetStepMicros()) * time.Microsecond, Overdue: time.Duration(p.GetOverdueMicros()) * time.Microsecond,
		Expected:  time.Duration(p.GetExpectedMicros()) * time.Microsecond,
		MovedTime: report.MovedTime, SaidTime: timeOf(p.GetMovedMicros()),
	}
}

// timeOf is a time of the wire; zero for 0, which is none.
func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// exitOf tells of an exit as the kubelet does of a container's; nil for none, and for one that is no failure.
func exitOf(e *supervisors.Exit, container string) *gang.ContainerFailure {
	if e == nil || e.Code == 0 {
		return nil
	}
	return &gang.ContainerFailure{
		Name: container, ExitCode: e.Code, Reason: "Error", Message: e.Message, StartedTime: e.Started, Time: e.Ended,
	}
}

// programOf is the container whose program has the supervisor.
func programOf(job *v1alpha1.TrainingJob, task string) string {
	for i := range job.Spec.Tasks {
		if t := &job.Spec.Tasks[i]; t.Name == task {
			return t.Template.Spec.Containers[0].Name
		}
	}
	return ""
}

// heard are the pods whose last reports count: all, but those that have ended where the job has no order any more, and none of a job without supervisors.
func heard(job *v1alpha1.TrainingJob, pods []gang.Pod, plan *policies.Plan) map[types.UID]bool {
	out := map[types.UID]bool{}
	for i := range pods {
		if job.Spec.Supervisor != nil && (plan.Order != nil || !pods[i].Finished()) {
			out[types.UID(pods[i].UID)] = true
		}
	}
	return out
}

// order tells the supervisors of a job what the plan says, starts no program of an earlier attempt or incarnation, and refuses those of pods whose nodes are dead: should one come back, its
// rank has another pod.
func (a *actor) order(plan *policies.Plan) {
	if a.Supervision == nil {
		return
	}
	hub, job := a.Supervision.Hub, supervisors.JobOf(a.job)
	hub.Keep(job, heard(a.job, a.seen.Pods, plan))
	if plan.Order == nil {
		return
	}
	for _, d := range plan.DeletePods {
		if d.Force {
			hub.Refuse(job, types.UID(d.UID), "the rank gets another pod: this one is on a node that counts as dead")
		}
	}
	roles := map[types.UID]supervisors.Role{}
	for i := range a.seen.Pods {
		if p := &a.seen.Pods[i]; p.Spare {
			roles[types.UID(p.UID)] = supervisors.Role{Spare: true}
		}
	}
	for uid, place := range plan.Places {
		roles[types.UID(uid)] = supervisors.Role{Place: environmentOf(place)}
	}
	for _, uid := range plan.Superseded {
		roles[types.UID(uid)] = supervisors.Role{Superseded: true}
	}
	hub.Order(job, supervisors.Order{
		Epoch: plan.Order.Epoch, Start: plan.Order.Start, Resume: plan.Order.Epoch > 1, ResumeStep: plan.Order.ResumeStep, RestartReason: plan.Order.Reason,
		HyperNode: plan.Order.HyperNode, Release: plan.Order.Release, Keep: plan.Order.Keep, Stalled: plan.Order.Stalled,
		Hosts: plan.Order.Hosts,
	}, roles)
}

// wake asks for a pass over a job of which supervisors have reported.
func (r *TrainingJobReconciler) wake(_ context.Context, e event.TypedGenericEvent[supervisors.Wake], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if e.Object.Urgent {
		r.memories.of(e.Object.Job).reported.Store(true)
	}
	q.Add(reconcile.Request{NamespacedName: e.Object.Job})
}

// A job that restarts its programs rests after each decision for restsFor times as long as the decision took, and for longestRest at most. Events of a gang of
// thousands come faster than passes over it, which would delay the reports of its supervisors.
const (
	restsFor    = 25
	longestRest = 2 * time.Second
)

// rest sets until when only what is urgent leads to a pass over a job.
func (r *TrainingJobReconciler) rest(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus, thought time.Duration) {
	m := r.memoryOf(job)
	m.rests = time.Time{}
	if r.Supervision != nil && job.Spec.Supervisor != nil && gang.Restarts(s) {
		m.rests = r.Clock.Now().Add(min(restsFor*thought, longestRest))
	}
}

// environmentOf is what a place changes in a program's environment, a variable in a line: what Lockstep and Volcano have set for the pod's name.
func environmentOf(p policies.Place) string {
	index := strconv.Itoa(int(p.Index))
	lines := []string{"LOCKSTEP_TASK_INDEX=" + index, "LOCKSTEP_INCARNATION=" + strconv.Itoa(int(p.Incarnation)), "VC_TASK_INDEX=" + index, "VK_TASK_INDEX=" + index}
	if p.PyTorchRank >= 0 {
		lines = append(lines, "RANK="+strconv.Itoa(int(p.PyTorchRank)))
	}
	return strings.Join(lines, "\n")
}

// authorize lets a pod know the manager by its certificate. It fails while the leader has yet to read or make its authority: the pod would
// never hear of it.
func (r *TrainingJobReconciler) authorize(pod *corev1.Pod) error {
	if _, supervised := pod.Annotations[v1alpha1.AnnotationEpoch]; !supervised || r.Supervision == nil {
		return nil
	}
	authorities := r.Supervision.Authorities()
	if len(authorities) == 0 {
		return fmt.Errorf("lift the gate of pod %s: the authority by which supervisors know the manager is not there yet", pod.Name)
	}
	pod.Annotations[v1alpha1.AnnotationManagerCA] = string(authorities)
	return nil
}

// supervision is how supervisors get into pods; nil where this manager offers none.
func (r *TrainingJobReconciler) supervision() *volcano.Supervision {
	if r.Supervision == nil {
		return nil
	}
	return &r.Supervision.Pods
}
