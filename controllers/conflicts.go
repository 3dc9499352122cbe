// Conflicts: how often in a row a job has run into what others wrote.

package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// conflicts counts the conflicts of each job in a row.
type conflicts struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]int
}

// count counts one more conflict, or starts again at 0.
func (c *conflicts) count(job types.NamespacedName, conflict bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conflict {
		delete(c.jobs, job)
		return 0
	}
	if c.jobs == nil {
		c.jobs = map[types.NamespacedName]int{}
	}
	c.jobs[job]++
	return c.jobs[job]
}
