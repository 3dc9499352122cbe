package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// world is the simulated cluster as its API server has it, with the processes that run on it.
type world struct {
	rng *rand.Rand
	// drains is of cordons and what is done about them.
	drains *rand.Rand
	now    time.Time
	kinds  []kind
	// log tells the history line by line; it is kept only where verbose is set.
	verbose bool
	log     []string
	decided decisions
	// writes counts the changes to the world: it settles once the count stands still.
	writes int
	uids   int

	nodes    map[string]*node
	names    []string            // of the nodes, sorted
	members  map[string][]string // of the HyperNodes, nodes that do not exist now among them
	topology *topology.Topology  // of the nodes that exist
	health   *v1alpha1.HealthPolicySpec

	rackSize  int  // nodes of a rack at the start
	queueOpen bool // the queue admits gangs
	demand    bool // other queues have demand
	direct    bool // pods that return to held nodes are bound without the scheduler
	share     int  // GPUs that the queue gets while they have; 0 for no limit
	tenants   []*tenant
	mutual    mutual
	usage     usage
	// supervision draws which jobs have supervisors, and what becomes of these; nil where none has.
	supervision *rand.Rand
	// takeovers draws which of these have spares that take over.
	takeovers *rand.Rand
	forgets   *rand.Rand // draws which Jobs Volcano forgets; nil where it forgets none
	spreads   *rand.Rand // draws failures that spread; nil where none do
	behind    *rand.Rand // draws when the scheduler is behind; nil where it never is
	ranks     int        // of a large gang; 0 for a small one
	perPod    int        // GPUs that each pod of a large gang requests
	validates bool       // the API server's validation is asked about each status
	calm      bool       // the trouble is over

	census census
	broken string // the invariant that the history broke; empty for none
}

// kind is a property that some worlds have and others do not.
type kind string

// The kinds of worlds.
const (
	collective  kind = "collective"   // the processes of a gang need each other, and abort together
	sharedNodes kind = "shared nodes" // two jobs whose pods take half a node each
	lateNodes   kind = "late nodes"   // nodes join HyperNodes late, and some that broke never return
	queueShare  kind = "queue share"  // the queue's share is too small while other queues have demand
	refusals    kind = "refusals"     // binds are lost, or refused by the kubelet
	startFaults kind = "start faults" // pods do not start on a node or anywhere, or never become ready
	spreading   kind = "spreading"    // failures reach one rank, or five nodes, after the other; programs fail at each start
	largeGangs  kind = "large gangs"  // a gang of 33 ranks or more
)

// kinds are those that are drawn for each world; the others are drawn apart.
var kinds = []kind{collective, sharedNodes, lateNodes, queueShare, refusals, startFaults}

var start = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// newWorld makes, for each seed another, three racks of two leaves, and a job that fits in one rack.
func newWorld(seed uint64, verbose bool) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 0)), direct: seed%4 != 0, now: start, verbose: verbose, queueOpen: true,
		nodes: map[string]*node{}, members: map[string][]string{}, census: census{},
	}
	w.supervision, w.takeovers = supervisionOf(seed), takeoversOf(seed)
	w.kinds = w.drawKinds()
	w.drawSize(seed)
	w.drawBehind(seed)
	w.validates = w.ranks > 0 || seed%validatedShare == 0
	w.makeNodes()
	w.health = w.drawHealthPolicy()
	w.tenants = append(w.tenants, w.newTenant("llm"))
	if w.is(sharedNodes) {
		w.tenants = append(w.tenants, w.newTenant("moe"))
	}
	w.drawShare()
	w.drains = drainsOf(seed)
	for _, t := range w.tenants {
		t.drawMaintenance(w.drains)
	}
	return w
}

// drawKinds draws a plain world, or one of some kinds.
func (w *world) drawKinds() []kind {
	if w.one(3) {
		return nil
	}
	var drawn []kind
	for _, k := range kinds {
		if w.one(2) {
			drawn = append(drawn, k)
			w.happened("world has " + string(k))
		}
	}
	return drawn
}

func (w *world) is(k kind) bool { return slices.Contains(w.kinds, k) }

// one reports true once in n draws.
func (w *world) one(n int) bool { return w.rng.IntN(n) == 0 }

// lazy reports whether a component skips its turn, as any may while there is trouble.
func (w *world) lazy() bool { return !w.calm && w.one(2) }

// someone draws a job.
func (w *world) someone() *tenant { return w.tenants[w.rng.IntN(len(w.tenants))] }

func (w *world) say(format string, args ...any) {
	if w.verbose {
		w.log = append(w.log, fmt.Sprintf("%8.1fs ", w.now.Sub(start).Seconds())+fmt.Sprintf(format, args...))
	}
}

// changed notes a change to the world.
func (w *world) changed(format string, args ...any) {
	w.writes++
	w.say(format, args...)
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.arrive(w.now.Add(d))
	w.now = w.now.Add(d)
	w.say("%s pass", d)
}

// pick draws one of those that satisfy a condition.
func pick[T any](w *world, all []T, ok func(T) bool) (T, bool) {
	found := slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !ok(x) })
	if len(found) == 0 {
		var none T
		return none, false
	}
	return found[w.rng.IntN(len(found))], true
}

// allPods are the pods of all jobs.
func (w *world) allPods() []*pod {
	if len(w.tenants) == 1 {
		return w.tenants[0].pods
	}
	var out []*pod
	for _, t := range w.tenants {
		out = append(out, t.pods...)
	}
	return out
}
