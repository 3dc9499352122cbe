// The reader: samples, whatever becomes of the host engine.

package dcgm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// Reader reads samples from a host engine. It connects when it is first asked for one, and
// again after the connection was lost. One process can have one Reader at a time: go-dcgm
// has one connection.
type Reader struct {
	options Options
	gate    *gate
	// delivered reports whether the caller has the XIDs that are in memory.
	delivered atomic.Bool
	notes     atomic.Pointer[[]string]
	fields    atomic.Pointer[[]health.Field]

	// What follows belongs to the function that is in the gate.
	engine   engine
	session  *session
	memory   *memory
	failures int
	retryAt  time.Time
	lastErr  error
}

// NewReader makes a reader. It does not connect yet.
func NewReader(o Options) *Reader {
	r := &Reader{options: o.withDefaults(), gate: newGate(), engine: newEngine(), memory: newMemory()}
	r.Watch(o.Fields)
	return r
}

// Watch changes the fields that are read, from the next sample on. Watches belong to a
// connection, so a new one is made.
func (r *Reader) Watch(fields []health.Field) { r.fields.Store(&fields) }

// Sample reads what the engine knows now. It always returns within the timeout; where the
// engine could not be read the sample says so. A connection that was lost is recreated,
// not more often than the backoff allows by the times that it is given.
func (r *Reader) Sample(ctx context.Context, now time.Time) health.Sample {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	var sample health.Sample
	if err := r.gate.do(ctx, func() { sample = r.sample(ctx, now) }); err != nil {
		return health.Sample{Time: now, Message: err.Error()}
	}
	if sample.Reachable {
		r.delivered.Store(true)
	}
	return sample
}

// Notes says what the engine of the last connection cannot do, for a log.
func (r *Reader) Notes() []string {
	if notes := r.notes.Load(); notes != nil {
		return *notes
	}
	return nil
}

// Close ends the connection. It fails where a call is still blocked in DCGM; the
// connection then ends with the process.
func (r *Reader) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	var closed error
	err := r.gate.do(ctx, func() { closed = r.disconnect() })
	if err != nil {
		return err
	}
	return closed
}

func (r *Reader) sample(ctx context.Context, now time.Time) health.Sample {
	if r.delivered.Swap(false) {
		r.memory.deliver()
	}
	values, err := r.read(ctx, now)
	if err != nil {
		return health.Sample{Time: now, Message: fmt.Sprintf("DCGM at %s: %v", r.options.Address, err)}
	}
	return health.Sample{Time: now, Reachable: true, Values: values, XIDs: r.memory.pending(), EngineVersion: r.session.version}
}

// read connects where that is needed and due, and reads.
func (r *Reader) read(ctx context.Context, now time.Time) (map[health.Entity]map[health.Field]health.Value, error) {
	if r.session != nil && !slices.Equal(r.session.options.Fields, *r.fields.Load()) {
		_ = r.disconnect()
	}
	if r.session == nil {
		if now.Before(r.retryAt) {
			return nil, r.lastErr // and no word of when: a message that changes is written again
		}
		if err := r.connect(ctx, now); err != nil {
			return nil, r.fail(now, err)
		}
	}
	values, err := r.session.read(ctx, now)
	if errors.Is(err, errOutdated) {
		// Groups are made of what was there, and watches are of the clock as it was.
		_ = r.disconnect()
		if err = r.connect(ctx, now); err == nil {
			values, err = r.session.read(ctx, now)
		}
	}
	if err != nil && ctx.Err() == nil {
		return nil, r.fail(now, err)
	}
	if err == nil {
		r.failures = 0
	}
	return values, err
}

// fail gives the connection up, and says when to try again.
func (r *Reader) fail(now time.Time, err error) error {
	r.failures++
	r.retryAt = now.Add(backoff(r.failures, r.options.MinBackoff, r.options.MaxBackoff))
	r.lastErr = err
	_ = r.disconnect() // of an engine that is gone there is nothing to close
	return err
}

func (r *Reader) connect(ctx context.Context, now time.Time) error {
	if err := r.engine.open(r.options.Library, r.options.Address); err != nil {
		return err
	}
	o := r.options
	o.Fields = *r.fields.Load()
	s, err := newSession(ctx, r.engine, o, r.memory, now)
	if err != nil {
		_ = r.engine.close() // what went wrong before says more
		return err
	}
	r.session = s
	r.notes.Store(&s.notes)
	return nil
}

func (r *Reader) disconnect() error {
	if r.session == nil {
		return nil
	}
	r.session = nil
	return r.engine.close()
}
