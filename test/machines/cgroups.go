//go:build linux

package machines

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where the host has its cgroups: the one hierarchy of cgroup v2, or a folder for each of v1.
const cgroupRoot = "/sys/fs/cgroup"

// Unified says whether the host has cgroup v2 alone. Otherwise it has v1, with or without v2 beside it.
func Unified() bool {
	var at unix.Statfs_t
	return unix.Statfs(cgroupRoot, &at) == nil && at.Type == unix.CGROUP2_SUPER_MAGIC
}

// Cgroup is a machine's, or a group of machines', folder in each cgroup hierarchy of the host.
type Cgroup struct{ path string }

// NewCgroup returns the cgroup of that path. Make creates it.
func NewCgroup(path string) Cgroup { return Cgroup{path: path} }

// Child returns a cgroup below this one.
func (c Cgroup) Child(name string) Cgroup { return Cgroup{path: filepath.Join(c.path, name)} }

// Make creates the cgroup, and those above it, in every hierarchy.
func (c Cgroup) Make() error {
	folders, err := c.Folders()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making a cgroup: %w", err)
		}
	}
	if Unified() {
		return c.allowControllers()
	}
	return c.allowCPUs()
}

// controllers are those of cgroup v2 that kubelets use.
var controllers = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

// allowControllers lets the cgroup use the controllers that the host has: each cgroup of v2 has those that the one above it allows.
func (c Cgroup) allowControllers() error {
	raw, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if err != nil {
		return err
	}
	has := strings.Fields(string(raw))
	folder := cgroupRoot
	for name := range strings.SplitSeq(c.path, "/") {
		for _, controller := range controllers {
			if !slices.Contains(has, controller) {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
				return fmt.Errorf("allowing the controller %s below %s: %w", controller, folder, err)
			}
		}
		folder = filepath.Join(folder, name)
	}
	return nil
}

// allowCPUs gives the cgroup all processors and memory nodes: a new folder of the cpuset hierarchy has
// none, and no process may join it.
func (c Cgroup) allowCPUs() error {
	hierarchy := filepath.Join(cgroupRoot, "cpuset")
	if _, err := os.Stat(hierarchy); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(hierarchy, file))
		if err != nil {
			return err
		}
		folder := hierarchy
		for name := range strings.SplitSeq(c.path, "/") {
			folder = filepath.Join(folder, name)
			if err := os.WriteFile(filepath.Join(folder, file), value, 0); err != nil {
				return fmt.Errorf("allowing processors to %s: %w", folder, err)
			}
		}
	}
	return nil
}

// Folders are the cgroup's paths, one in each hierarchy.
func (c Cgroup) Folders() ([]string, error) {
	hierarchies, err := hierarchies()
	if err != nil {
		return nil, err
	}
	folders := make([]string, 0, len(hierarchies))
	for _, hierarchy := range hierarchies {
		folders = append(folders, filepath.Join(hierarchy, c.path))
	}
	return folders, nil
}

// hierarchies are the mount points of the host's hierarchies: one of cgroup v2, or those of v1.
func hierarchies() ([]string, error) {
	if Unified() {
		return []string{cgroupRoot}, nil
	}
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	var found []string
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		// A line is source, mount point, type and more; see fstab(5).
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[2] == "cgroup" {
			found = append(found, fields[1])
		}
	}
	return found, nil
}

// freezer is the cgroup's folder in the hierarchy that stops its processes, which all cgroups of machines have.
func (c Cgroup) freezer() string {
	if Unified() {
		return filepath.Join(cgroupRoot, c.path)
	}
	return filepath.Join(cgroupRoot, "freezer", c.path)
}

// Freeze stops every process in the cgroup, as when a machine hangs, and returns once all are stopped.
func (c Cgroup) Freeze() error {
	if Unified() {
		return c.setFreezer("cgroup.freeze", "1", "cgroup.events", "frozen 1")
	}
	return c.setFreezer("freezer.state", "FROZEN", "freezer.state", "FROZEN")
}

// Thaw lets the processes go on.
func (c Cgroup) Thaw() error {
	if Unified() {
		return c.setFreezer("cgroup.freeze", "0", "cgroup.events", "frozen 0")
	}
	return c.setFreezer("freezer.state", "THAWED", "freezer.state", "THAWED")
}

// setFreezer writes a state into one file of the cgroup, until another has the line that says that it is reached.
func (c Cgroup) setFreezer(file, state, answer, line string) error {
	for {
		// The documentation of v1 has the writer repeat itself until the state is reached: a fork may have got away.
		if err := os.WriteFile(filepath.Join(c.freezer(), file), []byte(state), 0); err != nil {
			return fmt.Errorf("setting %s of the cgroup %s to %s: %w", file, c.path, state, err)
		}
		now, err := os.ReadFile(filepath.Join(c.freezer(), answer))
		if err != nil {
			return err
		}
		if slices.Contains(strings.Split(strings.TrimSpace(string(now)), "\n"), line) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// Find returns the cgroup of that name below this one, such as a container's by its ID.
func (c Cgroup) Find(name string) (Cgroup, error) {
	found := Cgroup{}
	err := filepath.WalkDir(c.freezer(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == name {
			below, _ := filepath.Rel(c.freezer(), path)
			found = c.Child(below)
			return filepath.SkipAll
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It has just ended.
		}
		return err
	})
	if err == nil && found.path == "" {
		err = fmt.Errorf("no cgroup %s below %s", name, c.path)
	}
	return found, err
}

// Processes are the processes in the cgroup and those below it, by their ids on the host.
func (c Cgroup) Processes() ([]int, error) {
	var pids []int
	err := filepath.WalkDir(c.freezer(), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.Name() != "cgroup.procs" {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		for field := range strings.FieldsSeq(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return err
	})
	return pids, err
}

// Remove deletes the cgroup and those below it from every hierarchy. No process may be left in them.
func (c Cgroup) Remove() error {
	folders, err := c.Folders()
	if err != nil {
		return err
	}
	var errs []error
	for _, folder := range folders {
		errs = append(errs, removeCgroup(folder))
	}
	return errors.Join(errs...)
}

func removeCgroup(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeCgroup(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the cgroup %s: %w", folder, err)
	}
	return nil
}

// ThawChildren thaws the cgroups directly below this one, which Freeze may have stopped one by one.
func (c Cgroup) ThawChildren() error {
	entries, err := os.ReadDir(c.freezer())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.IsDir() {
			errs = append(errs, c.Child(entry.Name()).Thaw())
		}
	}
	return errors.Join(errs...)
}
