package lab

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Model is how often what fails, as somebody has counted it.
type Model struct {
	// Source of the figures.
	Source string `json:"source"`
	// GPUs and Nodes that were watched, for Days.
	GPUs  int     `json:"gpus"`
	Nodes int     `json:"nodes"`
	Days  float64 `json:"days"`
	// Causes of the failures.
	Causes []Counted `json:"causes"`
	// Lemons are the nodes that fail more often than the others, if that was counted.
	Lemons *Lemons `json:"lemons,omitempty"`
	// NodeDays that were watched, of a model that was counted from jobs.
	NodeDays float64 `json:"-"`
	// AssumedRepair is for how long a node is away where that was not counted. Zero: it was, or no cause takes a node away.
	AssumedRepair time.Duration `json:"-"`
}

// AssumeRepair has the nodes of causes that do not tell it be away for some time.
func (m *Model) AssumeRepair(d time.Duration) {
	for i := range m.Causes {
		if c := &m.Causes[i]; c.Repair == "" && c.Effect.NeedsRepair() {
			c.Repair, m.AssumedRepair = d.String(), d
		}
	}
}

// Counted is a cause of failures that were counted.
type Counted struct {
	Name string `json:"name"`
	// Failures is how many there were, and PerThousandNodeDays how many in 1,000 days of one node, where that is what is known.
	Failures            int     `json:"failures,omitempty"`
	PerThousandNodeDays float64 `json:"perThousandNodeDays,omitempty"`
	Effect              Effect  `json:"effect"`
	// Scope is what one of them hits. Default: a node.
	Scope Scope `json:"scope,omitempty"`
	// Repair is how long the node is away or degraded, such as 24h: see Effect.NeedsRepair.
	Repair string `json:"repair,omitempty"`
	// Slowdown is how much slower the job trains under a Degradation, from 0 to 1.
	Slowdown float64 `json:"slowdown,omitempty"`
}

//go:embed models
var models embed.FS

// Models are the names of the models that are built in.
func Models() []string {
	entries, err := models.ReadDir("models")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// ModelNamed reads a model that is built in.
func ModelNamed(name string) (*Model, error) {
	raw, err := models.ReadFile(path.Join("models", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("there is no failure model %q: the models are %s", name, strings.Join(Models(), ", "))
	}
	return ParseModel(raw)
}

// ParseModel reads a model.
func ParseModel(raw []byte) (*Model, error) {
	m := &Model{}
	if err := yaml.UnmarshalStrict(raw, m); err != nil {
		return nil, fmt.Errorf("failure model: %w", err)
	}
	if _, err := m.Rates(); err != nil {
		return nil, err
	}
	return m, nil
}

// Rates are the causes, as they come to one node. An error names what of the model makes no sense.
func (m *Model) Rates() ([]Cause, error) {
	if len(m.Causes) == 0 {
		return nil, errors.New("causes is empty: give the model a cause")
	}
	if err := m.Lemons.check(); err != nil {
		return nil, err
	}
	var out []Cause
	for i, c := range m.Causes {
		if c.Name == "" {
			return nil, fmt.Errorf("causes[%d].name is empty: name the cause", i)
		}
		rate, err := m.rate(&c)
		if err != nil {
			return nil, err
		}
		cause := Cause{Name: c.Name, Effect: c.Effect, Scope: c.Scope, Slowdown: c.Slowdown, PerThousandNodeDays: rate}
		if c.Repair != "" {
			d, err := ParseTime(c.Repair)
			if err != nil || d < 0 {
				return nil, fmt.Errorf("cause %q has repair %q, and it has to be a time such as 24h or 2d", c.Name, c.Repair)
			}
			cause.Repair = d
		}
		if err := cause.check(); err != nil {
			return nil, err
		}
		if cause.Repair == 0 && c.Effect.NeedsRepair() {
			return nil, fmt.Errorf("cause %q has effect %s and needs repair, the time that its node is away, such as 24h", c.Name, c.Effect)
		}
		out = append(out, cause)
	}
	return out, nil
}

// rate is how often a cause comes, in 1,000 days of one node.
func (m *Model) rate(c *Counted) (float64, error) {
	switch {
	case c.Failures != 0 && c.PerThousandNodeDays != 0:
		return 0, fmt.Errorf("cause %q has failures and perThousandNodeDays: give one", c.Name)
	case c.Failures == 0:
		return c.PerThousandNodeDays, nil
	case m.Nodes <= 0 || m.Days <= 0:
		return 0, fmt.Errorf("nodes is %d and days is %g, and both have to be positive", m.Nodes, m.Days)
	}
	return float64(c.Failures) * 1000 / (float64(m.Nodes) * m.Days), nil
}
