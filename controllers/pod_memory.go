// Pod memory: what this process has done to pods and the cache may not show.

package controllers

import (
	"sync"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// podMemory remembers pods, by UID.
type podMemory struct {
	mu   sync.Mutex
	uids map[string]bool
}

func (m *podMemory) note(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uids == nil {
		m.uids = map[string]bool{}
	}
	m.uids[uid] = true
}

func (m *podMemory) knows(uid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uids[uid]
}

// keep forgets the pods that are gone.
func (m *podMemory) keep(pods []gang.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.uids) == 0 {
		return
	}
	kept := map[string]bool{}
	for i := range pods {
		if uid := pods[i].UID; m.uids[uid] {
			kept[uid] = true
		}
	}
	m.uids = kept
}
