// Python: a program writes its stacks into a file in memory by the standard library's faulthandler. See
// docs.python.org/3/library/faulthandler.html.

package stacks

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed sitecustomize.py
var siteCustomize []byte

// The real-time signals that have a Python program write its stacks. The handler of the first also interrupts native code. It reads frames that a thread may be
// about to change, and was seen to end programs that compute in Python (3.10 and later), once in a hundred times. That of the second is safe, and runs only where the main
// thread executes Python.
const (
	anywhere  = syscall.Signal(50)
	inPython  = syscall.Signal(51)
	memory    = "/memfd:lockstep-stacks" // what the file is called among those of the process
	mostFiles = 1024                     // that are looked at of a process
)

const envPath = "PYTHONPATH"

// Folder is the name of the folder that is first in the path of Python programs.
const Folder = ".lockstep-python"

// Install writes the sitecustomize of Python programs into a folder.
func Install(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	path := filepath.Join(folder, "sitecustomize.py")
	next := path + ".next"
	if err := os.WriteFile(next, siteCustomize, 0o644); err != nil { //nolint:gosec // a program may have another user
		_ = os.Remove(path) // half of one would hide the image's
		return err
	}
	return os.Rename(next, path)
}

// Environ is an environment in which Python programs say where they are.
func Environ(environ []string, folder string) []string {
	paths := []string{folder}
	environ = slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		path, is := strings.CutPrefix(v, envPath+"=")
		if is && path != "" {
			paths = append(paths, path)
		}
		return is
	})
	return append(environ, envPath+"="+strings.Join(paths, string(os.PathListSeparator)))
}

// python is a process that has been asked, and the end of its file before that.
type python struct {
	file   *os.File
	before int64
}

// ask has a process write its stacks; nil for one that does not catch the signal, blocks it, or has no such file: the signal may be another's.
func ask(pid int, signal syscall.Signal) *python {
	if !takes(pid, signal) {
		return nil
	}
	file := stacksOf(pid)
	if file == nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil || unix.Tgkill(pid, pid, signal) != nil {
		file.Close()
		return nil
	}
	return &python{file, info.Size()}
}

// takes reports whether the main thread of a process catches a signal that none waits for already.
func takes(pid int, signal syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	has := func(name string) bool {
		_, rest, _ := strings.Cut(string(status), "\n"+name+":\t")
		line, _, _ := strings.Cut(rest, "\n")
		mask, err := strconv.ParseUint(line, 16, 64)
		return err == nil && mask&(1<<(signal-1)) != 0
	}
	return has("SigCgt") && !has("SigBlk") && !has("SigPnd") && !has("ShdPnd")
}

// stacksOf opens the file of a process; nil where there is none among its first ones.
func stacksOf(pid int) *os.File {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer open.Close()
	names, _ := open.Readdirnames(mostFiles)
	for _, name := range names {
		path := filepath.Join(folder, name)
		if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, memory) {
			continue
		}
		if file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				return file
			}
			file.Close()
		}
	}
	return nil
}

// answer is what the process has written: once it is complete, or as far as it is at the deadline. Of a long one the middle is left out.
func (p *python) answer(deadline time.Time) string {
	defer p.file.Close()
	size := func() int64 {
		info, err := p.file.Stat()
		if err != nil {
			return p.before
		}
		return info.Size()
	}
	last := size()
	for time.Now().Before(deadline) {
		time.Sleep(pause)
		next := size()
		if next > p.before && next == last {
			break
		}
		last = next
	}
	if last == p.before {
		return ""
	}
	read := func(from, to int64) string {
		text, _ := io.ReadAll(io.NewSectionReader(p.file, from, to-from))
		return ownFrame.ReplaceAllString(string(text), "")
	}
	if last-p.before <= limit {
		return ended(read(p.before, last))
	}
	return ended(read(p.before, p.before+limit/2)) + "...\n" + ended(read(last-limit/2, last))
}

// ownFrame is the handler's.
var ownFrame = regexp.MustCompile(`(?m)^  File "[^"]*/` + regexp.QuoteMeta(Folder) + `/.*\n`)

// ended is a text that ends with its line.
func ended(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }
