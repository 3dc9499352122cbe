// Spinning: what is known of the use of a node's GPUs.

package nodes

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Spinning are the pods of a node whose GPUs execute kernels and move no data, by those of its sources that can tell and have been heard of late.
func Spinning(h *v1alpha1.NodeHealth, silentAfter time.Duration, now time.Time) []v1alpha1.SpinningPod {
	var pods []v1alpha1.SpinningPod
	for i := range h.Status.Sources {
		s := &h.Status.Sources[i]
		if s.State == v1alpha1.HealthHealthy && s.HeartbeatTime != nil && s.HeartbeatTime.Add(silentAfter).After(now) {
			pods = append(pods, s.Spinning...)
		}
	}
	return pods
}
