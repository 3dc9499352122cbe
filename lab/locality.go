package lab

import "slices"

// Locality is where a rank that was replaced came back.
type Locality int

// The localities, the nearest first.
const (
	OwnNode Locality = iota
	// LowestHyperNode is another node of the lowest HyperNode around its former node.
	LowestHyperNode
	// Home is another node of the job's home.
	Home
	Elsewhere
)

// Localities is the number of localities.
const Localities = int(Elsewhere) + 1

// noteLocality counts where a pod of a rank got its node.
func (w *world) noteLocality(p *pod) {
	if p.Spare {
		return
	}
	former := w.lived[p.Rank()]
	w.lived[p.Rank()] = p.Node
	if former != "" {
		w.tally.places[w.locality(former, p.Node)]++
	}
}

func (w *world) locality(former, now string) Locality {
	if former == now {
		return OwnNode
	}
	if slices.Contains(w.leaves[former], now) {
		return LowestHyperNode
	}
	if p := w.job.Status.Placement; p != nil {
		if home, ok := w.topology.Find(p.HyperNode); ok && home.Holds([]string{former, now}) {
			return Home
		}
	}
	return Elsewhere
}
