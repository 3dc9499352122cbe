package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// What people, other systems' jobs and the clock do.

// wait lets time pass: mostly seconds, sometimes minutes.
func (w *world) wait() {
	d := time.Duration(w.rng.IntN(8000)) * time.Millisecond
	switch w.rng.IntN(10) {
	case 0:
		d *= 10
	case 1:
		d *= 60
	}
	w.pass(d)
}

// stepClock corrects the clock: minutes forward, or a few seconds back.
func (w *world) stepClock() {
	if w.one(2) {
		w.pass(time.Duration(1+w.rng.IntN(30)) * time.Minute)
		return
	}
	w.happened("clock steps back")
	w.pass(-time.Duration(1+w.rng.IntN(5000)) * time.Millisecond)
}

// proveNodeDead is an administrator who marks a dead node as out of service.
func (w *world) proveNodeDead() {
	if n, ok := w.pickNode(func(n *node) bool { return !n.gone && !n.speaks() && !n.OutOfService }); ok {
		n.OutOfService = true
		w.changed("node %s is out of service", n.Name)
	}
}

// deletePod is a user who deletes a pod, sometimes by force.
func (t *tenant) deletePod() {
	p, ok := pick(t.world, t.pods, func(*pod) bool { return true })
	if !ok {
		return
	}
	if n := t.nodes[p.Node]; t.one(3) && (n == nil || n.gone || n.Ready) {
		t.remove(p)
		return
	}
	p.Deleting = true
	t.changed("a user deletes pod %s", p.Name)
}

func (t *tenant) deleteVolcanoJob() {
	if v := t.currentVolcanoJob(); v != nil {
		v.deleting = true
		t.changed("a user deletes Volcano Job %s", v.name)
	}
}

// grabNode is a pod of another system that takes any free node that it tolerates.
func (w *world) grabNode() {
	if n, ok := w.pickNode(w.grabbable); ok {
		w.grab(n)
	}
}

func (w *world) grabbable(n *node) bool {
	return n.good() && len(n.holds) == 0 && w.schedulable(n) > 0
}

func (w *world) grab(n *node) {
	n.foreign += min(w.schedulable(n), []int{gpus, gpus / 2}[w.rng.IntN(2)])
	w.changed("pods of another system take node %s", n.Name)
	w.checkRoomOwed(n, nil, nil)
}

// fillRack is a large job that takes what a rack has left, home's more often than not.
func (w *world) fillRack() {
	rack := rackName(w.rng.IntN(racks))
	if p := w.someone().job.Status.Placement; p != nil && w.members[p.HyperNode] != nil && !w.one(3) {
		rack = p.HyperNode
	}
	for _, name := range w.members[rack] {
		if n := w.nodes[name]; w.grabbable(n) {
			w.grab(n)
		}
	}
}

func (w *world) leaveNode() {
	if n, ok := w.pickNode(func(n *node) bool { return n.foreign > 0 }); ok {
		n.foreign = 0
		w.changed("pods of another system leave node %s", n.Name)
	}
}

// leaveAll has the pods of other systems leave.
func (w *world) leaveAll() {
	for _, name := range w.names {
		if n := w.nodes[name]; n.foreign > 0 {
			n.foreign = 0
			w.changed("pods of another system leave node %s", name)
		}
	}
}

func (w *world) toggleQueue() {
	w.queueOpen = !w.queueOpen
	w.changed("the queue is open: %v", w.queueOpen)
}

// acknowledge is somebody who confirms what is held back; their clock may be ahead.
func (w *world) acknowledge() {
	if w.health == nil {
		return
	}
	policy := *w.health
	at := w.now.Add(time.Duration(w.rng.IntN(3)) * time.Second).Truncate(time.Second)
	policy.Breaker.AcknowledgedTime = new(metav1.NewTime(at))
	w.health = &policy
	w.changed("somebody acknowledges up to %s", policy.Breaker.AcknowledgedTime)
}

func (t *tenant) changePolicy() {
	t.edit(t.drawPolicies)
	t.changed("the restart policy is changed")
}

func (t *tenant) changeCheckpoint() {
	t.edit(t.drawCheckpoint)
	t.changed("the checkpoint is changed")
}

func (t *tenant) changeReplicas() {
	worker := &t.job.Spec.Tasks[1]
	if worker.MinReplicas == nil {
		return
	}
	n := *worker.MinReplicas + int32(t.rng.IntN(int(*worker.MaxReplicas-*worker.MinReplicas+1)))
	if n == worker.Replicas {
		return
	}
	t.edit(func(job *v1alpha1.TrainingJob) { job.Spec.Tasks[1].Replicas = n })
	t.changed("replicas is %d", n)
}

func (t *tenant) changeSpares() {
	i := t.rng.IntN(2)
	if t.job.Spec.Tasks[i].Spares == nil || t.takesOver() {
		return
	}
	n := int32(t.rng.IntN(3))
	t.edit(func(job *v1alpha1.TrainingJob) { job.Spec.Tasks[i].Spares = &n })
	t.changed("spares of task %d is %d", i, n)
}

func (t *tenant) toggleDryRun() {
	on := t.job.Annotations[v1alpha1.DryRun] == ""
	t.edit(func(job *v1alpha1.TrainingJob) {
		job.Annotations = nil
		if on {
			job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
		}
	})
	t.changed("dry run is %v", on)
}

func (t *tenant) toggleSuspend() {
	t.edit(func(job *v1alpha1.TrainingJob) { job.Spec.Suspend = !job.Spec.Suspend })
	t.changed("suspend is %v", t.job.Spec.Suspend)
}
