package simulate

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
)

// csvColumns are the columns of a list of incidents that are read, in any order. The last one may be missing.
var csvColumns = []string{"time", "cause", "effect", "repair"}

// readRows reads a list of incidents. Each row has its fields by the names of their columns.
func readRows(raw []byte) ([]map[string]string, error) {
	reader := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	reader.TrimLeadingSpace = true
	all, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("it has to have a line that names the columns %s, and a line for each incident", strings.Join(csvColumns, ","))
	}
	var out []map[string]string
	for _, row := range all[1:] {
		fields := map[string]string{}
		for i, name := range all[0] {
			fields[name] = row[i]
		}
		out = append(out, fields)
	}
	for _, name := range csvColumns[:3] {
		if _, ok := out[0][name]; !ok {
			return nil, fmt.Errorf("column %s is missing: the first line has to name %s", name, strings.Join(csvColumns, ","))
		}
	}
	return out, nil
}

// count counts the incidents of a list by cause. How long they were counted is from the first to the last. A cause is repaired after
// the mean of its times.
func (f *failures) count(raw []byte) (*lab.Model, error) {
	rows, err := readRows(raw)
	if err != nil {
		return nil, err
	}
	m := &lab.Model{Nodes: int(f.nodes)}
	var times []time.Time
	byCause, repair := map[string]*lab.Counted{}, map[string]time.Duration{}
	for i, row := range rows {
		at, err := time.Parse(time.RFC3339, row["time"])
		if err != nil {
			return nil, fmt.Errorf("incident %d: time is %q, and has to be like 2026-01-31T12:00:00Z", i+1, row["time"])
		}
		times = append(times, at)
		effect := lab.Effect(row["effect"])
		if row["repair"] == "" && effect.NeedsRepair() {
			row["repair"], m.AssumedRepair = f.repair.String(), f.repair
		}
		away, err := lab.ParseTime(cmp.Or(row["repair"], "0s"))
		if err != nil || away < 0 {
			return nil, fmt.Errorf("incident %d: repair is %q, and has to be a time such as 24h or 2d", i+1, row["repair"])
		}
		c := byCause[row["cause"]]
		if c == nil {
			c = &lab.Counted{Name: row["cause"], Effect: effect}
			byCause[c.Name] = c
		}
		if c.Effect != effect {
			return nil, fmt.Errorf("incident %d: cause %q has effect %s, and had %s before: give each effect its own cause",
				i+1, c.Name, effect, c.Effect)
		}
		c.Failures++
		repair[c.Name] += away
	}
	first, last := slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
	if m.Days = last.Sub(first).Hours() / 24; m.Days < 1 {
		return nil, errors.New("the incidents are within one day, which is too short to tell how often they come")
	}
	m.Source = fmt.Sprintf("incidents from %s to %s", first.Format(time.DateOnly), last.Format(time.DateOnly))
	for _, name := range slices.Sorted(maps.Keys(byCause)) {
		c := byCause[name]
		if mean := (repair[name] / time.Duration(c.Failures)).Round(time.Second); mean > 0 {
			c.Repair = mean.String()
		}
		m.Causes = append(m.Causes, *c)
	}
	_, err = m.Rates()
	return m, err
}
