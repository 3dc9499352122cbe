package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// runKubelets lets every kubelet take its next step.
func (w *world) runKubelets() {
	for _, t := range w.tenants {
		for _, p := range slices.Clone(t.pods) {
			if !w.lazy() {
				t.runPod(p)
			}
		}
		t.runProgram()
	}
	w.runSupervisors()
}

func (t *tenant) runPod(p *pod) {
	n := t.nodes[p.Node]
	switch {
	case p.Deleting && (n == nil || n.speaks() || n.gone):
		if n != nil && n.answers() && t.terminate(p) {
			return
		}
		t.remove(p)
	case n != nil && n.gone:
		p.Deleting = true
		t.changed("the pod garbage collector deletes pod %s", p.Name)
	case n != nil && n.answers() && !p.finished():
		t.runContainer(p)
	}
}

// runContainer takes the next step of a pod on a node that answers.
func (t *tenant) runContainer(p *pod) {
	switch {
	case p.Phase == corev1.PodPending && t.stalls(p):
		t.stall(p)
	case p.Phase == corev1.PodPending:
		p.Phase, p.IP = corev1.PodRunning, "10.0.0."+p.UID
		t.startProcess(p)
		t.drawHang(p)
		t.changed("pod %s runs", p.Name)
	case !p.containerRuns() && !p.restartAt.After(t.now):
		t.startProcess(p)
		t.changed("the kubelet restarts the process of pod %s", p.Name)
	case t.failsAtStart(p):
		t.crash(p, 1)
	case !p.Ready && t.isReady(p):
		p.Ready, p.WasReady, p.Failure = true, true, gang.Failure{}
		p.setReadyCondition()
		t.changed("pod %s is ready", p.Name)
	case t.done && p.Ready && !p.Spare && p.running:
		t.succeed(p)
	}
}
