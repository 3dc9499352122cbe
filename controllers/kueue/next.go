// Next: what comes next of a Workload. Kueue leaves these steps to the job's own controller (pkg/controller/jobframework/reconciler.go and pkg/workload/workload.go of v0.19).

package kueue

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// evictedForOthers are the evictions after which a Workload waits in its queue again at once. Kueue decides on the others.
var evictedForOthers = []string{"Preempted", "NodeFailures"}

// advance brings a Workload a step further. The job has stopped where none of its pods runs, nor will without another admission.
func (w *Workload) advance(job *v1alpha1.TrainingJob, stopped bool, now time.Time) {
	if !stopped {
		w.noteReady(job, now)
		return
	}
	evicted := meta.FindStatusCondition(w.Status.Conditions, ConditionEvicted)
	switch {
	case w.is(ConditionFinished) || !w.DeletionTimestamp.IsZero():
		letGo(w)
	case gang.Finished(&job.Status):
		w.finish(job, now)
	case prebuilt(job) != "" && !w.isFor(job):
		w.set(ConditionFinished, true, reasonOutOfSync, "the Workload is for other pods than those of the TrainingJob", now)
	case job.Spec.Suspend:
		w.hold(now)
	case w.isOnHold():
		w.set(ConditionQuotaReserved, false, reasonPending, "spec.suspend of the TrainingJob is false", now)
	case w.is(ConditionEvicted) && w.is(ConditionQuotaReserved):
		w.set(ConditionRequeued, slices.Contains(evictedForOthers, evicted.Reason), evicted.Reason, evicted.Message, now)
		w.release(reasonPending, evicted.Message, now)
	default:
		w.noteReady(job, now)
	}
}

// hold has a Workload wait for its job to be resumed. Where Kueue would not admit it, it stays as it is: Kueue would write its own reason over
// that of the hold, each time.
func (w *Workload) hold(now time.Time) {
	reserved := meta.FindStatusCondition(w.Status.Conditions, ConditionQuotaReserved)
	if reserved == nil || reserved.Status == metav1.ConditionTrue || slices.Contains(pending, reserved.Reason) {
		w.resetChecks(now)
		w.release(reasonOnHold, "spec.suspend of the TrainingJob is true", now)
	}
}

// pending are the reasons of Workloads that may be admitted any time.
var pending = []string{reasonPending, "PendingEvaluation"}

// isOnHold reports whether a Workload waits for its job to be resumed.
func (w *Workload) isOnHold() bool {
	reserved := meta.FindStatusCondition(w.Status.Conditions, ConditionQuotaReserved)
	return reserved != nil && reserved.Status == metav1.ConditionFalse && reserved.Reason == reasonOnHold
}

// clusterStopsWithin is how long another cluster has to stop a job before its quota here is given back: it may be lost.
const clusterStopsWithin = time.Minute

// stoppedElsewhere reports whether another cluster has stopped a job of which Kueue evicts the Workload, by the status that MultiKueue copies. It takes a job for stopped that its user
// suspends, since nothing else stops that elsewhere.
func (w *Workload) stoppedElsewhere(job *v1alpha1.TrainingJob, now time.Time) (is bool, again time.Duration) {
	evicted := meta.FindStatusCondition(w.Status.Conditions, ConditionEvicted)
	if evicted == nil || evicted.Status != metav1.ConditionTrue || !w.is(ConditionQuotaReserved) || job.Spec.Suspend {
		return true, 0
	}
	if job.Status.State == "" || job.Status.State == v1alpha1.StateSuspended || gang.Finished(&job.Status) {
		return true, 0
	}
	again = evicted.LastTransitionTime.Add(clusterStopsWithin).Sub(now)
	return again <= 0, max(again, 0)
}

// finish reports how a job has ended.
func (w *Workload) finish(job *v1alpha1.TrainingJob, now time.Time) {
	if is := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionFailed); is != nil && is.Status == metav1.ConditionTrue {
		w.set(ConditionFinished, true, reasonFailed, is.Message, now)
		return
	}
	w.set(ConditionFinished, true, reasonSucceeded, "the TrainingJob is complete", now)
}

// release gives the quota back.
func (w *Workload) release(reason, message string, now time.Time) {
	w.Status.Admission = nil
	w.set(ConditionQuotaReserved, false, reason, message, now)
	w.set(ConditionAdmitted, false, reasonNoReservation, "The workload has no reservation", now)
	w.set(ConditionPodsReady, false, reasonWaitForStart, "no pod runs", now)
}

// resetChecks has the checks of an admission decide again, as Kueue does where it evicts.
func (w *Workload) resetChecks(now time.Time) {
	w.Status.ClusterName = nil
	for i := range w.Status.AdmissionChecks {
		if check := &w.Status.AdmissionChecks[i]; check.State != checkPending {
			*check = AdmissionCheck{Name: check.Name, State: checkPending, Message: "Reset, since the TrainingJob is suspended. Previously: " + check.State, LastTransitionTime: metav1.NewTime(now)}
		}
	}
}

// noteReady says that all pods of a job run. That they did is said until it is stopped: its recovery is not Kueue's to time.
func (w *Workload) noteReady(job *v1alpha1.TrainingJob, now time.Time) {
	if w.is(ConditionAdmitted) && gang.IsTrue(&job.Status, v1alpha1.ConditionRunning) {
		w.set(ConditionPodsReady, true, reasonStarted, "all pods run", now)
	}
}

const checkPending = "Pending"

// maxMessage is the most that a condition takes, in bytes.
const maxMessage = 32 << 10

func (w *Workload) set(condition string, is bool, reason, message string, now time.Time) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], ""), ObservedGeneration: w.Generation, LastTransitionTime: metav1.NewTime(now),
	})
}
