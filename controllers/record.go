// Record: the intent goes into status before anything is done about it.

package controllers

import (
	"context"
	"fmt"
	"sync"

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
		return fmt.Errorf("record status: %w", err)
	}
	r.writes.note(updated)
	return nil
}

// catchUp reads a job that this process has not met yet from the API server, so that
// nothing is decided on a status that the process before this one has changed.
func (r *TrainingJobReconciler) catchUp(ctx context.Context, key types.NamespacedName) error {
	if r.writes.knows(key) {
		return nil
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
	versions map[types.NamespacedName]string
}

func (l *lastWrites) note(job *v1alpha1.TrainingJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.versions == nil {
		l.versions = map[types.NamespacedName]string{}
	}
	l.versions[client.ObjectKeyFromObject(job)] = job.ResourceVersion
}

// knows reports whether this process has written or read a version of the job.
func (l *lastWrites) knows(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.versions[key]
	return ok
}

// newerThan reports whether this process has written a later version of the job.
func (l *lastWrites) newerThan(job *v1alpha1.TrainingJob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	written, ok := l.versions[client.ObjectKeyFromObject(job)]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(job.ResourceVersion, written)
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
	r.keepPods(key, nil)
	r.lacks.forget(key)
	r.silences.forget(key)
	r.lastNodes.forget(key)
	r.fitErrors.forget(key)
	r.checkpoints.keep(key, nil)
	if r.Supervision != nil {
		r.Supervision.Hub.Forget(key)
	}
}
