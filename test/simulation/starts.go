package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Pods that have their nodes and do not start there, and processes that never become ready.

// reasonAfter is how long the kubelet tries until it says why a pod does not start.
const reasonAfter = 5 * time.Second

// startFault is why pods do not start: what the kubelet says of it, without a reason where it says nothing.
type startFault struct {
	says gang.StartProblem
}

func (w *world) drawStartFault() *startFault {
	return &startFault{[]gang.StartProblem{
		{},
		{Reason: "FailedCreatePodSandBox", Message: "plugin type=cni failed"},
		{Container: "train", Reason: "ImagePullBackOff", Message: "manifest unknown"},
		{Container: "train", Reason: "CreateContainerError", Message: "no such device"},
	}[w.rng.IntN(4)]}
}

// breakStarts has a node start no pods.
func (w *world) breakStarts() {
	if !w.is(startFaults) {
		return
	}
	if n, ok := w.pickNode(func(n *node) bool { return n.good() && n.starts == nil }); ok {
		n.starts = w.drawStartFault()
		w.changed("no pod starts on node %s any more: %+v", n.Name, n.starts.says)
	}
}

// breakImage has no pod of a task start anywhere; or has them start again.
func (t *tenant) breakImage() {
	if !t.is(startFaults) {
		return
	}
	task := t.job.Spec.Tasks[t.rng.IntN(len(t.job.Spec.Tasks))].Name
	if t.broken[task] != nil {
		delete(t.broken, task)
	} else {
		t.broken[task] = t.drawStartFault()
		t.happened("task starts nowhere")
	}
	t.changed("no pod of task %s starts: %v", task, t.broken[task] != nil)
}

// drawHang lets the process of a new pod never become ready.
func (t *tenant) drawHang(p *pod) {
	if t.is(startFaults) && !t.calm && !p.Spare && t.one(15) {
		p.hangs = true
		t.happened("pod never becomes ready")
		t.changed("the process of pod %s hangs", p.Name)
	}
}

// faultOf is why a pod does not start on its node; nil where it does.
func (t *tenant) faultOf(p *pod) *startFault {
	if n := t.nodes[p.Node]; n != nil && n.starts != nil {
		return n.starts
	}
	if p.Spare {
		return nil // placeholders have an image of their own
	}
	return t.broken[p.Task]
}

func (t *tenant) stalls(p *pod) bool { return p.Node != "" && t.faultOf(p) != nil }

// stall is what the kubelet writes about a pod that it cannot start.
func (t *tenant) stall(p *pod) {
	says := t.faultOf(p).says
	if p.StartProblem == says || t.now.Before(p.BoundTime.Add(reasonAfter)) {
		return
	}
	p.StartProblem = says
	t.happened("kubelet cannot start a pod")
	t.changed("the kubelet of %s cannot start pod %s: %+v", p.Node, p.Name, says)
}

// mendStarts has all pods start and become ready again.
func (w *world) mendStarts() {
	for _, name := range w.names {
		if n := w.nodes[name]; n.starts != nil {
			n.starts = nil
			w.changed("pods start on node %s", name)
		}
	}
	for _, t := range w.tenants {
		clear(t.broken)
		t.failsAfter = 0
		for _, p := range t.pods {
			p.hangs, p.stuck = false, false
		}
	}
}

const (
	startErrorAfter = 30 * time.Second // until a pod counts as not started, where the kubelet says why
	slowStartAfter  = 10 * time.Minute // the same where it does not, and until a process counts as not ready
)

// failsToStart reports whether a pod was seen to have had its time to start, while others came further.
func (r *record) failsToStart(p *gang.Pod) bool {
	from, limit := p.BoundTime, slowStartAfter
	if p.PlacedTime.After(from) {
		from = p.PlacedTime
	}
	if p.Phase == corev1.PodPending && p.StartProblem.Reason != "" {
		limit = startErrorAfter
	}
	return p.Node != "" && !r.o.Now.Before(from.Add(limit)) && r.isOvertaken(p)
}

// isOvertaken reports whether other pods of a pod's task came further. The only pod of a task is compared with those of
// the others. The record may change how many it has.
func (r *record) isOvertaken(p *gang.Pod) bool {
	alone := taskStatus(r.s, p.Task).Replicas <= 1 || taskStatus(r.old, p.Task).Replicas <= 1
	return slices.ContainsFunc(r.o.Pods, func(q gang.Pod) bool {
		return !q.Spare && q.Attempt == p.Attempt && (q.Task == p.Task || alone) && stage(&q) > stage(p)
	})
}

// stage is how far a pod has come: 1 once it runs, 2 once it was ready.
func stage(p *gang.Pod) int {
	switch {
	case p.Gated || p.Node == "":
		return 0
	case p.Ready || p.WasReady || p.Phase == corev1.PodSucceeded:
		return 2
	case p.Phase == corev1.PodRunning:
		return 1
	}
	return 0
}

// hasExited reports whether the process of a pod that runs again was seen to have exited just before that of another
// rank, which is not back. One that was killed counts as the cause of an exit up to a second earlier: reports are that late.
func (r *record) hasExited(p *gang.Pod) bool {
	return p.LastExit != nil && slices.ContainsFunc(r.o.Pods, func(q gang.Pod) bool {
		if q.LastExit == nil || q.UID == p.UID || q.Spare || q.Ready {
			return false
		}
		after, lead := q.LastExit.Time.Sub(p.LastExit.Time), time.Duration(0)
		if p.LastExit.ExitCode == 137 {
			lead = time.Second
		}
		return after >= -lead && after <= correctedFor
	})
}
