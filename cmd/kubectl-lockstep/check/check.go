// Package check finds what is wrong with an installation of Lockstep. Read reads a cluster into a Cluster, and Run looks at that
// alone: each check is a function that writes what it saw, and its findings, into a Result.
package check

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// Severity says how much a finding matters.
type Severity string

const (
	// Problem means that something does not work, or will not when it is needed.
	Problem Severity = "Problem"
	// Warning means that something works less well than it could, or waits for a person.
	Warning Severity = "Warning"
)

// Finding is something that is wrong, and what to do about it.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is the kind and the name of what it is about, such as HyperNode/rack-7.
	Subject string `json:"subject"`
	// What is wrong, and what that leads to.
	What string `json:"what"`
	// Fix says what to do.
	Fix string `json:"fix"`
	// Command does it, or begins to, where one command can.
	Command string `json:"command,omitempty"`
}

// Result is what one check has found.
type Result struct {
	Check string `json:"check"`
	// Saw says what was looked at.
	Saw string `json:"saw,omitempty"`
	// Lacks are the resources that the check needs and that could not be read, so that it was skipped.
	Lacks    []Resource `json:"lacks,omitempty"`
	Findings []Finding  `json:"findings,omitempty"`
}

func (r *Result) problem(subject, what, fix string, command ...string) {
	r.add(Problem, subject, what, fix, command...)
}

func (r *Result) warning(subject, what, fix string, command ...string) {
	r.add(Warning, subject, what, fix, command...)
}

func (r *Result) add(severity Severity, subject, what, fix string, command ...string) {
	r.Findings = append(r.Findings, Finding{severity, subject, what, fix, strings.Join(command, "")})
}

// Number is how many findings of a severity there are.
func (r *Result) Number(severity Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// Report is what all checks have found.
type Report struct {
	Problems int      `json:"problems"`
	Warnings int      `json:"warnings"`
	Skipped  int      `json:"skipped"`
	Checks   []Result `json:"checks"`
}

// probe is one check: it looks at one part of an installation.
type probe struct {
	name string
	// needs are the resources without which it says nothing.
	needs []Resource
	look  func(*Cluster, *Result)
}

// checks are all of them, in the order in which one thing depends on another.
var checks = []probe{
	{"reads", nil, reads},
	{"kubernetes", nil, kubernetes},
	{"lockstep-crds", []Resource{CRDs}, lockstepCRDs},
	{"volcano-crds", []Resource{CRDs}, volcanoCRDs},
	{"volcano", []Resource{Deployments}, volcanoComponents},
	{"scheduler", []Resource{Deployments, ConfigMaps}, scheduler},
	{"webhooks", []Resource{MutatingWebhooks, ValidatingWebhooks, Services, EndpointSlices}, webhooks},
	{"hypernodes", []Resource{HyperNodes, Nodes}, hyperNodes},
	{"queues", []Resource{Queues, TrainingJobs}, queues},
	{"manager", []Resource{Deployments, Leases, HealthPolicies}, manager},
	{"manager-rights", []Resource{Deployments, ClusterRoles, ClusterRoleBindings}, managerRights},
	{"supervisors", []Resource{Deployments, Leases, TrainingJobs, Services, EndpointSlices}, supervision},
	{"agents", []Resource{DaemonSets, Nodes, NodeHealths, HealthPolicies}, agents},
	{"taints", []Resource{Nodes, TrainingJobs, NodeHealths, DaemonSets}, taints},
	{"health", []Resource{NodeHealths, HealthPolicies}, health},
	{"jobs", []Resource{TrainingJobs}, jobs},
}

// Run makes every check for which enough of the cluster could be read.
func Run(c *Cluster) Report {
	var r Report
	for _, p := range checks {
		result := Result{Check: p.name, Lacks: c.lacks(p.needs)}
		if len(result.Lacks) > 0 {
			r.Skipped++
		} else {
			p.look(c, &result)
		}
		r.Problems += result.Number(Problem)
		r.Warnings += result.Number(Warning)
		r.Checks = append(r.Checks, result)
	}
	return r
}

// maxNames is how many names one finding gives.
const maxNames = 5

// some lists names, the first few of many.
func some(names []string) string {
	return lines.Names(slices.Sorted(slices.Values(names)), maxNames)
}

// countAre is a number of things with the verb: "1 node is", "2 nodes are".
func countAre(n int, what string) string {
	return lines.Count(n, what) + lines.Plural(n, " is", " are")
}

// full is the name of an object with its namespace.
func full(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
