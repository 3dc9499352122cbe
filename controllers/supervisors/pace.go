// How often a pod may connect and report. A pod that does so more often waits, and nobody else does.

package supervisors

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// perSecond and atOnce are how many connections and reports of a pod are taken. A restart of a gang is three reports.
	perSecond, atOnce = 5, 20
	// pacedPods is how many pods have their rate remembered, those of late.
	pacedPods = 100_000
)

type pace struct {
	clock clock.WithTicker
	limit rate.Limit
	mu    sync.Mutex
	pods  *lru.Cache // *rate.Limiter by UID
}

func newPace(clock clock.WithTicker) *pace {
	return &pace{clock: clock, limit: perSecond, pods: lru.New(pacedPods)}
}

func (p *pace) of(pod types.UID) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.pods.Get(pod); ok {
		return known.(*rate.Limiter)
	}
	limiter := rate.NewLimiter(p.limit, atOnce)
	p.pods.Add(pod, limiter)
	return limiter
}

// take refuses a pod that connects too often.
func (p *pace) take(pod types.UID) error {
	if !p.of(pod).AllowN(p.clock.Now(), 1) {
		return &refusal{reason: reasonTooOften, code: codes.ResourceExhausted, why: "the pod connects or reports too often: wait longer before the next attempt"}
	}
	return nil
}

// wait returns when the next report of a pod may be taken.
func (p *pace) wait(ctx context.Context, pod types.UID) error {
	now := p.clock.Now()
	delay := p.of(pod).ReserveN(now, 1).DelayFrom(now)
	if delay == 0 {
		return nil
	}
	timer := p.clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
