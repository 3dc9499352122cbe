// Signals: which reports of a node's health concern a pod.

package gang

import (
	"slices"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// SignalsFor are the reports of a node that concern a pod, named namespace/name. One that
// names no pods concerns all, unless nothing uses what is ill.
func SignalsFor(pod string, reports []v1alpha1.HealthReport) []Signal {
	var out []Signal
	for i := range reports {
		r := &reports[i]
		if r.Unused || (len(r.Pods) > 0 && !slices.Contains(r.Pods, pod)) {
			continue
		}
		out = append(out, Signal{Name: r.Signal, Failed: r.State == v1alpha1.HealthStateFailed, Message: r.Entity + ": " + r.Message})
	}
	return out
}
