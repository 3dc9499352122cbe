package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
)

// failures is where the failure model comes from.
type failures struct {
	from  string
	nodes int
	now   func() time.Time
}

// isObject tells objects of Kubernetes from failure models.
var isObject = regexp.MustCompile(`(?m)^(apiVersion:|---)`)

func (f *failures) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "failures", "llama3", "failure model: "+strings.Join(lab.Models(), ", ")+"; a file with one; a .csv file of incidents; or a file with TrainingJobs, whose incidents count")
	flags.IntVar(&f.nodes, "counted-nodes", 0, "nodes on which the incidents of a .csv file were counted")
}

func (f *failures) read() (*lab.Model, error) {
	if !strings.ContainsAny(f.from, "./") {
		return lab.ModelNamed(f.from)
	}
	raw, err := os.ReadFile(f.from)
	if err != nil {
		return nil, fmt.Errorf("--failures: %w", err)
	}
	var m *lab.Model
	switch {
	case filepath.Ext(f.from) == ".csv":
		m, err = f.count(string(raw))
	case isObject.Match(raw):
		var jobs []*v1alpha1.TrainingJob
		if jobs, err = readJobs(f.from); err == nil {
			m, err = lab.CountIncidents(jobs, f.now())
		}
	default:
		m, err = lab.ParseModel(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("--failures %s: %w", f.from, err)
	}
	return m, nil
}

// csvColumns are the columns of a list of incidents, in any order. The last two may be missing.
var csvColumns = []string{"time", "cause", "effect", "repair", "node"}

// count counts the incidents of a list by cause. How long they were counted is from the first to the last.
func (f *failures) count(text string) (*lab.Model, error) {
	if f.nodes < 1 {
		return nil, errors.New("a list of incidents needs --counted-nodes, the nodes on which they were counted")
	}
	rows := csv.NewReader(strings.NewReader(text))
	rows.TrimLeadingSpace = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("the first line has to name the columns %s: %w", strings.Join(csvColumns, ","), err)
	}
	for _, name := range csvColumns[:3] {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("column %s is missing: the first line is %q, and has to name %s", name, strings.Join(header, ","), strings.Join(csvColumns, ","))
		}
	}
	log := incidentLog{byCause: map[string]*lab.Counted{}}
	for line := 2; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := log.add(header, row); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	return log.model(f.nodes)
}

// incidentLog is a list of incidents, as far as it was read.
type incidentLog struct {
	first, last time.Time
	byCause     map[string]*lab.Counted
}

func (l *incidentLog) add(header, row []string) error {
	field := map[string]string{}
	for i, name := range header {
		field[name] = row[i]
	}
	at, err := time.Parse(time.RFC3339, field["time"])
	if err != nil {
		return fmt.Errorf("time is %q, and has to be like 2026-01-31T12:00:00Z", field["time"])
	}
	if l.first.IsZero() || at.Before(l.first) {
		l.first = at
	}
	if at.After(l.last) {
		l.last = at
	}
	one := lab.Counted{Name: field["cause"], Failures: 1, Effect: lab.Effect(field["effect"]), Repair: field["repair"]}
	known := l.byCause[one.Name]
	if known == nil {
		l.byCause[one.Name] = &one
		return nil
	}
	if known.Effect != one.Effect {
		return fmt.Errorf("cause %q has effect %s, and had %s before: give each effect its own cause", one.Name, one.Effect, known.Effect)
	}
	known.Failures++
	return nil
}

func (l *incidentLog) model(nodes int) (*lab.Model, error) {
	days := l.last.Sub(l.first).Hours() / 24
	if days < 1 {
		return nil, errors.New("the incidents are within one day, which is too short to tell how often they come")
	}
	m := &lab.Model{Source: fmt.Sprintf("incidents from %s to %s", l.first.Format(time.DateOnly), l.last.Format(time.DateOnly)), Nodes: nodes, Days: days}
	for _, name := range slices.Sorted(maps.Keys(l.byCause)) {
		m.Causes = append(m.Causes, *l.byCause[name])
	}
	_, err := m.Rates()
	return m, err
}
