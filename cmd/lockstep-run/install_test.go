package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInstall(t *testing.T) {
	p := newPod(t)
	p.environ = append(p.environ, asCommand+"=1")
	for range 2 { // a container that starts again does it twice
		c := p.execute("install", p.dir)
		c.exits(0)
	}
	info, err := os.Stat(p.path("lockstep-run"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o555 {
		t.Errorf("the mode is %v", info.Mode())
	}
	if files, _ := os.ReadDir(p.dir); len(files) != 1 {
		t.Error("something else is left:", files)
	}
	p.execute("install", p.path("no-such-folder")).exits(codeFailed)
}

func TestInstallWhereNothingRuns(t *testing.T) {
	for name, test := range map[string]struct {
		flags uintptr
		want  string
	}{
		"noexec":    {unix.MS_NOEXEC, "mounted noexec"},
		"read-only": {unix.MS_RDONLY, "read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			p.environ = append(p.environ, asCommand+"=1")
			volume := filepath.Join(t.TempDir(), "volume")
			if err := os.Mkdir(volume, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("none", volume, "tmpfs", test.flags, ""); err != nil {
				t.Skip("mounting needs root:", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(volume, 0) })
			c := p.execute("install", volume)
			c.exits(codeFailed)
			c.says(test.want)
		})
	}
}
