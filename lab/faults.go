package lab

import (
	"math"
	"time"
)

// nextFailure draws when the next failure comes, and of which cause. Each node of the job fails by itself, so that the times between
// failures of the whole job are exponential.
func (w *world) nextFailure() {
	rate := 0.0 // per day
	for _, c := range w.Causes {
		rate += c.PerThousandNodeDays / 1000 * float64(len(w.jobNodes()))
	}
	if rate == 0 {
		w.after(time.Hour, w.nextFailure) // the job has no node yet
		return
	}
	days := -math.Log(1-w.rng.Float64()) / rate
	w.after(time.Duration(days*24*float64(time.Hour)), func() {
		w.fail()
		w.nextFailure()
	})
}

// jobNodes are the nodes of the job's ranks, in the order of its pods.
func (w *world) jobNodes() []string {
	var nodes []string
	seen := map[string]bool{}
	for _, p := range w.pods {
		if p.Node != "" && !p.Spare && !seen[p.Node] {
			seen[p.Node] = true
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// fail lets one node of the job fail.
func (w *world) fail() {
	nodes := w.jobNodes()
	if len(nodes) == 0 {
		return
	}
	total := 0.0
	for _, c := range w.Causes {
		total += c.PerThousandNodeDays
	}
	draw := w.rng.Float64() * total
	cause := w.Causes[len(w.Causes)-1]
	for _, c := range w.Causes {
		if draw -= c.PerThousandNodeDays; draw < 0 {
			cause = c
			break
		}
	}
	w.strike(cause, nodes[w.rng.IntN(len(nodes))])
}

// strike has a cause hit a node.
func (w *world) strike(c Cause, name string) {
	n := w.nodes[name]
	if n.lost || n.broken {
		return
	}
	w.tally.strike(w, c.Name)
	switch c.Effect {
	case ProcessExit:
		w.exitOneOn(name)
	case DeviceFailure:
		n.broken = true
		w.exitOneOn(name)
		w.after(w.Costs.HealthReport, func() {
			if n.broken {
				n.reported = true
				w.changed()
			}
		})
		w.after(c.Repair, func() { w.repair(n) })
	case NodeLoss:
		n.lost = true
		for _, p := range w.podsOn(name) {
			w.setRunning(p, false)
		}
		w.program.breakUp(w)
		w.after(w.Costs.NodeNotReady, func() { w.silence(n) })
		w.after(max(c.Repair, w.Costs.NodeNotReady), func() { w.repair(n) })
	}
}

func (w *world) exitOneOn(name string) {
	for _, p := range w.pods {
		if p.Node == name && !p.Spare && p.process.running {
			w.exit(p)
			return
		}
	}
}

// silence has the control plane notice that a node does not answer.
func (w *world) silence(n *node) {
	if !n.lost {
		return
	}
	n.silent, n.silentSince = true, w.now
	for _, p := range w.pods {
		if p.Node == n.name {
			p.Ready = false
		}
	}
	w.changed()
}

// repair brings a node back. What was on it has ended.
func (w *world) repair(n *node) {
	n.lost, n.silent, n.silentSince, n.broken, n.reported = false, false, time.Time{}, false, false
	for _, p := range w.podsOn(n.name) {
		switch {
		case p.Deleting:
			w.remove(p)
		case !p.process.running && !p.Finished():
			w.after(w.Costs.Start, func() { w.start(p) })
		}
	}
	w.changed()
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
