// Reports: faults in the API's words.

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// SourceName is what the node's agent calls itself in a NodeHealth.
const SourceName = "dcgm"

// MaxReports is how many reports a NodeHealth holds (nodehealth_types.go).
const MaxReports = 1024

// maxMessage and maxVersion are how long a message and a version may be (nodehealth_types.go).
const (
	maxMessage = 1024
	maxVersion = 63
)

// Reports are the faults of a state, in order: by entity, then by signal. Where there are more
// than a NodeHealth holds, those that failed come before those that are degraded.
func Reports(s State) []v1alpha1.HealthReport {
	var reports []v1alpha1.HealthReport
	for e, faults := range s.Faults {
		for signal, f := range faults {
			reports = append(reports, v1alpha1.HealthReport{
				Source: SourceName, Entity: entityName(e), Signal: signal,
				State: f.State, Since: metav1.NewTime(f.Since).Rfc3339Copy(), Message: limited(f.Message),
			})
		}
	}
	if len(reports) > MaxReports {
		slices.SortFunc(reports, func(a, b v1alpha1.HealthReport) int {
			return cmp.Or(strings.Compare(string(b.State), string(a.State)), compareReports(a, b))
		})
		reports = reports[:MaxReports]
	}
	slices.SortFunc(reports, compareReports)
	return reports
}

func compareReports(a, b v1alpha1.HealthReport) int {
	return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.Signal, b.Signal))
}

// Source is how the agent itself fares, with a remark for people where nothing worse is to be said.
func Source(s State, remark string) v1alpha1.HealthSource {
	source := v1alpha1.HealthSource{
		Name: SourceName, State: v1alpha1.HealthHealthy, Message: limited(remark), Version: cut(s.EngineVersion, maxVersion),
		BootID:   s.faultsID(s.BootID, func(f Fault) string { return f.BootID }),
		DriverID: s.faultsID(s.DriverID, func(f Fault) string { return f.DriverID }),
		Expected: folded(s.Expected()),
	}
	if s.Unknown != "" {
		source.State, source.Message = v1alpha1.HealthUnknown, limited(s.Unknown)
	}
	if !s.driverTime.IsZero() {
		source.DriverTime = new(metav1.NewTime(s.driverTime).Rfc3339Copy())
	}
	if !s.Time.IsZero() {
		now := metav1.NewTime(s.Time).Rfc3339Copy()
		source.HeartbeatTime = &now
	}
	return source
}

// faultsID is the boot, or the load of the driver, in which all faults were last found, or the
// present one where that is not one and the same. An agent that is started again right after a
// boot, before it could look at a GPU, then still knows that the boot is new to the faults that
// it restores.
func (s State) faultsID(present string, of func(Fault) string) string {
	id := ""
	for _, faults := range s.Faults {
		for _, f := range faults {
			if differ(id, of(f)) {
				return present
			}
			id = cmp.Or(of(f), present)
		}
	}
	return cmp.Or(id, present)
}

// entityName writes an entity as a report does: gpu/<UUID>, or node.
func entityName(e Entity) string {
	if e.ID == "" {
		return string(e.Kind)
	}
	return string(e.Kind) + "/" + e.ID
}

// parseEntity reads one back.
func parseEntity(name string) (Entity, bool) {
	kind, id, _ := strings.Cut(name, "/")
	e := Entity{Kind(kind), id}
	return e, slices.Contains(kinds, e.Kind) && (id == "") == (e.Kind == KindNode)
}

// describe says what was read, and against which limit.
func describe(r *Row, read *reading) string {
	limit := r.test.limit()
	switch {
	case r.what.isXID() && r.When.Increase.AtLeast == 1:
		return limited(r.title())
	case r.what.isXID():
		return limited(fmt.Sprintf("%s: %d times; ill where it %s", r.title(), read.value, limit))
	case r.what.isMissing():
		return limited(r.title() + ": it " + limit)
	}
	text := fmt.Sprintf("%s: %d", r.title(), read.value)
	if i := r.When.Increase; i != nil {
		text += fmt.Sprintf(", %.0f more in %s", read.rises.count(read.now, i.Within.Duration), short(i.Within.Duration))
	}
	if a := r.When.Rate; a != nil {
		perUnit := read.rises.count(read.now, a.Within.Duration) * a.Per.Seconds() / a.Within.Seconds()
		text += fmt.Sprintf(", %.1f per %s", perUnit, unit(a.Per.Duration))
	}
	return limited(text + "; ill where it " + limit)
}

// limited cuts a message to what the API takes, between two letters.
func limited(text string) string { return cut(text, maxMessage) }

// cut is the beginning of a text, of whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) && len(text) > most-utf8.UTFMax {
		text = text[:len(text)-1]
	}
	return text
}
