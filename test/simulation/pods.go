package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// rank names one pod's place in the gang, whatever pod fills it. The spares of a task are ranks of a task
// of their own, as in Volcano.
type rank struct {
	task  string
	index int32
}

// pod is a pod of a job, with the process that runs in it.
type pod struct {
	gang.Pod
	process
	supervisor
	target placement.Target
	// returned is whether the manager has bound it to a node that its job held: no hold of another job was asked.
	returned bool
	// standby says whether its program starts only once the manager gives the pod a rank, and as what it was made.
	standby string
}

func rankOf(p *gang.Pod) rank {
	if p.Spare {
		return rank{p.Task + v1alpha1.SpareSuffix, p.Index}
	}
	return rank{p.Task, p.Index}
}

func (p *pod) String() string {
	return fmt.Sprintf("%s on %q %s ready=%v gated=%v deleting=%v incarnation %d, to %v", p.Name, p.Node, p.Phase, p.Ready, p.Gated, p.Deleting, p.Incarnation, p.target)
}

func (p *pod) rank() rank { return rankOf(&p.Pod) }

// ended reports whether a pod's containers have ended for good.
func ended(p *gang.Pod) bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

func (p *pod) finished() bool { return ended(&p.Pod) }

// admits reports whether a target lets a pod go to a node.
func admits(t placement.Target, hostname string) bool {
	return (t.In == nil || slices.Contains(t.In, hostname)) && !slices.Contains(t.NotIn, hostname)
}

func (t *tenant) remove(p *pod) {
	t.changed("pod %s is gone", p.Name)
	t.haunt(p)
	t.pods = slices.DeleteFunc(t.pods, func(q *pod) bool { return q == p })
}

func (t *tenant) podNamed(name string) *pod {
	return t.findPod(func(p *pod) bool { return p.Name == name })
}

func (t *tenant) podOfUID(uid string) *pod {
	return t.findPod(func(p *pod) bool { return p.UID == uid })
}

func (t *tenant) findPod(ok func(*pod) bool) *pod {
	if i := slices.IndexFunc(t.pods, ok); i >= 0 {
		return t.pods[i]
	}
	return nil
}

// executes reports whether a pod's containers run on a node that answers.
func (w *world) executes(p *pod) bool {
	return p.Phase == corev1.PodRunning && w.nodes[p.Node].answers()
}

// computes reports whether a pod's containers run, be it on a node that is cut off.
func (w *world) computes(p *pod) bool {
	n := w.nodes[p.Node]
	return w.executes(p) || (p.Phase == corev1.PodRunning && n != nil && n.cut && !n.gone)
}

// lives reports whether a pod may be running on a node that would say if it were not.
func (w *world) lives(p *pod) bool {
	n := w.nodes[p.Node]
	return n != nil && n.speaks() && !p.finished()
}
