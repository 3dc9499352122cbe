// Memory: what this process remembers of a job from one pass to the next, and no object shows.

package controllers

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// memory is what is remembered of one job. Only the job's passes use it, one after the other. What writes of one pass note side by side has a
// lock of its own.
type memory struct {
	// pass is locked during a pass. The controller runs one pass of a job at a time; a second caller of Reconcile is made to do so, too.
	pass sync.Mutex
	// rests is until when no pass is due, unless one is urgent.
	rests time.Time
	// lostNode and reported make one urgent: a node of the job was lost, or a report has come that a decision waits for, since a pass last looked.
	lostNode, reported atomic.Bool

	written      version   // the last version of the job that this process wrote or read live: nothing is decided on an older one from the cache
	refused      string    // why the API server refused the Volcano Job, for the condition that says so
	refusals     int       // of the Volcano Job, the status or the PodDisruptionBudget, in a row
	conflicts    int       // in a row
	unrecorded   time.Time // when users were last told that the status is refused
	unprotected  time.Time // when users were last told that the PodDisruptionBudget is refused
	lack         lack
	seen         map[types.UID]*seenPod
	unheld       map[string]unheldNode  // nodes that could not be held
	tried        podMemory[bool]        // left to the scheduler
	opened       podMemory[bool]        // their gates were lifted
	bound        podMemory[*corev1.Pod] // as they are since
	deleted      podMemory[bool]
	vacated      vacatedNodes
	sightings    map[string]time.Time
	fitErrors    map[string]time.Time // reasons why nodes did not fit, and when they were last given
	podEvents    map[string]eventLook
	createErrors map[string]eventLook
	silence      *silence
	lastNodes    lastNodes
}

// isUrgent reports whether something has happened that does not wait until the job has rested.
func (m *memory) isUrgent() bool { return m.lostNode.Load() || m.reported.Load() }

// memories are those of all jobs.
type memories struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]*memory
}

// of returns what is remembered of a job, which may be nothing yet.
func (m *memories) of(job types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.jobs[job]
	if found == nil {
		if m.jobs == nil {
			m.jobs = map[types.NamespacedName]*memory{}
		}
		found = &memory{}
		m.jobs[job] = found
	}
	return found
}

func (m *memories) forget(job types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.jobs, job)
}

func (r *TrainingJobReconciler) memoryOf(job *v1alpha1.TrainingJob) *memory {
	return r.memories.of(client.ObjectKeyFromObject(job))
}

// forget forgets a job that is gone.
func (r *TrainingJobReconciler) forget(job types.NamespacedName) {
	r.countUnder(job, "") // with its part of a gauge, which its memory has
	r.memories.forget(job)
	r.checkpoints.keep(job, nil)
	if r.Supervision != nil {
		r.Supervision.Hub.Forget(job)
	}
}
