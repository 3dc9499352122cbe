// What the manager decides in a history: two engines that decide alike leave the same.

package simulation

import (
	"hash"
	"hash/fnv"

	"github.com/lockstep-dev/lockstep/policies"
)

// decisions are those of a history, in the order of the manager's passes.
type decisions struct {
	// digest is of all of them; nil where they are not kept.
	digest hash.Hash64
	passes int
	// whole has each as JSON; nil where only the digest is kept.
	whole []string
}

// decided is what a pass has decided.
type decided struct {
	Decision policies.Decision
	Plan     policies.Plan
}

func (d *decisions) note(decision *policies.Decision, plan *policies.Plan) {
	if d.digest == nil {
		return
	}
	told := asJSON(decided{*decision, *plan})
	_, _ = d.digest.Write([]byte(told))
	d.passes++
	if d.whole != nil {
		d.whole = append(d.whole, told)
	}
}

// keepDecisions begins to keep what the manager decides, as a whole or as a digest.
func (w *world) keepDecisions() {
	w.decided.digest = fnv.New64a()
	if w.verbose {
		w.decided.whole = []string{}
	}
}
