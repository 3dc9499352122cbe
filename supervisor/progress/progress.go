// Package progress notices that a program saves checkpoints: a file or a folder changes with each.
package progress

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Period is how often a Watcher looks. A thousand ranks look at one file of a shared file system.
const Period = 10 * time.Second

// lookWithin is how long Check waits for a file system that does not answer.
const lookWithin = time.Second

// Watcher looks at one path. Its methods are called one after the other.
type Watcher struct {
	path string
	// pending is what the last look will find, where that was not known in time. A look at a file system that hangs may never end.
	pending chan state
	// last is what the path was at the last look, and known whether there was one since Reset.
	last  state
	known bool
}

// state is what changes of a file when it is written, replaced, or a link to another one, and of a folder when something in it appears
// or goes.
type state struct {
	exists        bool
	device, inode uint64
	size          int64
	modified      time.Time
	target        string
	// step is the number that the file, or the name that a link leads to, ends in; -1 for none.
	step int64
}

// mostNamed is how large a file is that says the step of a checkpoint, in bytes.
const mostNamed = 256

// numbered is a text whose only number stands at its end, as 1200, or global_step1200 of DeepSpeed.
var numbered = regexp.MustCompile(`^[^0-9]*([0-9]+)$`)

// named is the number of a text; -1 for none.
func named(text string) int64 {
	if found := numbered.FindStringSubmatch(strings.TrimSpace(text)); found != nil {
		if n, err := strconv.ParseInt(found[1], 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// New returns a watcher of a path; nil, which never notices anything, for an empty one.
func New(path string) *Watcher {
	if path == "" {
		return nil
	}
	return &Watcher{path: path}
}

// Reset takes the path as it is now for what was there before the program.
func (w *Watcher) Reset() {
	if w != nil {
		w.known = false
		w.Check()
	}
}

// Check reports whether the path has changed since the last look. Where its file system does not answer, it has not.
func (w *Watcher) Check() bool {
	if w == nil {
		return false
	}
	found, ok := w.look()
	if !ok {
		return false
	}
	changed := w.known && found != w.last
	w.last, w.known = found, true
	return changed
}

// Step is the step of the checkpoint that the last look has found; false where the path names none.
func (w *Watcher) Step() (int64, bool) { return w.last.step, w.known && w.last.step >= 0 }

// Ticks is a channel that tells when to look again; it never does for a nil Watcher.
func (w *Watcher) Ticks(ctx context.Context) <-chan time.Time {
	if w == nil {
		return nil
	}
	ticker := time.NewTicker(Period)
	context.AfterFunc(ctx, ticker.Stop)
	return ticker.C
}

// look returns what the path is; false where that is not known in time. At most one look is under way.
func (w *Watcher) look() (state, bool) {
	if w.pending != nil {
		select {
		case <-w.pending: // what it found is old
		default:
			return state{}, false
		}
	}
	w.pending = make(chan state, 1)
	go func(found chan<- state) { found <- stateOf(w.path) }(w.pending)
	late := time.NewTimer(lookWithin)
	defer late.Stop()
	select {
	case s := <-w.pending:
		w.pending = nil
		return s, true
	case <-late.C:
		return state{}, false
	}
}

// stateOf follows links, of which it keeps the first one's target: a link to another folder is a change, too.
func stateOf(path string) state {
	s := state{step: -1}
	if target, err := os.Readlink(path); err == nil {
		s.target, s.step = target, named(filepath.Base(target))
	}
	info, err := os.Stat(path)
	if err != nil {
		return s
	}
	s.exists, s.size, s.modified = true, info.Size(), info.ModTime()
	s.device, s.inode = identity(info)
	if info.Mode().IsRegular() && info.Size() <= mostNamed {
		if content, err := Read(path); err == nil {
			s.step = named(content)
		}
	}
	return s
}

// Read returns the first 256 bytes of a file that says a step. What a pipe has in its place is not waited for.
func Read(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, mostNamed))
	return string(content), err
}

func identity(info fs.FileInfo) (device, inode uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev), stat.Ino
	}
	return 0, 0
}
