// Order: a log has the requests as they were answered, and an answer may be late: the API server writes it when its processor has time.

package audit

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// order puts requests in the order in which they were done, and says when: an object was written before any object of its kind with a later
// resourceVersion was answered. What has no version of its own, as a binding or a write that changed nothing, counts when it was answered: the
// answer to the latter has the version of an earlier write. Clocks of API servers, of which each has its own logs, may differ.
func order(entries []entry) {
	for i := range entries {
		entries[i].done = entries[i].StageTimestamp
	}
	byDone := func(a, b entry) int { return a.done.Compare(b.done) }
	slices.SortStableFunc(entries, byDone)
	for _, written := range versioned(entries) {
		at := make([]int, len(written))
		for i, v := range written {
			at[i] = v.at
		}
		slices.SortFunc(written, func(a, b versionedEntry) int { return cmp.Compare(a.version, b.version) })
		var soonest time.Time
		of := 0 // the log of that
		for i := len(written) - 1; i >= 0; i-- {
			if soonest.IsZero() || written[i].done.Before(soonest) {
				soonest, of = written[i].done, written[i].log
			}
			earlier := soonest.Before(written[i].RequestReceivedTimestamp) && written[i].log == of // by the clock of one API server
			if !earlier {
				written[i].done = soonest
			}
		}
		for i := range at {
			entries[at[i]] = written[i].entry
		}
	}
	slices.SortStableFunc(entries, byDone)
}

// versionedEntry is a request that gave an object a version.
type versionedEntry struct {
	entry
	at      int // among all entries
	version uint64
}

// versioned are the requests that gave objects their versions, by resource.
func versioned(entries []entry) map[string][]versionedEntry {
	type object struct{ resource, namespace, name string }
	type write struct {
		object
		version uint64
	}
	out, known := map[string][]versionedEntry{}, map[write]bool{}
	for i := range entries {
		e := &entries[i]
		var answer struct {
			Metadata metadata `json:"metadata"`
		}
		if json.Unmarshal(e.ResponseObject, &answer) != nil {
			continue
		}
		m, ref := &answer.Metadata, e.ObjectRef
		version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
		w := write{object{ref.Resource, m.Namespace, m.Name}, version}
		if err != nil || m.Name == "" || known[w] {
			continue
		}
		known[w] = true
		out[ref.Resource] = append(out[ref.Resource], versionedEntry{*e, i, version})
	}
	return out
}
