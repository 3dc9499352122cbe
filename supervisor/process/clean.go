// What dead processes leave behind: shared memory, which only a reboot of the sandbox would remove, and memory of GPUs, which the driver
// frees a while after they have ended.

package process

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Clean removes what the program left in shared memory, and waits until the memory of the GPUs is free. It is called when no process is left.
func (k *Keeper) Clean() {
	k.removeSharedMemory()
	if k.options.GPUMemoryTimeout > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), k.options.GPUMemoryTimeout)
		defer cancel()
		k.awaitGPUMemory(ctx)
	}
}

// file is the identity of a file.
type file struct{ device, inode uint64 }

// sharedMemory returns the files of shared memory.
func (k *Keeper) sharedMemory() map[file]bool {
	found := map[file]bool{}
	k.eachOfSharedMemory(func(_ string, f file) { found[f] = true })
	return found
}

// removeSharedMemory removes the files that appeared since the program was started and that nobody uses. All containers of a pod have the
// same /dev/shm, and one does not see the processes of another, so the kernel is asked.
func (k *Keeper) removeSharedMemory() {
	if k.present == nil {
		return // no program was started
	}
	k.eachOfSharedMemory(func(path string, f file) {
		if !k.present[f] && removeUnused(path) {
			k.options.Log.Info("Removed shared memory of the program", "file", path)
		}
	})
}

func (k *Keeper) eachOfSharedMemory(visit func(path string, f file)) {
	if k.options.SharedMemory == "" {
		return
	}
	_ = filepath.WalkDir(k.options.SharedMemory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				stat := info.Sys().(*syscall.Stat_t)
				visit(path, file{uint64(stat.Dev), stat.Ino})
			}
		}
		return nil // what cannot be read is left alone
	})
}

// removeUnused removes a file that no process of the machine has open or mapped. The kernel gives a write lease on such a file only, and
// without CAP_LEASE only to its owner; see fcntl(2). Where there are no leases the file stays.
func removeUnused(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // ends the lease: whoever has opened the file meanwhile waits for that
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	return os.Remove(path) == nil
}
