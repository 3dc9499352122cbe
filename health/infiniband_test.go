package health

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// ports is a /sys/class/infiniband with one port of each kind.
func ports() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"mlx5_0/ports/1/state":                                    file("4: ACTIVE\n"),
		"mlx5_0/ports/1/phys_state":                               file("5: LinkUp\n"),
		"mlx5_0/ports/1/link_layer":                               file("InfiniBand\n"),
		"mlx5_0/ports/1/counters/link_downed":                     file("3\n"),
		"mlx5_0/ports/1/counters/symbol_error":                    file("65535\n"),
		"mlx5_0/ports/1/counters/link_error_recovery":             file("0\n"),
		"mlx5_0/ports/1/counters/port_rcv_errors":                 file("12\n"),
		"mlx5_0/ports/1/counters/port_xmit_discards":              file("7\n"),
		"mlx5_0/ports/1/counters/local_link_integrity_errors":     file("N/A (no PMA)\n"),
		"mlx5_0/ports/1/counters/excessive_buffer_overrun_errors": file("1\n"),
		"rdmap0s6/ports/1/state":                                  file("1: DOWN\n"),
		"rdmap0s6/ports/1/phys_state":                             file("3: Disabled\n"),
		"rdmap0s6/ports/1/link_layer":                             file("Ethernet\n"),
		"rdmap0s7/node_type":                                      file("1: CA\n"),
	}
}

func TestReadPorts(t *testing.T) {
	got := map[Entity]map[Field]Value{}
	if err := ReadPorts(ports(), got); err != nil {
		t.Fatal(err)
	}
	blank := Value{Blank: true}
	want := map[Entity]map[Field]Value{
		{KindNIC, "mlx5_0/1"}: {
			FieldPortState: {Int: 4}, FieldPortPhysState: {Int: 5}, FieldPortLinkLayer: {Int: 1},
			FieldPortLinkDowned: {Int: 3}, FieldPortSymbolErrors: {Int: 65535}, FieldPortLinkRecovery: {},
			FieldPortReceiveErrors: {Int: 12}, FieldPortTransmitDiscards: {Int: 7},
			FieldPortLocalIntegrityErrors: blank, FieldPortExcessiveBufferOverruns: {Int: 1},
		},
		{KindNIC, "rdmap0s6/1"}: {
			FieldPortState: {Int: 1}, FieldPortPhysState: {Int: 3}, FieldPortLinkLayer: {Int: 2},
			FieldPortLinkDowned: blank, FieldPortSymbolErrors: blank, FieldPortLinkRecovery: blank,
			FieldPortReceiveErrors: blank, FieldPortTransmitDiscards: blank,
			FieldPortLocalIntegrityErrors: blank, FieldPortExcessiveBufferOverruns: blank,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// In sysfs a device is a link to another directory.
func TestReadPortsThroughLinks(t *testing.T) {
	root := t.TempDir()
	port := filepath.Join(root, "devices", "mlx5_0", "ports", "1")
	class := filepath.Join(root, "class")
	err := errors.Join(os.MkdirAll(port, 0o755), os.Mkdir(class, 0o755),
		os.WriteFile(filepath.Join(port, "state"), []byte("4: ACTIVE\n"), 0o600),
		os.Symlink(filepath.Join("..", "devices", "mlx5_0"), filepath.Join(class, "mlx5_0")))
	if err != nil {
		t.Fatal(err)
	}
	got := map[Entity]map[Field]Value{}
	if err := ReadPorts(os.DirFS(class), got); err != nil || got[aPort][FieldPortState] != (Value{Int: 4}) {
		t.Errorf("ports %v, error %v", got, err)
	}
}

func TestReadPortsThatAreNotThere(t *testing.T) {
	got := map[Entity]map[Field]Value{}
	if err := ReadPorts(os.DirFS(filepath.Join(t.TempDir(), "none")), got); err != nil || len(got) > 0 {
		t.Errorf("no directory: %v, %v", got, err)
	}
	if err := ReadPorts(forbidden{}, got); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory that cannot be read: %v", err)
	}
}

type forbidden struct{}

func (forbidden) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

// A port that is read, and goes down.
func TestPortsFromSysfsToReport(t *testing.T) {
	tree := ports()
	n := newNode()
	read := func() {
		n.unplug(aPort)
		if err := ReadPorts(tree, n.Values); err != nil {
			t.Fatal(err)
		}
		n.poll()
	}
	n.state = State{}
	n.after(every)
	read()
	tree["mlx5_0/ports/1/state"] = &fstest.MapFile{Data: []byte("1: DOWN\n")}
	read()
	read()
	n.want(t, "two polls", "nic/mlx5_0/1 IBPortDown Failed")
}
