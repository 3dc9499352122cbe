// The end: done, or why not.

package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/checkpoint"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/gang"
)

// mark is the file that says that a run is done. A rank that comes back after it has
// nothing left to do, and nobody left to meet.
type mark struct {
	Step   int    `json:"step"`
	Flags  string `json:"flags"`
	Digest string `json:"digest"`
	Bits   string `json:"bits"`
}

// Loss is the loss of the last step.
func (m *mark) Loss() float64 {
	bits, err := strconv.ParseUint(m.Bits, 16, 64)
	if err != nil {
		return math.NaN()
	}
	return math.Float64frombits(bits)
}

func (c *config) lossDir() string  { return filepath.Join(c.shared, "loss") }
func (c *config) markPath() string { return filepath.Join(c.shared, "done.json") }

func writeFile(path string, content []byte) error { return checkpoint.WriteFile(path, content) }

// finished returns the mark of this very run, nil where it is not done.
func (c *config) finished() *mark {
	b, err := os.ReadFile(c.markPath())
	if err != nil {
		return nil
	}
	m := &mark{}
	if json.Unmarshal(b, m) != nil || m.Step != c.steps || m.Flags != c.fingerprint() {
		return nil
	}
	return m
}

// finish returns once all ranks know that all are done.
func (r *rank) finish() error {
	m := r.mark()
	return r.gang.Done(m.Digest, func() error {
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return writeFile(r.markPath(), append(b, '\n'))
	})
}

func (r *rank) mark() *mark {
	return &mark{Step: r.steps, Flags: r.fingerprint(), Digest: r.state.Digest(), Bits: strconv.FormatUint(math.Float64bits(r.state.Loss), 16)}
}

func (r *rank) done(m *mark) {
	r.emit("done", append([]any{"step", m.Step, "digest", m.Digest}, lossFields(m.Loss())...)...)
}

// terminate ends the rank as SIGTERM asks: at once, or, where survivors save, once it has saved the step that it makes, or its last one if it does that already. No other rank
// can make the next step without it, so that all save the same.
func (r *rank) terminate() {
	r.terminated.Store(true)
	if !r.survivorsSave || !r.trained.Load() {
		r.end(errTerminated)
	}
}

// end says why the rank ends, and exits. The first caller's reason counts.
func (r *rank) end(err error) {
	r.ending.Do(func() { os.Exit(r.explain(err)) })
}

// explain emits the last event, and returns the exit code that belongs to it.
func (r *rank) explain(err error) int {
	var lost *gang.LostError
	switch {
	case err == nil:
		r.done(r.mark())
		return exitDone
	case errors.As(err, &lost):
		return r.aborted(lost)
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, gang.ErrFenced):
		r.emit("fenced", "why", err)
		return exitFenced
	case errors.Is(err, gang.ErrConfig), errors.Is(err, errUsage):
		r.emit("usage", "why", err)
		return exitUsage
	case errors.Is(err, gang.ErrTimeout):
		r.emit("alone", "why", err)
		return exitAlone
	case errors.Is(err, errTerminated):
		r.emit("terminated", "signal", err)
		return exitTerminated
	case errors.Is(err, errNoCheckpoint):
		r.emit("no_checkpoint", "why", err)
		return exitNoCheckpoint
	}
	r.emit("failed", "why", err)
	return exitAborted
}

// lookTimeout bounds the look at the shared folder before an abort: it may hang, and the abort must not.
const lookTimeout = 5 * time.Second

// aborted tells a peer's loss from the two cases that look like one: a run that was done
// when the good-bye was lost, and a successor that took this rank's place meanwhile.
func (r *rank) aborted(lost *gang.LostError) int {
	type look struct {
		done   *mark
		fenced error
	}
	looked := make(chan look, 1)
	go func() { looked <- look{r.finished(), r.store.Fenced()} }()
	select {
	case l := <-looked:
		if errors.Is(l.fenced, checkpoint.ErrFenced) {
			return r.explain(l.fenced)
		}
		if l.done != nil {
			r.done(l.done)
			return exitDone
		}
	case <-time.After(lookTimeout):
	}
	r.emit("aborted", "peer", lost.Peer, "why", lost.Why, "noticed_by", lost.ToldBy)
	return exitAborted
}
