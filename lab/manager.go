package lab

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// changed has the manager look once it has had the time to hear of what has changed.
func (w *world) changed() { w.lookBy(w.now.Add(w.Costs.React)) }

// lookBy has the manager look at a time, unless it does so before.
func (w *world) lookBy(at time.Time) {
	if !w.lookAt.IsZero() && !w.lookAt.After(at) {
		return
	}
	w.lookAt = at
	w.lookSeq++
	seq := w.lookSeq
	w.queue.add(at, func() {
		if seq == w.lookSeq {
			w.lookAt = time.Time{}
			w.look()
		}
	})
}

// look is one pass of the manager.
func (w *world) look() {
	w.looks++
	o := w.observe()
	d := policies.Decide(o)
	job := *w.job
	job.Status = d.Status
	w.noteStatus(&w.job.Status, &d.Status)
	w.job = &job
	plan := policies.PlanFor(o, &d.Status)
	w.act(&plan)
	if !plan.Empty() {
		w.changed()
	}
	if d.Next.After(w.now) {
		w.lookBy(d.Next)
	}
}

// touched is changed, for a change of a node.
func (w *world) touched(n *node) {
	w.seen.note(n)
	w.changed()
}

// seen are the nodes and pods of an observation. They are kept from one to the next: most of them are as they were.
type seen struct {
	nodes map[string]gang.Node
	pods  []gang.Pod
}

func (s *seen) note(n *node) {
	if n.gone {
		delete(s.nodes, n.name)
		return
	}
	s.nodes[n.name] = gang.Node{
		Name: n.name, Hostname: n.name, Ready: !n.silent, SilentSince: n.silentSince, Ill: n.broken && n.reported, InUse: n.taken > 0,
		Hold: n.hold, HeldSince: n.heldSince, Allocatable: n.allocatable,
	}
}

// observe is what the manager sees.
func (w *world) observe() *gang.Observation {
	w.seen.pods = w.seen.pods[:0]
	for _, p := range w.pods {
		w.seen.pods = append(w.seen.pods, p.Pod)
		seen := &w.seen.pods[len(w.seen.pods)-1]
		if n := w.nodes[p.Node]; n != nil && n.reported && !p.Finished() {
			seen.Signals = n.signals()
		}
		p.showTo(seen)
	}
	return &gang.Observation{
		Now: w.now, Job: w.job, VolcanoJobs: w.volcano, PodGroup: w.podGroup, Topology: w.topology, BindsDirectly: true,
		HealthPolicy: &v1alpha1.HealthPolicySpec{}, Answers: w.answers, Nodes: w.seen.nodes, Pods: w.seen.pods,
		Requests: w.requests, ListensSince: Begin,
	}
}

// cpus are the resources of the lab, where a pod requests one CPU, and a node has one for each pod that fits there.
func cpus(n int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// signals are what the health agent reports of a node.
func (n *node) signals() []gang.Signal {
	if n.broken {
		return []gang.Signal{{Name: "DeviceFailure", Failed: true}}
	}
	return []gang.Signal{{Name: "Degradation"}}
}

// act does what a plan says.
func (w *world) act(plan *policies.Plan) {
	for _, h := range plan.Hold {
		n := w.nodes[h.Node]
		if n.hold == "" {
			n.heldSince = w.now
		}
		n.hold = policies.HoldValue(h)
		w.seen.note(n)
	}
	w.give(plan.Order)
	for _, d := range plan.DeletePods {
		if p := w.podOf(d.Name, d.UID); p != nil {
			w.delete(p, d.Force)
		}
	}
	w.actOnVolcano(plan)
	for _, l := range plan.Lift {
		if p := w.podOf(l.Pod, l.UID); p != nil {
			w.lift(p, l)
		}
	}
	for _, t := range plan.Tolerate {
		if p := w.podOf(t.Pod, t.UID); p != nil {
			p.Tolerates = append(p.Tolerates, t.Keys...)
		}
	}
	w.bindReturning(plan.Bind.Pods)
	for _, name := range plan.Release {
		n := w.nodes[name]
		n.hold, n.heldSince = "", time.Time{}
		w.seen.note(n)
	}
	for _, ask := range plan.Ask {
		w.ask(ask)
	}
}

// bindReturning binds pods to nodes that are kept for them, or leaves them to the scheduler where there is no room any more.
func (w *world) bindReturning(bindings []policies.Binding) {
	if len(bindings) == 0 {
		return
	}
	used := w.used()
	for _, b := range bindings {
		p := w.podOf(b.Pod, b.UID)
		if p == nil {
			continue
		}
		if !w.nodes[b.Node].usable() || w.free(used, b.Node) <= 0 {
			p.BindingTried = true
			continue
		}
		used[b.Node]++
		w.bind(p, b.Node)
	}
}

func (w *world) lift(p *pod, l policies.Lift) {
	p.Gated, p.PlacedTime, p.target, p.Pins, p.Tolerates = false, w.now, l.Target, l.Target.In, l.Tolerate
	if n, err := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationIncarnation], 10, 32); err == nil {
		p.Incarnation = int32(n)
	}
	p.kept = epochOf(l)
	w.placeSoon()
}

// ask has the program save its state, which every pod that runs does.
func (w *world) ask(a policies.Ask) {
	for _, p := range a.Pods {
		w.answers[gang.AnswerKey{Request: a.ID, Pod: p.UID}] = gang.Answer{}
	}
	w.after(w.Costs.CheckpointWrite, func() {
		for _, p := range a.Pods {
			if running := w.podOf(p.Name, p.UID); running != nil && running.Phase == corev1.PodRunning && running.process.running {
				w.answers[gang.AnswerKey{Request: a.ID, Pod: p.UID}] = gang.Answer{Saved: true}
			}
		}
		w.program.saved(w.now)
		w.changed()
	})
}
