//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespaces are those that a machine's init is started in, as flags of clone(2). Its cgroup namespace
// it makes itself, once it is in its cgroup.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// RouterNamespaces are those of the router's process.
const RouterNamespaces = unix.CLONE_NEWNET

// packages are the programs that a node runs on, and the Debian packages that have them.
var packages = map[string]string{
	"containerd":             "containerd",
	"ctr":                    "containerd",
	"runc":                   "runc",
	"nft":                    "nftables",
	"iptables":               "iptables",
	CNIPlugins + "/bridge":   "containernetworking-plugins",
	CNIPlugins + "/loopback": "containernetworking-plugins",
}

// CNIPlugins is the folder in which Debian installs the plugins.
const CNIPlugins = "/usr/lib/cni"

// Check says in one line what this host lacks, or returns nil.
func Check() error {
	if os.Getuid() != 0 {
		return errors.New("real nodes need root: namespaces, mounts and cgroups are made for each")
	}
	if _, err := os.Stat(filepath.Join(Cgroup{}.freezer(), "cgroup.procs")); err != nil {
		return fmt.Errorf("real nodes need cgroup v2 at %s, or cgroup v1 with the freezer hierarchy at %[1]s/freezer: %w", cgroupRoot, err)
	}
	var missing []string
	for program, name := range packages {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("real nodes need packages that are not installed: apt-get install --no-install-recommends %s", strings.Join(slices.Compact(slices.Sorted(slices.Values(missing))), " "))
	}
	return nil
}

// Build builds the machines' init program into a folder and returns its path.
func Build(ctx context.Context, root, dir string) (string, error) {
	target := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", target, "./test/machines/init")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the machines' init: %w\n%s", err, out)
	}
	return target, nil
}
