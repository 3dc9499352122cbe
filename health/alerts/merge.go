// What changes of a node's entries, by all that one payload says of it.

package alerts

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// maxReports of one node: a quarter of what a NodeHealth may hold of all sources.
const maxReports = 256

// maxPods of one report, by the API.
const maxPods = 256

// key is what tells one entry of a source from another.
type key struct{ entity, signal string }

func keyOf(r v1alpha1.HealthReport) key { return key{r.Entity, r.Signal} }

// Merge returns the entries after the changes, sorted, and how many were left out because a
// node may have no more. Alerts of one entity and signal are one entry: it fires while one of
// them does, is as bad as the worst, and concerns the pods of all. Entries that began up to
// the acknowledgement are gone, and do not come back by an alert that began before it.
func Merge(current []v1alpha1.HealthReport, changes []Change, acknowledged *metav1.Time) (next []v1alpha1.HealthReport, left int) {
	entries := map[key]v1alpha1.HealthReport{}
	for _, r := range current {
		entries[keyOf(r)] = r
	}
	for _, c := range changes {
		if c.Ends == nil {
			continue
		}
		// One that began after this alert ended was set by a later one, whose notice came first.
		if entry, ok := entries[keyOf(c.Report)]; ok && !entry.Since.After(c.Ends.Time) {
			delete(entries, keyOf(c.Report))
		}
	}
	for k, r := range fired(changes) {
		if old, ok := entries[k]; ok && old.Since.Before(&r.Since) && !seen(old, acknowledged) {
			r.Since = old.Since
		}
		entries[k] = r
	}
	maps.DeleteFunc(entries, func(_ key, r v1alpha1.HealthReport) bool { return seen(r, acknowledged) })
	return bound(slices.Collect(maps.Values(entries)))
}

// seen is true of what began up to the acknowledgement.
func seen(r v1alpha1.HealthReport, acknowledged *metav1.Time) bool {
	return acknowledged != nil && !r.Since.After(acknowledged.Time)
}

// fired joins the alerts that fire, by entity and signal.
func fired(changes []Change) map[key]v1alpha1.HealthReport {
	out := map[key]v1alpha1.HealthReport{}
	for _, c := range changes {
		if c.Ends != nil {
			continue
		}
		k, r := keyOf(c.Report), c.Report
		if other, ok := out[k]; ok {
			r = join(other, r)
		}
		out[k] = r
	}
	return out
}

func join(a, b v1alpha1.HealthReport) v1alpha1.HealthReport {
	worse := a
	if a.State != v1alpha1.HealthStateFailed && b.State == v1alpha1.HealthStateFailed {
		worse = b
	}
	if b.Since.Before(&a.Since) {
		worse.Since = b.Since
	} else {
		worse.Since = a.Since
	}
	worse.Pods = nil
	if len(a.Pods) > 0 && len(b.Pods) > 0 {
		worse.Pods = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Pods, b.Pods))))
	}
	if len(worse.Pods) > maxPods {
		worse.Pods = nil // all pods of the node
	}
	return worse
}

// bound keeps the worst where there are too many, and of these the oldest.
func bound(reports []v1alpha1.HealthReport) ([]v1alpha1.HealthReport, int) {
	byName := func(a, b v1alpha1.HealthReport) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Signal, b.Signal))
	}
	left := max(0, len(reports)-maxReports)
	if left > 0 {
		slices.SortFunc(reports, func(a, b v1alpha1.HealthReport) int {
			return cmp.Or(-cmp.Compare(a.State, b.State), a.Since.Compare(b.Since.Time), byName(a, b)) // Failed is after Degraded
		})
		reports = reports[:maxReports]
	}
	slices.SortFunc(reports, byName)
	return reports, left
}
