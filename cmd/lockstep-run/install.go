package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/version"
)

// install copies this binary into a volume that the program's container mounts: an init container does it, without a shell.
func install(args []string) int {
	if len(args) != 1 || args[0] == "" {
		return misused(errors.New("install takes one folder: lockstep-run install DIR"))
	}
	if err := installTo(args[0]); err != nil {
		return failed(fmt.Errorf("install to %s: %w", args[0], err))
	}
	return 0
}

func installTo(dir string) error {
	target := filepath.Join(dir, "lockstep-run")
	if err := copySelf(target); err != nil {
		if errors.Is(err, unix.EROFS) {
			return errors.New("the volume is read-only: mount it without readOnly in this container")
		}
		return err
	}
	return try(target)
}

// copySelf replaces the target as a whole, so that a supervisor which runs it keeps the old one.
func copySelf(target string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(filepath.Dir(target), ".lockstep-run-")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // once it is renamed there is none
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		return err
	}
	if err := errors.Join(to.Chmod(0o555), to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), target)
}

// try proves that the volume lets programs run.
func try(target string) error {
	output, err := exec.Command(target, "version").CombinedOutput()
	var volume unix.Statfs_t
	switch {
	case err == nil && string(bytes.TrimSpace(output)) == version.String():
		return nil
	case err == nil:
		return fmt.Errorf("%s is of another version: %s", target, bytes.TrimSpace(output))
	case unix.Statfs(target, &volume) == nil && volume.Flags&unix.ST_NOEXEC != 0:
		return errors.New("the volume is mounted noexec, so no program in it can run: use an emptyDir that allows execution")
	}
	return fmt.Errorf("execute %s: %w: %s", target, err, output)
}
