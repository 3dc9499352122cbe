package simulation

// known is a failure of the engine that is known and not mended yet. A history that shows only known failures
// does not fail. An entry that no history of a full run shows any more does: it has to be deleted.
type known struct {
	invariant Invariant
	respect   string // what of the invariant; empty for all of it
	kind      kind   // of the worlds that show it; empty for all
	why       string
	seed      uint64 // of a history that shows it
}

var knownFailures []known

// knownFailure is the index of the entry that a failure falls under; negative for none.
func (w *world) knownFailure(i Invariant, respect string) int {
	for n, k := range knownFailures {
		if k.invariant == i && (k.respect == "" || k.respect == respect) && (k.kind == "" || w.is(k.kind)) {
			return n
		}
	}
	return -1
}
