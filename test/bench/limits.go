// Limits: what limits.yaml says that figures may be.

package main

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed limits.yaml
var limitsFile []byte

// limit bounds one figure of gangs from a size on. What is zero or nil is not limited.
type limit struct {
	Figure   figure  `json:"figure"`
	Against  figure  `json:"against"`
	FromPods int     `json:"fromPods"`
	Ratio    float64 `json:"ratio"`
	Seconds  int     `json:"seconds"`
	Writes   *atMost `json:"writes"`
	Holds    *atMost `json:"holds"`
}

// atMost is a count that grows with the gang.
type atMost struct {
	PerPod int `json:"perPod"`
	More   int `json:"more"`
}

func (m *atMost) of(pods int) int { return m.PerPod*pods + m.More }

// readLimits reads the file, which a test reads, too.
func readLimits() []limit {
	var all []limit
	if err := yaml.UnmarshalStrict(limitsFile, &all); err != nil {
		panic(fmt.Sprintf("limits.yaml: %v", err))
	}
	for i := range all {
		if all[i].Against == "" {
			all[i].Against = all[i].Figure
		}
	}
	return all
}

// limitOf returns what is in force for a figure.
func limitOf(all []limit, of, against figure, pods int) limit {
	var found limit
	for _, l := range all {
		if l.Figure == of && l.Against == against && pods >= l.FromPods {
			found = l
		}
	}
	return found
}
