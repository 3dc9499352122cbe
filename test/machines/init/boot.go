//go:build linux

// The boot of a machine, from its cgroups to its services.

package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/machines"
	"github.com/lockstep-dev/lockstep/test/machines/boot"
)

// joinCgroups moves this process into the machine's cgroups and starts it again in a cgroup namespace,
// whose root they are from then on. The fresh program has all its threads in that namespace.
func joinCgroups(config string) error {
	c, err := boot.Read(config)
	if err != nil {
		return err
	}
	for _, cgroup := range c.Cgroups {
		if err := joinCgroup(cgroup); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unsharing the cgroup namespace: %w", err)
	}
	if machines.Unified() {
		// A cgroup of v2 that gives controllers to those below it has no processes of its own: the kubelet makes those of pods beside this one.
		services := filepath.Join(c.Cgroups[0], "services")
		if err := os.MkdirAll(services, 0o755); err != nil {
			return fmt.Errorf("making a cgroup: %w", err)
		}
		if err := joinCgroup(services); err != nil {
			return err
		}
	}
	return unix.Exec("/proc/self/exe", []string{"init", "enter", config}, os.Environ())
}

func joinCgroup(folder string) error {
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("joining the cgroup %s: %w", folder, err)
	}
	return nil
}

// enter makes the machine out of the namespaces and keeps its services running.
func enter(config string) error {
	c, err := boot.Read(config)
	if err != nil {
		return err
	}
	if err := makeRoot(c); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("setting the hostname: %w", err)
	}
	if err := setKernel(); err != nil {
		return err
	}
	awaitUplink()
	return supervise(c.Services)
}

// setKernel sets what a node's kernel has to do for its pods.
func setKernel() error {
	return setAll(map[string]string{
		"net/ipv4/ip_forward": "1",
		// A pod may reach one beside it through a Service.
		"net/bridge/bridge-nf-call-iptables": "1",
	})
}

// setAll sets parameters of the kernel that belong to this network namespace.
func setAll(parameters map[string]string) error {
	for name, value := range parameters {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// awaitUplink waits until the host has plugged the network in: the kubelet takes its node's address
// from there.
func awaitUplink() {
	for ; ; time.Sleep(20 * time.Millisecond) {
		uplink, err := net.InterfaceByName(boot.Uplink)
		if err != nil || uplink.Flags&net.FlagRunning == 0 {
			continue
		}
		if addresses, err := uplink.Addrs(); err == nil && len(addresses) > 0 {
			return
		}
	}
}

// router forwards between the machines that the host plugs in, until it is told to end.
func router() error {
	err := setAll(map[string]string{"net/ipv4/ip_forward": "1"})
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM, unix.SIGINT)
	<-end
	return nil
}
