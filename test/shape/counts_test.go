package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestCounts(t *testing.T) {
	c := counts{}
	err := c.countFile("a.go", []byte(`// Package p is one.
package p

// f does it.
func f(s, t *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) bool {
	switch inc.Trigger {
	case v1alpha1.PodPending:
		return inc.DryRun // it is
	}

	return inc.Trigger == breaker.Trips
}
`))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "counts", counts{
		codeLines: 8, statusParams: 2, ofTriggers: 2, ofPodPending: 1, ofDryRun: 1, ofTheBreaker: 1,
	}, c)
}

func TestWorlds(t *testing.T) {
	plays := []byte("plan := policies.PlanFor(o, s)")
	check.Equal(t, "the lab", true, isWorld("lab", plays))
	check.Equal(t, "the controllers", false, isWorld("controllers", plays))
}
