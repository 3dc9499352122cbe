// The health policy: what is in force where the HealthPolicy says nothing.

package policies

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// The defaults of the HealthPolicy. The API server fills them in, too.
const (
	defaultWellSeconds        = 600
	defaultLemonFailures      = 3
	defaultLemonWindowSeconds = 7 * 86400
	defaultSilentAfterSeconds = 900
	defaultBreakerCount       = 1
	defaultBreakerSeconds     = 3600
)

var (
	defaultClusterLimit   = v1alpha1.BreakerLimit{Percent: 10, Count: ptr.To[int32](2)}
	defaultHyperNodeLimit = v1alpha1.BreakerLimit{Percent: 25, Count: ptr.To[int32](2)}
	defaultJobLimit       = v1alpha1.BreakerLimit{Percent: 25, Count: ptr.To[int32](2)}
)

// healthPolicy is a HealthPolicy with every default filled in.
type healthPolicy struct {
	quarantines               bool
	well, silentAfter         time.Duration
	lemonFailures             int
	lemonWindow               time.Duration
	cluster, hyperNode, moves breakerLimit
	// acknowledged is up to when what was held back has been looked at; acknowledges is when it
	// will have been, where somebody's clock is ahead.
	acknowledged, acknowledges time.Time
}

func healthPolicyOf(spec *v1alpha1.HealthPolicySpec, now time.Time) healthPolicy {
	q, b := &spec.Quarantine, &spec.Breaker
	p := healthPolicy{
		quarantines:   ptr.Deref(q.Enabled, true),
		well:          seconds(ptr.Deref(q.WellSeconds, defaultWellSeconds)),
		silentAfter:   seconds(cmp.Or(spec.SilentAfterSeconds, defaultSilentAfterSeconds)),
		lemonFailures: int(ptr.Deref(q.Lemon.Failures, defaultLemonFailures)),
		lemonWindow:   seconds(cmp.Or(q.Lemon.WindowSeconds, defaultLemonWindowSeconds)),
		cluster:       limitOf(ptr.Deref(b.Cluster, defaultClusterLimit)),
		hyperNode:     limitOf(ptr.Deref(b.HyperNode, defaultHyperNodeLimit)),
		moves:         limitOf(ptr.Deref(b.Job, defaultJobLimit)),
	}
	if at := b.AcknowledgedTime; at != nil && at.After(now) {
		p.acknowledges = at.Time
	} else if at != nil {
		p.acknowledged = at.Time
	}
	return p
}

// stamp is a time for what was decided after the acknowledgement, so that it is later than
// that to the second, too: the API server keeps no more.
func (p *healthPolicy) stamp(now time.Time) metav1.Time {
	return metav1.NewTime(later(now, p.acknowledged.Add(time.Second)))
}

// breakerLimit is how many of a number may be acted upon within a window.
type breakerLimit struct {
	percent, count int
	window         time.Duration
}

func limitOf(l v1alpha1.BreakerLimit) breakerLimit {
	return breakerLimit{
		percent: int(l.Percent), count: int(ptr.Deref(l.Count, defaultBreakerCount)),
		window: seconds(cmp.Or(l.WindowSeconds, defaultBreakerSeconds)),
	}
}

// allows is true where n of size are within the limit.
func (l breakerLimit) allows(n, size int) bool {
	return l.percent >= 100 || n <= l.count || n*100 <= l.percent*size
}
