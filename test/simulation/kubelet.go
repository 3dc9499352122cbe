package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies"
)

// runKubelets lets every kubelet take its next step.
func (w *world) runKubelets() {
	for _, t := range w.tenants {
		for _, p := range slices.Clone(t.pods) {
			if !w.lazy() {
				t.runPod(p)
			}
		}
	}
}

func (t *tenant) runPod(p *pod) {
	n := t.nodes[p.Node]
	switch {
	case p.Deleting && (n == nil || n.speaks() || n.gone):
		t.remove(p)
	case n != nil && n.gone:
		p.Deleting = true
		t.changed("the pod garbage collector deletes pod %s", p.Name)
	case n == nil || !n.answers() || p.finished():
	case p.Phase == corev1.PodPending:
		p.Phase, p.IP = corev1.PodRunning, "10.0.0."+p.UID
		t.changed("pod %s runs", p.Name)
	case !p.Ready:
		p.Ready, p.WasReady, p.Failure = true, true, policies.Failure{}
		t.changed("pod %s is ready", p.Name)
	case t.done && !p.Spare:
		p.Phase, p.Ready = corev1.PodSucceeded, false
		t.changed("pod %s has succeeded", p.Name)
	}
}
