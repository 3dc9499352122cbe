package simulation

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Invariant names a rule that every history has to keep. README.md says what each means.
type Invariant string

// The invariants. The numbered ones are those of the design, the others are of the simulation.
const (
	Scope    Invariant = "1"
	Home     Invariant = "2"
	Once     Invariant = "3"
	Cancel   Invariant = "4"
	Budget   Invariant = "5"
	Evidence Invariant = "6"
	Breaker  Invariant = "7"
	Terminal Invariant = "8"
	OneLife  Invariant = "9"
	Quiet    Invariant = "10"
	Holds    Invariant = "11"
	Fit      Invariant = "12"

	Barrier   Invariant = "16"
	OneEpoch  Invariant = "17"
	WholeRun  Invariant = "18"
	Survivors Invariant = "19"

	Liveness   Invariant = "L"
	Timing     Invariant = "T"
	Checkpoint Invariant = "C"
	DryRun     Invariant = "D"
	Status     Invariant = "S"
	Lost       Invariant = "A"
)

// violation ends a history.
type violation string

// require checks an invariant.
func (w *world) require(i Invariant, ok bool, format string, args ...any) {
	if !ok {
		w.violate(i, fmt.Sprintf(format, args...))
	}
}

// violate ends the history.
func (w *world) violate(i Invariant, message string) {
	panic(violation(fmt.Sprintf("invariant %s: %s", i, message)))
}

// ledger is what the checks remember of the history of a job.
type ledger struct {
	last      int32 // the highest incident
	fired     map[string]time.Time
	charges   []charge
	uncharged map[int32]bool // incidents that restarted something and were not charged
	owed      []owed
	moves     []healthMove
	posts     []gang.AnswerKey // that any process has sent
	saved     map[gang.AnswerKey]bool
	requests  map[int32]string // the ID of the last request for a checkpoint, by incident
	answered  map[string]bool  // the IDs of restart requests
	watch     stopwatch
	overdue   map[string]time.Time // since when pods are seen that should have been replaced, by UID and reason
}

func newLedger() ledger {
	return ledger{
		fired: map[string]time.Time{}, uncharged: map[int32]bool{}, saved: map[gang.AnswerKey]bool{}, requests: map[int32]string{},
		answered: map[string]bool{},
	}
}

// charge is a charge to a budget.
type charge struct {
	budgetOf string
	incident int32
	at       time.Time
	// past is whether it lay outside the window when another charge was made: a window that grows later does not bring it back.
	past bool
}

// owed is a node that a deleted pod is to find free when its rank comes back.
type owed struct {
	node         string
	rank         rank
	since, until time.Time
}

// healthMove is a move for health.
type healthMove struct {
	at   time.Time
	pods int
}
