// The file that a program writes.

package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// filePeriod is how often the file is looked at.
	filePeriod = time.Second
	// fileLimit is how large it may be, in bytes.
	fileLimit = 4096
)

// phases are the words of the file for what the program does.
var phases = map[string]wire.Phase{
	"":           wire.Phase_PHASE_UNSPECIFIED,
	"init":       wire.Phase_PHASE_INIT,
	"train":      wire.Phase_PHASE_TRAIN,
	"evaluate":   wire.Phase_PHASE_EVALUATE,
	"checkpoint": wire.Phase_PHASE_CHECKPOINT,
}

// statement is the file's content: a JSON object of these fields, each of which may be absent.
type statement struct {
	Phase          string `json:"phase"`
	Step           *int64 `json:"step"`
	TotalSteps     *int64 `json:"totalSteps"`
	CheckpointStep *int64 `json:"checkpointStep"`
}

// parse reads a file's content: a statement, or the number of a step alone.
func parse(content []byte) (*wire.Progress, error) {
	var s statement
	if n, err := strconv.ParseInt(string(bytes.TrimSpace(content)), 10, 64); err == nil {
		s.Step = &n
	} else if err := json.Unmarshal(content, &s); err != nil {
		return nil, fmt.Errorf(`want a number of steps, or an object such as {"step": 120, "totalSteps": 5000, "phase": "train"}: %w`, err)
	}
	phase, known := phases[s.Phase]
	if !known {
		return nil, fmt.Errorf("phase %q: want init, train, evaluate or checkpoint", s.Phase)
	}
	for name, n := range map[string]*int64{"step": s.Step, "totalSteps": s.TotalSteps, "checkpointStep": s.CheckpointStep} {
		if n != nil && *n < 0 {
			return nil, fmt.Errorf("%s %d: want 0 or more", name, *n)
		}
	}
	return &wire.Progress{Phase: phase, Step: s.Step, TotalSteps: s.TotalSteps, CheckpointStep: s.CheckpointStep}, nil
}

// File is the door of a file.
type File struct {
	path     string
	listener *Listener
	log      *slog.Logger

	mu     sync.Mutex
	last   os.FileInfo
	failed bool // and logged
}

// NewFile returns a door of the file at a path, which is removed: an earlier container's program may have written it.
func NewFile(path string, l *Listener, log *slog.Logger) *File {
	_ = os.Remove(path)
	return &File{path: path, listener: l, log: log}
}

// Run looks at the file until the context ends.
func (f *File) Run(ctx context.Context) {
	ticker := time.NewTicker(filePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			f.Look(now)
		}
	}
}

// Look hears the file where it has changed, and logs why it cannot, once. Beside Run, it is for the last word of a program.
func (f *File) Look(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	program := f.listener.program()
	content, changed, err := f.read()
	if err == nil && !changed {
		return
	}
	var said *wire.Progress
	if err == nil {
		said, err = parse(content)
	}
	if err != nil {
		if !f.failed {
			f.log.Warn("Cannot read the progress file, and says so no more until it can", "file", f.path, "error", err)
		}
		f.failed = true
		return
	}
	f.failed = false
	f.listener.hear(program, now, said)
}

// read returns the content of the file where it has changed since the last time. Only a file is opened: a pipe, or a link to one, would
// keep the reader for good.
func (f *File) read() (content []byte, changed bool, err error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, false, err
	case !info.Mode().IsRegular():
		return nil, false, errors.New("it is no file")
	case info.Size() > fileLimit:
		return nil, false, fmt.Errorf("it has %d bytes: want %d at most", info.Size(), fileLimit)
	case f.last != nil && os.SameFile(info, f.last) && info.ModTime().Equal(f.last.ModTime()) && info.Size() == f.last.Size():
		return nil, false, nil
	}
	content, err = io.ReadAll(io.LimitReader(file, fileLimit))
	if err != nil || strings.TrimSpace(string(content)) == "" { // it is being written
		return nil, false, err
	}
	f.last = info
	return content, true, nil
}
