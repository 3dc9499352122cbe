package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What becomes of a placement after the scheduler has decided: the queue's share, binds that are lost, and pods
// that the kubelet refuses.

// drawShare gives the queue a share that is one or two pods short of what its jobs need.
func (w *world) drawShare() {
	if !w.is(queueShare) {
		return
	}
	for _, t := range w.tenants {
		w.share += t.request * len(ranksOf(t.job, &t.job.Status))
	}
	w.share = max(w.tenants[0].request, w.share-w.tenants[0].request*(1+w.rng.IntN(2)))
}

func (w *world) toggleDemand() {
	if w.is(queueShare) {
		w.demand = !w.demand
		w.changed("other queues have demand: %v", w.demand)
		if w.demand {
			w.happened("other queues have demand")
		}
	}
}

// overShare reports whether so many more pods of a job would take the queue over its share, while others want theirs.
func (t *tenant) overShare(more int) bool {
	if !t.demand {
		return false
	}
	allocated := more * t.request
	for _, other := range t.tenants {
		for _, p := range other.pods {
			if p.Node != "" && !p.finished() {
				allocated += other.request
			}
		}
	}
	return allocated > t.share
}

// refusalReasons are those of kubelets that refuse a pod which is bound to their node.
var refusalReasons = []string{"OutOfnvidia.com/gpu", "UnexpectedAdmissionError", "NodeAffinity", "OutOfmemory", "OutOfephemeral-storage", "TopologyAffinityError"}

// breakDevicePlugin has a node refuse all new pods.
func (w *world) breakDevicePlugin() {
	if !w.is(refusals) {
		return
	}
	if n, ok := w.pickNode(func(n *node) bool { return n.good() && n.refuses == "" }); ok {
		n.refuses = "UnexpectedAdmissionError"
		w.changed("the device plugin of node %s is down", n.Name)
	}
}

// losesPlace reports whether another pod takes the place of a pod between the decision and the bind.
func (t *tenant) losesPlace(p *pod, n *node) bool {
	often := 15
	if t.job.Status.Placement == nil {
		often = 5 // while the gang is placed for the first time
	}
	if !t.is(refusals) || t.calm || !t.grabbable(n) || !t.one(often) {
		return false
	}
	t.happened("place is taken first")
	t.grab(n)
	if t.one(2) && t.free(n) < t.request {
		// Both are bound, and the kubelet takes the one that came first.
		p.Node, p.BoundTime = n.Name, t.now.Truncate(time.Second)
		t.fail(p, "OutOfnvidia.com/gpu")
	}
	return true
}

// refuse lets a kubelet refuse a pod that is bound to its node.
func (t *tenant) refuse(p *pod, n *node) {
	switch {
	case !t.is(refusals):
	case n.refuses != "":
		t.fail(p, n.refuses)
	case !t.calm && t.one(25):
		t.fail(p, refusalReasons[t.rng.IntN(len(refusalReasons))])
	}
}

// fail is what the kubelet writes about a pod that it refuses: whatever its restartPolicy, it has Failed.
func (t *tenant) fail(p *pod, reason string) {
	p.Phase, p.Unschedulable, p.Refused = corev1.PodFailed, false, true
	p.Failure.Reason, p.Failure.Message = reason, "Pod was rejected"
	t.happened("kubelet refuses a pod")
	t.changed("the kubelet of %s refuses pod %s: %s", p.Node, p.Name, reason)
}
