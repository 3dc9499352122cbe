// Package dcgm reads the health of a node's GPUs and NVLinks from NVIDIA's DCGM.
//
// It is the only place that knows go-dcgm, and the only one with cgo. A binary that was
// built without cgo, or with the tag nodcgm, has the same Reader, which says so whenever
// it is asked for a sample.
package dcgm

import (
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// Options say what to read, and from where.
type Options struct {
	// Address of the host engine, see ParseAddress.
	Address Address
	// Library is the file of libdcgm. Default: libdcgm.so.4, where the dynamic linker finds it.
	Library string
	// Fields that are watched, by DCGM's ids. XIDs, UUIDs and MIG mode always are.
	Fields []health.Field
	// Interval at which the engine reads them. Default: 10 s.
	Interval time.Duration
	// Timeout of one sample, with the connecting it may take. Default: 20 s. DCGM itself waits
	// up to 60 s for an answer (its dcgmlib/src/DcgmApi.cpp).
	Timeout time.Duration
	// MinBackoff and MaxBackoff bound the time between two attempts to connect.
	// Default: 1 s and 60 s.
	MinBackoff, MaxBackoff time.Duration
}

func (o Options) withDefaults() Options {
	or := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	if o.Library == "" {
		o.Library = "libdcgm.so.4"
	}
	o.Interval = or(o.Interval, 10*time.Second)
	o.Timeout = or(o.Timeout, 20*time.Second)
	o.MinBackoff = or(o.MinBackoff, time.Second)
	o.MaxBackoff = max(or(o.MaxBackoff, time.Minute), o.MinBackoff)
	return o
}

// backoff is the time to wait after a number of failures in a row. There is no chance in
// it: every node has its own engine, so nobody else waits for the same one.
func backoff(failures int, first, most time.Duration) time.Duration {
	wait := first
	for range failures - 1 {
		if wait >= most/2 {
			return most
		}
		wait *= 2
	}
	return min(wait, most)
}
