// Pod memory: what this process has done to pods and the cache may not show.

package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// podMemory remembers pods, by job and UID.
type podMemory struct {
	mu   sync.Mutex
	uids map[types.NamespacedName]map[string]bool
}

func (m *podMemory) note(job types.NamespacedName, uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uids == nil {
		m.uids = map[types.NamespacedName]map[string]bool{}
	}
	if m.uids[job] == nil {
		m.uids[job] = map[string]bool{}
	}
	m.uids[job][uid] = true
}

func (m *podMemory) knows(job types.NamespacedName, uid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uids[job][uid]
}

// keep forgets the pods of a job that are gone.
func (m *podMemory) keep(job types.NamespacedName, pods []gang.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.uids[job]
	delete(m.uids, job)
	for i := range pods {
		if uid := pods[i].UID; known[uid] {
			if m.uids[job] == nil {
				m.uids[job] = map[string]bool{}
			}
			m.uids[job][uid] = true
		}
	}
}
