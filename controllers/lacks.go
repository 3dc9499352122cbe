// Lacks: what this process remembers of gangs that lack pods, which no object shows.

package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lacks remembers since when gangs lack pods, and when Volcano was last asked to look at their Jobs again.
type lacks struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]lack
}

type lack struct{ since, synced time.Time }

// note remembers that a gang lacks pods, since now where it did not before, or that it lacks none.
func (l *lacks) note(key types.NamespacedName, lacking bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.jobs[key]
	switch {
	case !lacking:
		delete(l.jobs, key)
	case !ok:
		if l.jobs == nil {
			l.jobs = map[types.NamespacedName]lack{}
		}
		l.jobs[key] = lack{since: now}
	}
}

func (l *lacks) noteSync(key types.NamespacedName, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.jobs[key]; ok {
		l.jobs[key] = lack{known.since, now}
	}
}

func (l *lacks) get(key types.NamespacedName) (since, synced time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.jobs[key]
	return known.since, known.synced
}

func (l *lacks) forget(key types.NamespacedName) { l.note(key, false, time.Time{}) }
