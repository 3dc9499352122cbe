// Next: what comes next of a Workload. Kueue leaves these steps to whoever owns the job (pkg/controller/jobframework/reconciler.go and pkg/workload/workload.go of v0.19).

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
	evicted := meta.FindStatusCondition(w.Status.Conditions, ConditionEvicted)
	reserved := meta.FindStatusCondition(w.Status.Conditions, ConditionQuotaReserved)
	onHold := reserved != nil && reserved.Status == metav1.ConditionFalse && reserved.Reason == reasonOnHold
	switch {
	case w.is(ConditionFinished) || !w.DeletionTimestamp.IsZero():
		if stopped {
			letGo(w)
		}
	case gang.Finished(&job.Status):
		if stopped {
			w.finish(job, now)
		}
	case job.Spec.Suspend:
		if stopped && !onHold {
			w.release(reasonOnHold, "spec.suspend of the TrainingJob is true", now)
		}
	case onHold:
		w.set(ConditionQuotaReserved, false, reasonPending, "spec.suspend of the TrainingJob is false", now)
	case w.is(ConditionEvicted):
		if stopped && w.is(ConditionQuotaReserved) {
			w.set(ConditionRequeued, slices.Contains(evictedForOthers, evicted.Reason), evicted.Reason, evicted.Message, now)
			w.release(reasonPending, evicted.Message, now)
		}
	default:
		w.noteReady(job, now)
	}
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

// noteReady says that all pods of a job run. That they did is said until it is stopped: its recovery is not Kueue's to time.
func (w *Workload) noteReady(job *v1alpha1.TrainingJob, now time.Time) {
	if w.is(ConditionAdmitted) && gang.IsTrue(&job.Status, v1alpha1.ConditionRunning) {
		w.set(ConditionPodsReady, true, reasonStarted, "all pods run", now)
	}
}

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
