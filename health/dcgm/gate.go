// The gate before DCGM: one at a time, and nobody waits for it longer than he wants.

package dcgm

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// gate lets one function at a time work with the engine. go-dcgm has one handle for the
// process, which it reads without a lock (handle, in its admin.go), and calls that take no
// context, so a function that blocks is left to itself, and keeps the gate until it returns.
type gate struct {
	slot  chan struct{}
	since atomic.Int64 // Unix time at which the function that is inside went in
}

func newGate() *gate { return &gate{slot: make(chan struct{}, 1)} }

// do runs a function, and waits for it until the context ends. After an error the function
// may still be running, or not have run at all; what it sets must not be looked at.
func (g *gate) do(ctx context.Context, work func()) error {
	select {
	case g.slot <- struct{}{}:
	default:
		// A time and not a duration: what is reported must not change with every poll.
		since := time.Unix(g.since.Load(), 0).UTC().Format(time.RFC3339)
		return fmt.Errorf("DCGM has not answered since %s, and is not asked again before it does", since)
	}
	g.since.Store(time.Now().Unix())
	done := make(chan error, 1)
	go func() {
		err := guarded(work)
		<-g.slot // before anybody hears of it: who does may come again at once
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("DCGM did not answer in time: %w", ctx.Err())
	}
}

// guarded keeps what go-dcgm does with an answer that it did not expect from ending the agent.
func guarded(work func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			_, _ = os.Stderr.Write(debug.Stack())
			err = fmt.Errorf("go-dcgm panicked: %v", p)
		}
	}()
	work()
	return nil
}
