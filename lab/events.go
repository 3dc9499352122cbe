package lab

import (
	"container/heap"
	"time"
)

// event is something that happens at a time. Of events at one time the one that was added first comes first.
type event struct {
	at  time.Time
	seq int
	do  func()
}

// events are those to come.
type events struct {
	heap eventHeap
	seq  int
}

func (e *events) add(at time.Time, do func()) {
	e.seq++
	heap.Push(&e.heap, event{at, e.seq, do})
}

func (e *events) next() (event, bool) {
	if len(e.heap) == 0 {
		return event{}, false
	}
	return heap.Pop(&e.heap).(event), true
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
