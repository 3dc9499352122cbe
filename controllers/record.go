// Record: the intent goes into status before anything is done about it.

package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// record writes the status, if nobody else has changed the job since it was read.
func (r *TrainingJobReconciler) record(ctx context.Context, job *v1alpha1.TrainingJob, status v1alpha1.TrainingJobStatus) error {
	updated := job.DeepCopy()
	updated.Status = *status.DeepCopy()
	if err := r.Status().Update(ctx, updated); err != nil {
		err = fmt.Errorf("record status: %w", err)
		if isDenied(err) || isTooLarge(err) {
			r.reportRefusedStatus(job, err)
			return refusedError{err}
		}
		return err
	}
	r.memoryOf(updated).written = versionOf(updated)
	return nil
}

// isTooLarge reports whether an object is larger than the API server, or etcd, takes. Errors of etcd have no reason of their own.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max")
}

// refusalRepeated is the least time between two events about one thing of a job that is refused.
const refusalRepeated = 10 * time.Minute

// reportRefusedStatus tells of a status that cannot be written: nothing is done for the job until one can.
func (r *TrainingJobReconciler) reportRefusedStatus(job *v1alpha1.TrainingJob, why error) {
	refusedStatuses.WithLabelValues(job.Namespace, queueLabel(job)).Inc()
	if m, now := r.memoryOf(job), r.Clock.Now(); now.Sub(m.unrecorded) >= refusalRepeated {
		m.unrecorded = now
		r.tell(job, corev1.EventTypeWarning, "StatusRefused", "Record",
			"the job is not managed until its status can be written: "+cut(why.Error(), maxRefusal/2))
	}
}

// catchUp reads a job that this process has not met yet from the API server, so that
// nothing is decided on a status that the process before this one has changed. What is
// remembered of an earlier job of the name is forgotten.
func (r *TrainingJobReconciler) catchUp(ctx context.Context, job *v1alpha1.TrainingJob) error {
	key := client.ObjectKeyFromObject(job)
	switch r.memoryOf(job).written.uid {
	case job.UID:
		return nil
	case "":
	default:
		r.forget(key)
	}
	live := &v1alpha1.TrainingJob{}
	if err := r.Live.Get(ctx, key, live); err != nil {
		return fmt.Errorf("get the job from the API server: %w", err)
	}
	r.memoryOf(live).written = versionOf(live)
	return nil
}

// version is one of a job; its UID is empty for a job that is not known.
type version struct {
	uid      types.UID
	resource string
}

func versionOf(job *v1alpha1.TrainingJob) version { return version{job.UID, job.ResourceVersion} }

// isNewerThan reports whether this version of a job, which this process has written, is later than one from the cache.
func (v version) isNewerThan(job *v1alpha1.TrainingJob) bool {
	if v.uid == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(job.ResourceVersion, v.resource)
	return err == nil && order < 0
}
