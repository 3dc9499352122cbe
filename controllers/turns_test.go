package controllers

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lockstep-dev/lockstep/test/check"
)

func jobIn(namespace string, n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}}
}

func newTurns(t *testing.T) priorityqueue.PriorityQueue[reconcile.Request] {
	t.Helper()
	q := newTurnsQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
	t.Cleanup(q.ShutDown)
	return q.(priorityqueue.PriorityQueue[reconcile.Request]) // as the handlers of events see it
}

// served takes n items, one after the other.
func served(q priorityqueue.PriorityQueue[reconcile.Request], n int) []string {
	var out []string
	for range n {
		item, _, _ := q.GetWithPriority()
		q.Done(item)
		out = append(out, item.String())
	}
	return out
}

// A namespace with a thousand jobs that ask for passes, and one with a single job that does so last.
func TestNamespacesTakeTurns(t *testing.T) {
	q := newTurns(t)
	for n := range 1000 {
		q.Add(jobIn("many", n))
	}
	q.Add(jobIn("one", 0))
	check.Equal(t, "the first", []string{"many/0", "one/0", "many/1", "many/2"}, served(q, 4))
	q.Add(jobIn("one", 1))
	q.Add(jobIn("two", 0))
	q.Add(jobIn("one", 2))
	check.Equal(t, "the next", []string{"many/3", "one/1", "two/0", "many/4", "one/2", "many/5"}, served(q, 6))
	check.Equal(t, "left", 994, q.Len())
}

// Jobs that were only listed come after those of their namespace that have changed, and not after those of others. One that changes
// as it waits is served once.
func TestWhatWasOnlyListedComesLast(t *testing.T) {
	q := newTurns(t)
	listed := priorityqueue.AddOpts{Priority: new(-100)}
	q.AddWithOpts(listed, jobIn("a", 0), jobIn("a", 1), jobIn("b", 0))
	q.Add(jobIn("a", 2))
	q.AddWithOpts(listed, jobIn("a", 2)) // which stays where it is
	q.AddWithOpts(priorityqueue.AddOpts{}, jobIn("a", 1))
	check.Equal(t, "waiting", 4, q.Len())
	check.Equal(t, "order", []string{"a/2", "b/0", "a/1", "a/0"}, served(q, 4))
	check.Equal(t, "left", 0, q.Len())
}

// An item that is added while it is served is served once more, and one that is added later comes later.
func TestAnItemIsAddedAgain(t *testing.T) {
	q := newTurns(t)
	q.Add(jobIn("a", 0))
	item, _, _ := q.GetWithPriority()
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, item)
	q.AddWithOpts(priorityqueue.AddOpts{}, item)
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, jobIn("a", 5))
	check.Equal(t, "waiting beside it", 1, q.Len())
	q.Done(item)
	check.Equal(t, "order", []string{"a/0", "a/5"}, served(q, 2))
	q.AddWithOpts(priorityqueue.AddOpts{After: time.Millisecond}, jobIn("a", 1))
	check.Equal(t, "later", []string{"a/1"}, served(q, 1))
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, jobIn("a", 2))
	check.Equal(t, "after a failure", []string{"a/2"}, served(q, 1))
	check.Equal(t, "failures", 1, q.NumRequeues(jobIn("a", 2)))
}

// Nothing is remembered of items that have been served.
func TestTurnsForget(t *testing.T) {
	q := newTurns(t)
	for n := range 100 {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-n % 2)}, jobIn(fmt.Sprint(n%7), n))
		q.Add(jobIn(fmt.Sprint(n%7), n))
	}
	served(q, 100)
	order := q.(*turnsQueue).turns
	check.Equal(t, "left", 0, q.Len())
	check.Equal(t, "asked", 0, len(order.asked))
	check.Equal(t, "waiting", 0, len(order.waits))
}
