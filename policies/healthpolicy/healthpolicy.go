// Package healthpolicy is what is in force where a HealthPolicy says nothing.
package healthpolicy

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
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

// Policy is a HealthPolicy with every default filled in.
type Policy struct {
	// Quarantines reports whether nodes that have failed are kept from all jobs.
	Quarantines bool
	// Well is how long a node has to be well until it leaves quarantine.
	Well time.Duration
	// SilentAfter is how long a source may be silent.
	SilentAfter time.Duration
	// LemonFailures within LemonWindow make a node a lemon; 0 for never.
	LemonFailures int
	LemonWindow   time.Duration
	// Cluster and HyperNode limit the nodes that are acted upon, and Moves the pods of one job that are moved.
	Cluster, HyperNode, Moves Limit
	// Acknowledged is up to when what was held back has been looked at; Acknowledges is when it
	// will have been, where somebody's clock is ahead.
	Acknowledged, Acknowledges time.Time
}

// Of returns the policy that a spec gives at a time.
func Of(spec *v1alpha1.HealthPolicySpec, now time.Time) Policy {
	q, b := &spec.Quarantine, &spec.Breaker
	p := Policy{
		Quarantines:   ptr.Deref(q.Enabled, true),
		Well:          seconds(ptr.Deref(q.WellSeconds, defaultWellSeconds)),
		SilentAfter:   seconds(cmp.Or(spec.SilentAfterSeconds, defaultSilentAfterSeconds)),
		LemonFailures: int(ptr.Deref(q.Lemon.Failures, defaultLemonFailures)),
		LemonWindow:   seconds(cmp.Or(q.Lemon.WindowSeconds, defaultLemonWindowSeconds)),
		Cluster:       limitOf(ptr.Deref(b.Cluster, defaultClusterLimit)),
		HyperNode:     limitOf(ptr.Deref(b.HyperNode, defaultHyperNodeLimit)),
		Moves:         limitOf(ptr.Deref(b.Job, defaultJobLimit)),
	}
	if at := b.AcknowledgedTime; at != nil && at.After(now) {
		p.Acknowledges = at.Time
	} else if at != nil {
		p.Acknowledged = at.Time
	}
	return p
}

// Stamp is a time for what was decided after the acknowledgement, so that it is later than
// that to the second, too: the API server keeps no more.
func (p *Policy) Stamp(now time.Time) metav1.Time {
	return metav1.NewTime(instant.Latest(now, p.Acknowledged.Add(time.Second)))
}

// Limit is how many of a number may be acted upon within a window.
type Limit struct {
	Percent, Count int
	Window         time.Duration
}

func limitOf(l v1alpha1.BreakerLimit) Limit {
	return Limit{
		Percent: int(l.Percent), Count: int(ptr.Deref(l.Count, defaultBreakerCount)),
		Window: seconds(cmp.Or(l.WindowSeconds, defaultBreakerSeconds)),
	}
}

// Allows reports whether n of size are within the limit.
func (l Limit) Allows(n, size int) bool {
	return l.Percent >= 100 || n <= l.Most(size)
}

// Most is how many of size a limit of less than 100 percent allows.
func (l Limit) Most(size int) int { return max(l.Count, l.Percent*size/100) }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
