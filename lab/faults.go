package lab

import "time"

// strike has a failure hit its nodes. One that is away already is spared.
func (w *world) strike(f Failure) {
	if f.Cause.WhileTraining && !w.program.training {
		return
	}
	if f.Costs != nil {
		w.Costs = f.Costs
	}
	if f.NoRoom > 0 {
		w.crowd(f.NoRoom)
	}
	var hit []*node
	if f.Nodes == nil {
		f.Nodes = []string{w.lived[f.Rank]}
	}
	for _, name := range f.Nodes {
		if n := w.nodes[name]; n != nil && !n.lost && !n.broken {
			hit = append(hit, n)
		}
	}
	w.tally.strike(w, f.Cause.Name, hit)
	for _, n := range hit {
		w.apply(f.Cause, n)
	}
}

func (w *world) apply(c Cause, n *node) {
	switch c.Effect {
	case ProcessExit:
		w.exitOneOn(n.name)
	case PodFailure:
		if p := w.rankOn(n.name); p != nil {
			w.endContainer(p, false)
		}
	case PodLoss:
		if p := w.rankOn(n.name); p != nil {
			w.delete(p, false)
			w.changed()
		}
	case DeviceFailure:
		n.broken = true
		w.exitOneOn(n.name)
		w.report(n, func() bool { return n.broken })
		w.after(c.Repair, func() { w.repair(n) })
	case Degradation:
		if n.degraded {
			return
		}
		n.degraded, n.slowdown = true, c.Slowdown
		w.degraded++
		w.report(n, func() bool { return n.degraded })
		w.after(c.Repair, func() { w.heal(n) })
	case NodeLoss:
		n.lost = true
		w.cut(n)
		w.after(w.Costs.NodeNotReady, func() { w.silence(n) })
		w.after(max(c.Repair, w.Costs.NodeNotReady), func() { w.repair(n) })
	case NodeDeletion:
		n.lost, n.gone = true, true
		w.cut(n)
		w.touched(n)
		w.after(c.Repair, func() { w.repair(n) })
	}
}

// crowd has other jobs take the nodes on which the job has no pod, for some time.
func (w *world) crowd(d time.Duration) {
	used := w.used()
	for _, n := range w.nodes {
		if used[n.name] == 0 {
			w.take(n, 1)
			w.after(d, func() { w.take(n, -1) })
		}
	}
}

func (w *world) take(n *node, jobs int) {
	n.taken += jobs
	if !n.gone {
		w.touched(n)
	}
	w.placeSoon()
}

// cut ends what the others hear of the processes of a node.
func (w *world) cut(n *node) {
	joined := false
	for _, p := range w.podsOn(n.name) {
		joined = joined || p.process.joined
		p.machine = nil
		w.setRunning(p, false)
	}
	if joined {
		w.program.breakUp(w)
	}
}

// report has the health agent report a node, if something is still wrong with it then.
func (w *world) report(n *node, wrong func() bool) {
	w.after(w.Costs.HealthReport, func() {
		if wrong() {
			n.reported = true
			w.touched(n)
		}
	})
}

func (w *world) exitOneOn(name string) {
	if p := w.rankOn(name); p != nil {
		w.exit(p)
	}
}

// rankOn is a pod of a rank whose process runs on a node; nil for none.
func (w *world) rankOn(name string) *pod {
	for _, p := range w.pods {
		if p.Node == name && !p.Spare && p.process.running {
			return p
		}
	}
	return nil
}

// silence has the control plane notice that a node does not answer.
func (w *world) silence(n *node) {
	if !n.lost {
		return
	}
	n.silent, n.silentSince = true, w.now
	for _, p := range w.podsOn(n.name) {
		p.Ready = false
	}
	w.touched(n)
}

// heal ends a degradation.
func (w *world) heal(n *node) {
	n.degraded, n.slowdown = false, 0
	w.degraded--
	n.reported = n.reported && n.broken
	w.touched(n)
	w.placeSoon()
}

// repair brings a node back. What was on it has ended.
func (w *world) repair(n *node) {
	n.lost, n.gone, n.silent, n.silentSince, n.broken, n.reported = false, false, false, time.Time{}, false, n.degraded
	for _, p := range w.podsOn(n.name) {
		switch {
		case p.Deleting:
			w.remove(p)
		case !p.process.running && !p.Finished():
			w.after(w.Costs.Start, func() { w.start(p) })
		}
	}
	w.touched(n)
	w.placeSoon()
}

func (w *world) podsOn(name string) []*pod {
	var out []*pod
	for _, p := range w.pods {
		if p.Node == name {
			out = append(out, p)
		}
	}
	return out
}
