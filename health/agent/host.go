// What the kernel says of the node.

package agent

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Host holds what is fixed until the node boots again.
type Host struct {
	BootID   string
	BootTime time.Time
}

// ReadHost reads /proc/sys/kernel/random/boot_id, and btime of /proc/stat (proc(5)).
func ReadHost(procfs string) (Host, error) {
	id, err := os.ReadFile(filepath.Join(procfs, "sys/kernel/random/boot_id"))
	if err != nil {
		return Host{}, fmt.Errorf("read the boot id: %w", err)
	}
	stat, err := os.ReadFile(filepath.Join(procfs, "stat"))
	if err != nil {
		return Host{}, fmt.Errorf("read the time of boot: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		if text, found := strings.CutPrefix(line, "btime "); found {
			seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return Host{}, fmt.Errorf("read the time of boot: %w", err)
			}
			return Host{strings.TrimSpace(string(id)), time.Unix(seconds, 0)}, nil
		}
	}
	return Host{}, fmt.Errorf("no btime in %s/stat", procfs)
}

// driverID is the number of the inode of /sys/module/nvidia, which is there while the driver is
// loaded: kernfs numbers what it makes in one row, and gives no number twice
// (__kernfs_new_node of the kernel's fs/kernfs/dir.c), so a driver that is loaded again has another
// one. It is empty where there is no such folder.
func driverID(sysfs fs.FS) string {
	info, err := fs.Stat(sysfs, "module/nvidia")
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(stat.Ino, 10)
}
