//go:build linux

package machines

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// A machine that is powered on or off leaves the address of the router as it is: the other machines have it in their tables.
func TestTheRouterKeepsItsAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks")
	}
	runtime.LockOSThread() // the kernel kills the router when the thread that began it ends
	router := exec.Command("sleep", "infinity")
	router.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	must(t, router.Start())
	t.Cleanup(func() {
		_ = router.Process.Kill()
		_ = router.Wait()
	})
	n := NewNetwork(freeNetwork(t), router.Process.Pid)
	must(t, n.Connect())
	must(t, n.within(n.router, func(h *netlink.Handle) error {
		before, err := h.LinkByName(bridgeName)
		must(t, err)
		lowest := net.HardwareAddr{0x02, 0, 0, 0, 0, 1}
		must(t, h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "m1", HardwareAddr: lowest, MasterIndex: before.Attrs().Index}, PeerName: "m1-peer"}))
		after, err := h.LinkByName(bridgeName)
		must(t, err)
		if before.Attrs().HardwareAddr.String() != after.Attrs().HardwareAddr.String() {
			t.Errorf("the router's address was %s, and is %s", before.Attrs().HardwareAddr, after.Attrs().HardwareAddr)
		}
		return nil
	}))
}

func freeNetwork(t *testing.T) byte {
	t.Helper()
	for second := byte(254); second > 0; second-- {
		if free, err := IsFree(second); err == nil && free {
			return second
		}
	}
	t.Fatal("no network is free")
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
