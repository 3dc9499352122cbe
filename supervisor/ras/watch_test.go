package ras

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeras"
)

// hosts are processes, each on one, 10.0.0.1 and on.
func hosts(n int) (all []fakeras.Process) {
	for i := range n {
		all = append(all, fakeras.Process{Host: fmt.Sprintf("10.0.0.%d", i+1), PID: 41})
	}
	return all
}

// watch is a watcher in the first of the hosts.
func watch(t *testing.T, m *fakeras.Mesh) *Watcher {
	t.Helper()
	return NewWatcher([]string{"NCCL_RAS_ADDR=" + m.Serve(t)}, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, func() map[int]bool { return map[int]bool{41: true} })
}

// said is what a poll says, in short.
func said(c *Collectives) string {
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%v %v", c.Still, c.Behind)
}

// third is what the third of three polls says.
func third(w *Watcher) string {
	w.Poll()
	w.Poll()
	return said(w.Poll())
}

// Collectives stand still after three polls that show the same, and one more of any rank moves them.
func TestCollectivesStandStill(t *testing.T) {
	m := fakeras.New()
	c := m.Communicator(hosts(3)...)
	w := watch(t, m)
	for i, launch := range []struct {
		ranks []int
		want  string
	}{
		{[]int{0, 1, 2}, "nothing"}, {nil, "nothing"}, {nil, "true []"}, {nil, "true []"},
		{[]int{0, 1}, "false []"}, {nil, "false []"}, {nil, "true [10.0.0.3]"},
		{[]int{2}, "false []"}, {nil, "false []"}, {nil, "true []"},
	} {
		if launch.ranks != nil {
			c.Launch("AllReduce", launch.ranks...)
		}
		c := w.Poll()
		check.Equal(t, fmt.Sprintf("poll %d", i), launch.want, said(c))
		report, _ := Ask(w.environ)
		check.Equal(t, fmt.Sprintf("report of poll %d", i), c != nil && c.Still, c != nil && c.Report == report)
	}
	m.Communicator(hosts(2)...)
	check.Equal(t, "after another communicator", "false []", said(w.Poll()))
}

// A poll that fails changes nothing, and three do.
func TestPollsThatFail(t *testing.T) {
	m := fakeras.New()
	c := m.Communicator(hosts(2)...)
	w := watch(t, m)
	fail := func() string {
		was := w.environ
		w.environ = []string{"NCCL_RAS_ADDR=127.0.0.1:1"}
		defer func() { w.environ = was }()
		return said(w.Poll())
	}
	w.Poll()
	w.Poll()
	check.Equal(t, "before anything is known", "nothing", fail())
	check.Equal(t, "after a third answer", "true []", said(w.Poll()))
	check.Equal(t, "one fails", "true []", fail())
	c.Launch("AllReduce")
	check.Equal(t, "and ranks have launched one", "false []", said(w.Poll()))
	check.Equal(t, "three fail", "false [] false [] nothing", fail()+" "+fail()+" "+fail())
	check.Equal(t, "and all begins again", "nothing", said(w.Poll()))
}

// A rank is named where the others wait for it in a communicator of all ranks.
func TestWhoIsBehind(t *testing.T) {
	const four = 4
	for name, tc := range map[string]struct {
		story func(m *fakeras.Mesh)
		want  string
	}{
		"one of a communicator": {func(m *fakeras.Mesh) { m.Communicator(hosts(four)...).Launch("AllReduce", 0, 1, 3) }, "[10.0.0.3]"},
		"none of one operation": {func(m *fakeras.Mesh) { m.Communicator(hosts(four)...).Launch("AllReduce") }, "[]"},
		"a rank that does not answer": {func(m *fakeras.Mesh) {
			p := hosts(four)
			m.Communicator(p...).Launch("AllReduce")
			m.Silence(p[2], false)
		}, "[10.0.0.3]"},
		"one that is behind, beside one that does not answer": {func(m *fakeras.Mesh) {
			p := hosts(four)
			m.Communicator(p...).Launch("AllReduce", 0, 3)
			m.Silence(p[2], true)
		}, "[10.0.0.3]"},
		"a pipeline: the last stage waits for the first, which waits for what no count shows": {func(m *fakeras.Mesh) {
			p := hosts(3)
			m.Communicator(p...).Launch("AllReduce")
			m.Communicator(p[0], p[2]).Launch("AllReduce", 1)
		}, "[]"},
		"two that wait for each other": {func(m *fakeras.Mesh) {
			p := hosts(2)
			m.Communicator(p...).Launch("AllGather", 0)
			m.Communicator(p...).Launch("AllReduce", 1)
		}, "[]"},
		"one that has left": {func(m *fakeras.Mesh) { m.Communicator(hosts(four)...).Leave(2) }, "[]"},
		"more than a few":   {func(m *fakeras.Mesh) { m.Communicator(hosts(40)...).Launch("AllReduce", 0) }, "[]"},
		"the host of a path": {func(m *fakeras.Mesh) {
			m.Communicator(hosts(1)[0], fakeras.Process{Host: "node-7", PID: 1}).Launch("AllReduce", 0)
		}, "[]"},
		"an address of IPv6": {func(m *fakeras.Mesh) {
			m.Communicator(hosts(1)[0], fakeras.Process{Host: "fd00::7%eth0", PID: 1}).Launch("AllReduce", 0)
		}, "[fd00::7]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := fakeras.New()
			tc.story(m)
			check.Equal(t, "behind", "true "+tc.want, third(watch(t, m)))
		})
	}
}

