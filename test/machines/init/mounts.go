//go:build linux

// The root filesystem of a machine: the host's, under an overlay that is the machine's own.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/machines"
	"github.com/lockstep-dev/lockstep/test/machines/boot"
)

// staging is a folder that every host has; the mounts on it are only seen by this machine.
const staging = "/mnt"

const root = staging + "/root"

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func makeRoot(c boot.Config) error {
	// Nothing that is mounted here may reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	hierarchies, err := cgroupMounts()
	if err != nil {
		return err
	}
	if err := mountAll(
		mount{"tmpfs", staging, "tmpfs", 0, "mode=755"},
		// An overlay cannot have its upper folder below its lower one, so that it is a tmpfs.
		mount{"overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", inStaging("upper"), inStaging("work"))},
		mount{"proc", root + "/proc", "proc", 0, ""},
		mount{"sysfs", root + "/sys", "sysfs", 0, ""},
		mount{"/dev", root + "/dev", "", unix.MS_BIND | unix.MS_REC, ""},
		mount{"tmpfs", root + "/run", "tmpfs", 0, "mode=755"},
		mount{"tmpfs", root + "/tmp", "tmpfs", 0, "mode=1777"},
		mount{"tmpfs", root + "/dev/shm", "tmpfs", 0, "mode=1777"},
	); err != nil {
		return err
	}
	if err := mountAll(hierarchies...); err != nil {
		return err
	}
	for _, bind := range c.Binds {
		if err := bindMount(bind.Source, filepath.Join(root, bind.Target)); err != nil {
			return err
		}
	}
	return pivot()
}

func inStaging(name string) string { return filepath.Join(staging, name) }

func mountAll(mounts ...mount) error {
	for _, m := range mounts {
		if m.kind == "overlay" {
			for _, folder := range []string{"upper", "work"} {
				if err := os.MkdirAll(inStaging(folder), 0o755); err != nil {
					return err
				}
			}
		}
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("making the mount point %s: %w", m.target, err)
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", m.kind+m.source, m.target, err)
		}
	}
	return nil
}

func bindMount(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("binding %s: %w", source, err)
	}
	if info.IsDir() {
		return mountAll(mount{source, target, "", unix.MS_BIND, ""})
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("making the mount point %s: %w", target, err)
	}
	file.Close()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s at %s: %w", source, target, err)
	}
	return nil
}

// cgroupMounts are the host's cgroup hierarchies, to be mounted on the machine, where each begins at
// the machine's own cgroup.
func cgroupMounts() ([]mount, error) {
	const target = root + "/sys/fs/cgroup"
	if machines.Unified() {
		return []mount{{"cgroup2", target, "cgroup2", 0, ""}}, nil
	}
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts := []mount{{"tmpfs", target, "tmpfs", 0, "mode=755"}}
	for line := range strings.Lines(string(content)) {
		// A line is hierarchy:controllers:path; see cgroups(7).
		controllers := strings.SplitN(strings.TrimSpace(line), ":", 3)[1]
		name, isNamed := strings.CutPrefix(controllers, "name=")
		switch {
		case controllers == "":
			continue // cgroup v2 beside v1 has no controllers.
		case isNamed:
			mounts = append(mounts, mount{"cgroup", target + "/" + name, "cgroup", 0, "none," + controllers})
		default:
			mounts = append(mounts, mount{"cgroup", target + "/" + controllers, "cgroup", 0, controllers})
		}
	}
	return mounts, nil
}

// pivot makes the new root the root and lets go of the host's.
func pivot() error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// The kubelet shares mounts with the pods that ask for it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts: %w", err)
	}
	return nil
}
