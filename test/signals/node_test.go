package signals

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/health/agent"
	"github.com/lockstep-dev/lockstep/health/dcgm"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// every is the agent's interval by default.
const every = 10 * time.Second

// The devices of the node. DCGM numbers them; the reports name GPUs by UUID.
const (
	uuid      = "GPU-a"
	otherUUID = "GPU-b"
	adapter   = 4
	port      = "mlx5_0/ports/1"
)

// node is a node with two GPUs, two NVLinks each, an NVSwitch and two adapters, on which nothing
// is wrong: a simulated host engine and a tree of files for its ports, with all that reads them.
type node struct {
	*testing.T
	table  *health.Table
	engine *dcgmsim.State
	sysfs  string
	reader *dcgm.Reader
	state  health.State

	now, booted time.Time
	boot        string
	// heal undoes what was injected.
	heal func()
}

func aNode(t *testing.T, table *health.Table) *node {
	t.Helper()
	if errLibrary != nil {
		t.Skip(errLibrary)
	}
	dir := t.TempDir()
	t.Setenv(dcgmsim.StateEnv, filepath.Join(dir, "state"))
	engine, err := dcgmsim.NewState(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, table: table, engine: engine, sysfs: filepath.Join(dir, "infiniband"), boot: "boot-1", now: time.Now()}
	n.booted = n.now.Add(-time.Hour)
	engine.Together(n.well)
	n.plug(port)
	n.plug("mlx5_1/ports/1")
	n.reader = dcgm.NewReader(dcgm.Options{
		Address: dcgm.Address{Mode: dcgm.TCP, Target: "127.0.0.1:5555"}, Library: library, Fields: table.Watched(), Interval: every,
	})
	t.Cleanup(func() { // the context of the test has ended by now
		if err := n.reader.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// well sets up the devices, and all their fields to what no row minds.
func (n *node) well() {
	for gpu, id := range []string{uuid, otherUUID} {
		n.engine.AddGPU(gpu, id, dcgmsim.StatusOK)
		n.engine.SetLink(gpu, 0, dcgmsim.LinkUp)
		n.engine.SetLink(gpu, 1, dcgmsim.LinkUp)
	}
	n.engine.AddSwitch(0)
	n.engine.AddConnectX(adapter)
	for _, r := range n.table.Rows() {
		if field := fieldOf(r); field > 0 {
			n.wellField(r.Entity, field, wellValue(r))
		}
	}
	for field, value := range map[int]int{67: 0, 203: 90, 235: 5, 236: 16, 237: 5, 238: 16, 1523: 0} {
		n.wellField(health.KindGPU, field, value)
	}
	for field, value := range map[int]int{1301: 16, 1302: 5, 1303: 16, 1304: 5, 1308: 0, 1309: 0xf0} {
		n.wellField(health.KindNIC, field, value)
	}
}

func (n *node) wellField(kind health.Kind, field, value int) {
	for _, d := range devices[kind] {
		n.engine.SetField(d.kind, d.id, field, value)
	}
}

// device is one as the simulator calls it.
type device struct {
	kind dcgmsim.Kind
	id   int
}

// devices by their kind. Faults are those of the first.
var devices = map[health.Kind][]device{
	health.KindGPU:    {{dcgmsim.GPU, 0}, {dcgmsim.GPU, 1}},
	health.KindNVLink: {{dcgmsim.Link, dcgmsim.LinkID(0, 0)}, {dcgmsim.Link, dcgmsim.LinkID(0, 1)}, {dcgmsim.Link, dcgmsim.LinkID(1, 0)}, {dcgmsim.Link, dcgmsim.LinkID(1, 1)}},
	health.KindSwitch: {{dcgmsim.Switch, 0}},
	health.KindNIC:    {{dcgmsim.ConnectX, adapter}},
	health.KindNode:   {{dcgmsim.Node, 0}},
}

// portFiles are the files of a port that is up.
var portFiles = map[string]string{
	"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "InfiniBand",
	"counters/link_downed": "1", "counters/symbol_error": "7", "counters/link_error_recovery": "0", "counters/port_rcv_errors": "0",
	"counters/port_xmit_discards": "0", "counters/local_link_integrity_errors": "0", "counters/excessive_buffer_overrun_errors": "0",
}

func (n *node) plug(port string) {
	for file, text := range portFiles {
		n.write(filepath.Join(port, file), text)
	}
}

func (n *node) unplug(port string) {
	device, _, _ := strings.Cut(port, "/")
	if err := os.RemoveAll(filepath.Join(n.sysfs, device)); err != nil {
		n.Fatal(err)
	}
}

func (n *node) write(file, text string) {
	path := filepath.Join(n.sysfs, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		n.Fatal(err)
	}
}

// poll is what the agent does every ten seconds.
func (n *node) poll() {
	n.Helper()
	n.now = n.now.Add(every)
	sample := n.reader.Sample(n.Context(), n.now)
	if !sample.Reachable {
		if strings.Contains(sample.Message, "built without DCGM") {
			n.Skip(sample.Message)
		}
		n.Fatal(sample.Message)
	}
	if err := health.ReadPorts(os.DirFS(n.sysfs), sample.Values); err != nil {
		n.Fatal(err)
	}
	sample.BootID, sample.BootTime = n.boot, n.booted
	n.state = health.Evaluate(n.state, sample, n.table)
}

func (n *node) polls(times int) {
	n.Helper()
	for range times {
		n.poll()
	}
}

func (n *node) reboot() {
	n.boot, n.booted = n.boot+"+", n.now
}

// reports of the node, with the pods that they concern. The first GPU is held by a pod of the job,
// the second by one of another.
func (n *node) reports() []v1alpha1.HealthReport {
	holders := map[string][]string{uuid: {concerned}, otherUUID: {another}}
	return agent.Attribute(health.Reports(n.state), nil, holders, true)
}