// The sends of a pipeline differ between ranks that wait for none. They move all the same.
func TestSendsArePairedWithNone(t *testing.T) {
	w := watch(t, fakeras.New())
	sent := func(first, second int) *look {
		l, ok := w.read(fmt.Appendf(nil, `{"communicators": [{"hash": "1", "size": 2, "ranks": [
			{"rank": 0, "host": "10.0.0.1", "pid": 41, "collective_counts": {"SendRecv": %d}},
			{"rank": 1, "host": "10.0.0.2", "pid": 41, "collective_counts": {"SendRecv": %d}}]}]}`, first, second))
		check.Equal(t, "is read", true, ok)
		return l
	}
	l := sent(4, 2)
	check.Equal(t, "behind", 0, len(l.behind()))
	check.Equal(t, "moved at first", true, w.moved(l.counts))
	check.Equal(t, "moved where nothing has", false, w.moved(sent(4, 2).counts))
	check.Equal(t, "moved after a send", true, w.moved(sent(4, 3).counts))
}

// Nothing is known of what does not answer in JSON, of the job of another, and of an answer that is too large.
func TestWhatIsNoWitness(t *testing.T) {
	for name, story := range map[string]func(m *fakeras.Mesh, w *Watcher){
		"a version without JSON":         func(m *fakeras.Mesh, _ *Watcher) { m.Text = "NCCL version 2.24.3\n" },
		"another pod's":                  func(_ *fakeras.Mesh, w *Watcher) { w.hosts = nil },
		"another process of the machine": func(_ *fakeras.Mesh, w *Watcher) { w.pids = func() map[int]bool { return map[int]bool{7: true} } },
		"none":                           func(_ *fakeras.Mesh, w *Watcher) { w.environ = []string{"NCCL_RAS_ENABLE=0"} },
		"a large one":                    func(_ *fakeras.Mesh, w *Watcher) { w.limits.bytes = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			m := fakeras.New()
			m.Communicator(hosts(2)...)
			w := watch(t, m)
			check.Equal(t, "before", "true []", third(w))
			asked := m.Queries()
			story(m, w)
			check.Equal(t, "with it", "nothing", third(w))
			if name == "a version without JSON" { // which may crash by that
				check.Equal(t, "queries", asked, m.Queries())
			}
		})
	}
	w := watch(t, fakeras.New())
	l, ok := w.read([]byte(`{"communicators": [{"hash": "1", "size": 2, "ranks": [{"rank": 0, "host": "10.0.0.1", "pid": 41}],
		"missing_ranks": [{"rank": 1, "host": "10.0.0.2", "pid": 41, "status": {"unresponsive": false, "considered_dead": false}}]}]}`))
	check.Equal(t, "a rank that has left one of its communicators", "true [] 2", fmt.Sprint(ok, l.behind(), l.allHosts()))
	_, ok = w.read([]byte(`{"communicators": [` + strings.Repeat(`{"ranks": [`+strings.Repeat(`{},`, 1<<14)+`{}]},`, 9) + `{}]}`))
	check.Equal(t, "too many members", false, ok)
}
