package simulate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
)

// csvColumns are the columns of a list of incidents that are read, in any order. The last one may be missing.
var csvColumns = []string{"time", "cause", "effect", "repair"}

// count counts the incidents of a list by cause. How long they were counted is from the first to the last.
func (f *failures) count(raw []byte) (*lab.Model, error) {
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	rows.TrimLeadingSpace, rows.FieldsPerRecord = true, -1
	columns := strings.Join(csvColumns, ",")
	header, err := rows.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the file is empty: its first line has to name the columns %s", columns)
	case err != nil:
		return nil, csvError(err)
	}
	for _, name := range csvColumns[:3] {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("line 1: column %s is missing: it is %q, and has to name %s", name, strings.Join(header, ","), columns)
		}
	}
	log := incidentLog{assumed: f.repair, byCause: map[string]*lab.Counted{}, repair: map[string]time.Duration{}}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return log.model(f.nodes)
		}
		if err != nil {
			return nil, csvError(err)
		}
		if err := log.add(header, row); err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// csvError says where a file is no CSV.
func csvError(err error) error {
	wrong, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("line %d, character %d: %w: put the field into quotes, and double those within it", wrong.Line, wrong.Column, wrong.Err)
}

// incidentLog is a list of incidents, as far as it was read.
type incidentLog struct {
	first, last time.Time
	// assumed is for how long a node is away whose row does not tell it, and untold whether there is such a row.
	assumed time.Duration
	untold  bool
	byCause map[string]*lab.Counted
	repair  map[string]time.Duration // of all incidents of a cause together
}

func (l *incidentLog) add(header, row []string) error {
	if len(row) != len(header) {
		return fmt.Errorf("it has %d fields, and the first line has %d columns: give each column one", len(row), len(header))
	}
	field := map[string]string{}
	for i, name := range header {
		field[name] = row[i]
	}
	at, err := time.Parse(time.RFC3339, field["time"])
	if err != nil {
		return fmt.Errorf("time is %q, and has to be like 2026-01-31T12:00:00Z", field["time"])
	}
	one := lab.Counted{Name: field["cause"], Failures: 1, Effect: lab.Effect(field["effect"]), Repair: field["repair"]}
	if one.Name == "" {
		return errors.New("cause is empty: name it")
	}
	alone := &lab.Model{Nodes: 1, Days: 1, Causes: []lab.Counted{one}}
	alone.AssumeRepair(l.assumed)
	l.untold = l.untold || alone.AssumedRepair > 0
	rates, err := alone.Rates()
	if err != nil {
		return err
	}
	if l.first.IsZero() || at.Before(l.first) {
		l.first = at
	}
	if at.After(l.last) {
		l.last = at
	}
	known := l.byCause[one.Name]
	if known != nil && known.Effect != one.Effect {
		return fmt.Errorf("cause %q has effect %s, and had %s before: give each effect its own cause", one.Name, one.Effect, known.Effect)
	}
	if known == nil {
		known = &lab.Counted{Name: one.Name, Effect: one.Effect}
		l.byCause[one.Name] = known
	}
	known.Failures++
	l.repair[one.Name] += rates[0].Repair
	return nil
}

// model is that of the incidents. A cause is repaired after the mean of its times.
func (l *incidentLog) model(nodes int) (*lab.Model, error) {
	if len(l.byCause) == 0 {
		return nil, errors.New("there are no incidents in it below the names of the columns")
	}
	days := l.last.Sub(l.first).Hours() / 24
	if days < 1 {
		return nil, errors.New("the incidents are within one day, which is too short to tell how often they come")
	}
	m := &lab.Model{Source: fmt.Sprintf("incidents from %s to %s", l.first.Format(time.DateOnly), l.last.Format(time.DateOnly)), Nodes: nodes, Days: days}
	for _, name := range slices.Sorted(maps.Keys(l.byCause)) {
		c := l.byCause[name]
		if mean := (l.repair[name] / time.Duration(c.Failures)).Round(time.Second); mean > 0 {
			c.Repair = mean.String()
		}
		m.Causes = append(m.Causes, *c)
	}
	if l.untold {
		m.AssumedRepair = l.assumed
	}
	_, err := m.Rates()
	return m, err
}
