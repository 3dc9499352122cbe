// Whether ranks launch collective operations, and for which of them the others wait, if none does.

package ras

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Period is the time between two polls, and polls how many have to show the same until collectives stand still.
const (
	Period = 10 * time.Second
	polls  = 3
)

// mostMembers is how many members of communicators are compared. Of more nothing is said.
const mostMembers = 1 << 17

// mostBehind is how many addresses are named: where there are more, no rank is the exception.
const mostBehind = 16

// paired are the operations that all ranks of a communicator launch alike. Others, as the sends of a pipeline, differ between ranks that wait for none.
var paired = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}

// Collectives are those of the communicators that processes are in.
type Collectives struct {
	// Still reports whether none was launched between the last three polls.
	Still bool
	// Behind are the addresses of the ranks that the others wait for in a communicator of all, and Hosts how many addresses all ranks have.
	Behind []netip.Addr
	Hosts  int
	// Report is that of Ask, of the last poll; empty where collectives do not stand still.
	Report string
}

// Watcher polls the RAS service of a program. Only a program that has stalled should have one: NCCL before 2.29.2 may crash by a query, and 2.29.7 is reported to while
// communicators are created (github.com/NVIDIA/nccl, issues 1669, 1718, 1762 and 2346).
type Watcher struct {
	environ []string
	hosts   []netip.Addr
	pids    func() map[int]bool
	limits  limits
	seed    maphash.Seed

	// counts are those of all members, by hashes of both, same is how many polls have shown them, and failed how many have failed since. Last is what they have shown.
	counts       map[uint64]uint64
	same, failed int
	last         *Collectives
}

// NewWatcher returns a watcher of a program with this environment, addresses and processes. An answer that names none of these does not count: with hostNetwork another
// job's service may answer.
func NewWatcher(environ []string, hosts []netip.Addr, pids func() map[int]bool) *Watcher {
	return &Watcher{environ: environ, hosts: hosts, pids: pids, limits: usual, seed: maphash.MakeSeed()}
}

// Poll asks the service, and returns what it says of collectives since the earlier polls; nil for nothing, as of a version without JSON, which is not asked for more.
// Counts only grow, so that a poll that fails changes nothing before the third.
func (w *Watcher) Poll() *Collectives {
	text, ok := w.ask()
	var next *look
	if ok {
		next, ok = w.read(text)
	}
	if !ok {
		if w.failed++; w.failed >= polls {
			w.counts, w.same, w.last = nil, 0, nil
		}
		return w.last
	}
	first := w.counts == nil
	if w.failed = 0; w.moved(next.counts) {
		w.same = 0
	}
	w.same++
	switch still := w.same >= polls; {
	case still:
		w.last = &Collectives{true, next.behind(), next.allHosts(), asJSON(text, nil)}
	case !first && w.same == 1: // it has moved
		w.last = &Collectives{Hosts: next.allHosts()}
	}
	return w.last
}

// moved takes the counts of a poll, and reports whether one differs from before. A member that does not answer has not moved.
func (w *Watcher) moved(now map[uint64]uint64) bool {
	moved := w.counts == nil
	if moved {
		w.counts = map[uint64]uint64{}
	}
	for member, counts := range now {
		if was, known := w.counts[member]; !known || was != counts {
			moved = true
		}
		w.counts[member] = counts
	}
	if len(w.counts) > mostMembers { // of communicators that are no more
		w.counts = now
	}
	return moved
}

// ask is not ok without a whole answer in JSON.
func (w *Watcher) ask() ([]byte, bool) {
	address, err := addressOf(w.environ)
	if err != nil {
		return nil, false
	}
	a, err := ask(address, w.limits, true)
	return a.text, err == nil && a.json && a.cut == nil
}

// read is not ok for an answer that is not whole, that has too much, or that is about other processes.
func (w *Watcher) read(text []byte) (*look, bool) {
	l := &look{Watcher: w, own: w.pids(), counts: map[uint64]uint64{}, all: map[member]bool{}}
	_, err := parse(text, l.take)
	return l, err == nil && l.isOwn && l.members <= mostMembers
}

