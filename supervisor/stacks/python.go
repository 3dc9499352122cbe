// Python: a program has its stacks written by the standard library's faulthandler, in the handler of a signal, so that one that hangs in
// native code is no exception. See docs.python.org/3/library/faulthandler.html.

package stacks

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed sitecustomize.py
var siteCustomize []byte

// Signal has a program write its stacks: a real-time signal, which ends a program that does not catch it.
const Signal = syscall.Signal(50)

const envPath = "PYTHONPATH"

// Install makes the folder that Python programs take their sitecustomize from, and where they keep a file for their stacks. What programs that
// have ended left there goes.
func Install(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "sitecustomize.py"), siteCustomize, 0o600)
}

// Environ is an environment in which Python programs register faulthandler.
func Environ(environ []string, folder string) []string {
	value := folder
	for _, v := range environ {
		if path, is := strings.CutPrefix(v, envPath+"="); is && path != "" {
			value += string(os.PathListSeparator) + path
		}
	}
	environ = slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, envPath+"=") })
	return append(environ, envPath+"="+value)
}

// python is a process that has registered faulthandler, and the end of its file before it is asked.
type python struct {
	pid    int
	file   *os.File
	before int64
}

// ask has a process write its stacks; nil for one that does not catch the signal, or does not have its file open: the signal may be another's.
func ask(folder string, pid int) *python {
	folder, err := filepath.EvalSymlinks(folder) // as the process has it
	if err != nil {
		return nil
	}
	path := filepath.Join(folder, strconv.Itoa(pid))
	if !catches(pid) || !hasOpen(pid, path) {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || syscall.Kill(pid, Signal) != nil {
		file.Close()
		return nil
	}
	return &python{pid, file, info.Size()}
}

// catches reports whether a process catches the signal.
func catches(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "\nSigCgt:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	return err == nil && mask&(1<<(Signal-1)) != 0
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, path string) bool {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(folder, e.Name()))
		return err == nil && target == path
	})
}

// answer is what the process has written: once it is complete, or as far as it is at the deadline. One that is stopped writes nothing.
func (p *python) answer(deadline time.Time) string {
	defer p.file.Close()
	read := func() string {
		text, _ := io.ReadAll(io.NewSectionReader(p.file, p.before, limit))
		return string(text)
	}
	last := read()
	for time.Now().Before(deadline) {
		time.Sleep(pause)
		next := read()
		if next != "" && next == last {
			break
		}
		last = next
	}
	return last
}
