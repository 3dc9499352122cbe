// Pod memory: what this process has done to pods and the cache may not show.

package controllers

import (
	"maps"
	"sync"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// podMemory remembers something of pods, by UID.
type podMemory[T any] struct {
	mu    sync.Mutex
	byUID map[string]T
}

func (m *podMemory[T]) note(uid string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUID == nil {
		m.byUID = map[string]T{}
	}
	m.byUID[uid] = what
}

// of is what was noted of a pod last; zero where nothing was.
func (m *podMemory[T]) of(uid string) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUID[uid]
}

// keep forgets the pods that are gone.
func (m *podMemory[T]) keep(pods []gang.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.byUID) == 0 {
		return
	}
	there := map[string]bool{}
	for i := range pods {
		there[pods[i].UID] = true
	}
	maps.DeleteFunc(m.byUID, func(uid string, _ T) bool { return !there[uid] })
}
