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

// The respects in which invariants are known to fail.
const (
	victim      = "victim"
	deadlock    = "deadlock"
	spareInVain = "spare in vain"
	namedTwice  = "pod named twice"
)

var knownFailures = []known{
	{
		invariant: Scope, respect: victim, kind: collective,
		why: "A step for pods replaces every rank that is not ready. Ranks whose collective aborts because a peer is lost are not ready " +
			"either, although their pods and nodes are well and their processes only wait for the peer.",
	},
	{
		invariant: Holds, respect: deadlock, kind: sharedNodes,
		why: "To a job, another job's hold is a taint that its pods do not tolerate, so that two jobs that lost pods on the same nodes keep each other out.",
	},
	{
		invariant: Scope, respect: spareInVain, kind: sharedNodes,
		why: "A rank that was given the room of one spare, and still waits because its gang is not complete, is given that of another spare of the same node.",
	},
	{
		invariant: Status, respect: namedTwice,
		why: "A rank without a node that an incident names which the breaker holds back joins the incident about its waiting again in each decision.",
	},
}

// knownFailure is the index of the entry that a failure falls under; negative for none.
func (w *world) knownFailure(i Invariant, respect string) int {
	for n, k := range knownFailures {
		if k.invariant == i && (k.respect == "" || k.respect == respect) && (k.kind == "" || w.is(k.kind)) {
			return n
		}
	}
	return -1
}
