// Record: the intent goes into status before anything is done about it.

package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
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
	r.writes.note(updated)
	return nil
}

// isTooLarge reports whether an object is larger than the API server, or etcd, takes. Errors of etcd have no reason of their own.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max")
}

// refusedStatusEvery is the least time between two events about one job whose status is refused.
const refusedStatusEvery = 10 * time.Minute

// reportRefusedStatus tells of a status that cannot be written: nothing is done for the job until one can.
func (r *TrainingJobReconciler) reportRefusedStatus(job *v1alpha1.TrainingJob, why error) {
	refusedStatuses.WithLabelValues(job.Namespace, queueLabel(job)).Inc()
	if r.unrecorded.isDue(client.ObjectKeyFromObject(job), r.Clock.Now(), refusedStatusEvery) {
		r.tell(job, corev1.EventTypeWarning, "StatusRefused", "Record",
			"the job is not managed until its status can be written: "+cut(why.Error(), maxRefusal/2))
	}
}

// catchUp reads a job that this process has not met yet from the API server, so that
// nothing is decided on a status that the process before this one has changed. What is
// remembered of an earlier job of the name is forgotten.
func (r *TrainingJobReconciler) catchUp(ctx context.Context, job *v1alpha1.TrainingJob) error {
	key := client.ObjectKeyFromObject(job)
	switch r.writes.of(key).uid {
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
	r.writes.note(live)
	return nil
}

// lastWrites remembers the last version of each job that this process wrote, so
// that nothing is decided on an older one from the cache.
type lastWrites struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]version
}

// version is one of a job; its UID is empty for a job that is not known.
type version struct {
	uid      types.UID
	resource string
}

func (l *lastWrites) note(job *v1alpha1.TrainingJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.versions == nil {
		l.versions = map[types.NamespacedName]version{}
	}
	l.versions[client.ObjectKeyFromObject(job)] = version{job.UID, job.ResourceVersion}
}

// of returns the version of a job that this process has written or read last.
func (l *lastWrites) of(key types.NamespacedName) version {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.versions[key]
}

// newerThan reports whether this process has written a later version of the job.
func (l *lastWrites) newerThan(job *v1alpha1.TrainingJob) bool {
	written := l.of(client.ObjectKeyFromObject(job))
	if written.uid == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(job.ResourceVersion, written.resource)
	return err == nil && order < 0
}

func (l *lastWrites) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.versions, key)
}

// refusals remembers why the API server refused a job's Volcano Job, for the condition that tells the user.
type refusals struct {
	mu       sync.Mutex
	messages map[types.NamespacedName]string
}

func (f *refusals) set(key types.NamespacedName, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.messages == nil {
		f.messages = map[types.NamespacedName]string{}
	}
	if message == "" {
		delete(f.messages, key)
		return
	}
	f.messages[key] = message
}

func (f *refusals) get(key types.NamespacedName) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.messages[key]
}

func (r *TrainingJobReconciler) forget(key types.NamespacedName) {
	r.writes.forget(key)
	r.refusals.set(key, "")
	r.unheld.forget(key)
	r.unrecorded.forget(key)
	r.tried.keep(key, nil)
	r.opened.keep(key, nil)
	r.deleted.keep(key, nil)
	r.lacks.forget(key)
	r.sightings.forget(key)
	r.podEvents.keep(key)
	r.createErrors.keep(key)
	r.countUnder(key, "")
	r.lastNodes.forget(key)
	r.fitErrors.forget(key)
	r.checkpoints.keep(key, nil)
	if r.Supervision != nil {
		r.Supervision.Hub.Forget(key)
	}
}
