package check

import (
	"fmt"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// found are the findings of a report, one a line: severity, subject and what is wrong.
func found(t *testing.T, r Report) []string {
	t.Helper()
	var out []string
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			out = append(out, fmt.Sprintf("%s %s: %s", f.Severity, f.Subject, f.What))
			if f.Fix == "" {
				t.Errorf("%s has no fix", f.Subject)
			}
		}
	}
	return out
}

// change is a cluster that is good but for one thing, and what is found.
type change struct {
	make func(*Cluster)
	want []string
}

func expect(t *testing.T, tests map[string]change) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := good(t)
			tc.make(c)
			check.Equal(t, "findings", tc.want, found(t, Run(c)))
		})
	}
}

func TestNothingIsFoundOnAGoodCluster(t *testing.T) {
	r := Run(good(t))
	check.Equal(t, "findings", nil, found(t, r))
	check.Equal(t, "skipped", 0, r.Skipped)
	for _, c := range r.Checks {
		if c.Saw == "" {
			t.Errorf("check %s does not say what it saw", c.Check)
		}
	}
}

// A cluster of which nothing can be read has findings and skips, and no panic.
func TestWhatCannotBeReadIsTold(t *testing.T) {
	c := &Cluster{Now: now, Version: "v1.34.1", Unread: map[Resource]string{}}
	for _, resource := range []Resource{
		CRDs, Nodes, HyperNodes, Queues, TrainingJobs, NodeHealths, HealthPolicies, Deployments, DaemonSets, Leases, MutatingWebhooks,
		ValidatingWebhooks, ClusterRoles, ClusterRoleBindings,
	} {
		c.Unread[resource] = "list"
	}
	r := Run(c)
	check.Equal(t, "problems", 1, r.Problems)
	check.Equal(t, "skipped", len(checks)-2, r.Skipped) // but this one, and that of the version

	expect(t, map[string]change{
		"one right": {func(c *Cluster) { c.Unread[Leases] = "list" },
			[]string{"Problem Rights: You lack the rights to list leases.coordination.k8s.io. The checks that need them are skipped."}},
		"a kind that is not served, beside its CRD": {func(c *Cluster) { c.Unread[HyperNodes] = "" }, nil},
		"a kind that is not served, and no CRDs": {func(c *Cluster) {
			c.Unread[CRDs], c.Unread[HyperNodes] = "list", ""
		}, []string{
			"Problem Rights: You lack the rights to list customresourcedefinitions.apiextensions.k8s.io. The checks that need them are skipped.",
		}},
	})
}

func TestManyNamesAreShortened(t *testing.T) {
	check.Equal(t, "few", "a, b", some([]string{"b", "a"}))
	check.Equal(t, "many", "a, b, c, d, e and 2 more", some([]string{"g", "f", "e", "d", "c", "b", "a"}))
}
