// Watch of epochs: when each was recorded, and when its incident recovered.

package main

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// epochWatch keeps the times of all epochs.
type epochWatch struct {
	mu     sync.Mutex
	epochs map[epochKey]*epochTimes
}

// epochKey is one epoch of a job.
type epochKey struct {
	job   string
	epoch int64
}

// epochTimes are when the status first had an epoch, and when it first had the end of the incident that raised it.
type epochTimes struct{ recorded, recovered time.Time }

func newEpochWatch(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*epochWatch, error) {
	w := &epochWatch{epochs: map[epochKey]*epochTimes{}}
	return w, watch(ctx, config, scheme, w.note, &v1alpha1.TrainingJob{})
}

// note takes one event down.
func (w *epochWatch) note(obj any, now time.Time) {
	job, ok := obj.(*v1alpha1.TrainingJob)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	first(&w.of(job.Name, job.Status.Epoch).recorded, now, true)
	for i := range job.Status.Incidents {
		inc := &job.Status.Incidents[i]
		first(&w.of(job.Name, inc.Epoch).recovered, now, inc.Outcome == v1alpha1.OutcomeRecovered)
	}
}

func (w *epochWatch) of(job string, epoch int64) *epochTimes {
	key := epochKey{job, epoch}
	if w.epochs[key] == nil {
		w.epochs[key] = &epochTimes{}
	}
	return w.epochs[key]
}

// times are those of an epoch; zero for what has not been seen.
func (w *epochWatch) times(job string, epoch int64) (recorded, recovered time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.of(job, epoch)
	return t.recorded, t.recovered
}