// member is a process that is in communicators.
type member struct {
	host netip.Addr
	pid  int
}

// look is one poll.
type look struct {
	*Watcher
	own     map[int]bool
	isOwn   bool
	members int
	counts  map[uint64]uint64
	all     map[member]bool
	// largest is the size of the largest communicator. Only communicators of that size are compared: in a smaller one a rank may be behind because it waits elsewhere.
	// late are the members that have launched fewer operations than another one, or that do not answer. waits are those that have launched more than another one, or whose
	// communicator has a member that does not answer.
	largest     int
	late, waits map[member]bool
}

func (l *look) take(c communicator) {
	if l.members += len(c.Ranks) + len(c.Missing); l.members > mostMembers {
		return
	}
	if n := len(c.Ranks) + len(c.Missing); n > l.largest {
		l.largest, l.late, l.waits = n, map[member]bool{}, map[member]bool{}
	}
	for _, r := range c.Ranks {
		m := memberOf(r)
		l.all[m] = true
		l.isOwn = l.isOwn || (l.own[m.pid] && slices.Contains(l.hosts, m.host))
		l.note(c, r)
	}
	for _, r := range c.Missing {
		l.all[memberOf(r)] = true
	}
	if len(c.Ranks)+len(c.Missing) < l.largest {
		return
	}
	for _, r := range c.Missing {
		if r.Status["unresponsive"] == true || r.Status["considered_dead"] == true {
			l.late[memberOf(r)] = true
			for _, other := range c.Ranks {
				l.waits[memberOf(other)] = true
			}
		}
	}
	for _, operation := range paired {
		l.compare(c.Ranks, operation)
	}
}

// compare finds the ranks of a communicator that others wait for in an operation, and those that wait.
func (l *look) compare(ranks []rank, operation string) {
	if len(ranks) == 0 {
		return
	}
	counts := make([]int64, len(ranks))
	for i, r := range ranks {
		counts[i] = launched(r, operation)
	}
	lowest, highest := slices.Min(counts), slices.Max(counts)
	for i, r := range ranks {
		m := memberOf(r)
		l.late[m] = l.late[m] || counts[i] < highest
		l.waits[m] = l.waits[m] || counts[i] > lowest
	}
}

// note notes how many operations a member of a communicator has launched.
func (l *look) note(c communicator, r rank) {
	var of maphash.Hash
	of.SetSeed(l.seed)
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		of.WriteString(name)
		maphash.WriteComparable(&of, launched(r, name))
	}
	key := maphash.Comparable(l.seed, struct {
		communicator string
		rank         int
	}{c.Hash, r.Rank})
	l.counts[key] += of.Sum64() // two communicators may have one hash
}

func launched(r rank, operation string) int64 {
	n, _, _ := number(operation, r.Counts[operation])
	return n
}

// memberOf has no host where RAS names no address.
func memberOf(r rank) member {
	host, _ := netip.ParseAddr(r.Host)
	return member{host.Unmap().WithZone(""), r.PID}
}

// allHosts is how many addresses the ranks have.
func (l *look) allHosts() int {
	hosts := map[netip.Addr]bool{}
	for m := range l.all {
		hosts[m.host] = true
	}
	return len(hosts)
}

// behind returns the addresses of the members that are late and wait for no other one, in order. It returns none where there are more than mostBehind, and where no
// communicator has all ranks.
func (l *look) behind() []netip.Addr {
	hosts := map[netip.Addr]bool{}
	for m, late := range l.late {
		if late && !l.waits[m] && m.host.IsValid() {
			hosts[m.host] = true
		}
	}
	if l.largest < len(l.all) || len(hosts) > mostBehind {
		return nil
	}
	return slices.SortedFunc(maps.Keys(hosts), netip.Addr.Compare)
}
