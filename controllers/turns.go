// Turns: which job's pass is next. The namespaces take turns, so that one with many jobs that ask for passes all the time delays the
// passes of another namespace by one pass of its own, and not by all of them.

package controllers

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turnsQueue is a queue in which namespaces take turns. Of a namespace, jobs that were only listed come after those that have changed.
type turnsQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	turns *turns
}

// newTurnsQueue returns the queue of a controller.
func newTurnsQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	order := &turns{asked: map[reconcile.Request]int{}, waits: map[reconcile.Request]bool{}, of: map[string]*turn{}}
	return &turnsQueue{
		turns: order,
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
				Name:  name,
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: order}),
			}),
		}),
	}
}

// AddWithOpts is part of priorityqueue.PriorityQueue. It knows two priorities: below 0, and all others.
func (q *turnsQueue) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
	for _, item := range items {
		q.turns.ask(item, ptr.Deref(o.Priority, 0))
		switch {
		case o.RateLimited:
			q.TypedRateLimitingInterface.AddRateLimited(item)
		case o.After > 0:
			q.TypedRateLimitingInterface.AddAfter(item, o.After)
		default:
			q.TypedRateLimitingInterface.Add(item)
		}
	}
}

// Add is part of workqueue.TypedRateLimitingInterface.
func (q *turnsQueue) Add(item reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// AddAfter is part of workqueue.TypedRateLimitingInterface.
func (q *turnsQueue) AddAfter(item reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

// AddRateLimited is part of workqueue.TypedRateLimitingInterface.
func (q *turnsQueue) AddRateLimited(item reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

// GetWithPriority is part of priorityqueue.PriorityQueue. What is tried again has changed, whatever it was before.
func (q *turnsQueue) GetWithPriority() (item reconcile.Request, priority int, shutdown bool) {
	item, shutdown = q.Get()
	return item, 0, shutdown
}

// turns is the order of a turnsQueue.
type turns struct {
	mu sync.Mutex
	// asked are the priorities of items that are to be pushed, the highest for each.
	asked map[reconcile.Request]int
	// waits has every item that waits, and whether it has changed.
	waits map[reconcile.Request]bool
	// of has the namespaces of which something waits, and next their order.
	of   map[string]*turn
	next []string
}

// turn is what waits of a namespace. An item that changes while it waits is in both lists: the later entry means nothing.
type turn struct {
	changed, listed []reconcile.Request
}

func (t *turns) ask(item reconcile.Request, priority int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, is := t.asked[item]; !is || before < priority {
		t.asked[item] = priority
	}
}

// hasChanged reports whether an item that is pushed has changed, and forgets what was asked of it.
func (t *turns) hasChanged(item reconcile.Request) bool {
	changed := t.asked[item] >= 0
	delete(t.asked, item)
	return changed
}

// Touch is part of workqueue.Queue: an item that waits is added again.
func (t *turns) Touch(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasChanged(item) && !t.waits[item] {
		t.push(item, true)
	}
}

// Push is part of workqueue.Queue.
func (t *turns) Push(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.push(item, t.hasChanged(item))
}

func (t *turns) push(item reconcile.Request, changed bool) {
	t.waits[item] = changed
	of := t.of[item.Namespace]
	if of == nil {
		of = &turn{}
		t.of[item.Namespace] = of
		t.next = append(t.next, item.Namespace)
	}
	if changed {
		of.changed = append(of.changed, item)
	} else {
		of.listed = append(of.listed, item)
	}
}

// Len is part of workqueue.Queue.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waits)
}

// Pop is part of workqueue.Queue, which calls it only where something waits.
func (t *turns) Pop() reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		namespace := t.next[0]
		t.next = t.next[1:]
		item, found := t.take(t.of[namespace])
		if of := t.of[namespace]; len(of.changed)+len(of.listed) > 0 {
			t.next = append(t.next, namespace)
		} else {
			delete(t.of, namespace)
		}
		if found {
			delete(t.waits, item)
			return item
		}
	}
}

// take takes the first item of a namespace, if any waits.
func (t *turns) take(of *turn) (item reconcile.Request, found bool) {
	if len(of.changed) > 0 {
		item, of.changed = of.changed[0], of.changed[1:]
		return item, true
	}
	for len(of.listed) > 0 {
		item, of.listed = of.listed[0], of.listed[1:]
		if changed, waits := t.waits[item]; waits && !changed {
			return item, true
		}
	}
	return item, false
}
