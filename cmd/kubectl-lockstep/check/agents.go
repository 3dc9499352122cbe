package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
)

// agents checks that a health agent watches each GPU node, and says what keeps those that run from seeing everything.
func agents(c *Cluster) (string, []Finding) {
	gpus := c.gpuNodes()
	saw := count(len(gpus), "GPU node")
	sources := c.agentSources()
	if len(c.Agents.Items) == 0 && len(sources) == 0 {
		if len(gpus) == 0 {
			return saw, nil
		}
		return saw + ", no agent", []Finding{{
			Severity: Warning, Subject: "DaemonSet/lockstep-health-agent",
			What: "It is not installed, and no agent has reported on a node: faults of GPUs and links are not seen before a program fails of them.",
			Fix:  "Install the health agent: config/agent/README.md says how.",
		}}
	}
	var out []Finding
	for i := range c.Agents.Items {
		out = append(out, c.daemonSet(&c.Agents.Items[i])...)
	}
	return saw + ", " + c.agentsSeen(len(sources)), slices.Concat(out, c.silent(gpus, sources), c.said(sources), engines(sources))
}

// agentsSeen counts the agents that run. Their reports outlive them.
func (c *Cluster) agentsSeen(reports int) string {
	if len(c.Agents.Items) == 0 {
		return "no DaemonSet of agents, " + count(reports, "report")
	}
	var ready int32
	for i := range c.Agents.Items {
		ready += c.Agents.Items[i].Status.NumberReady
	}
	return count(int(ready), "agent")
}

// agentSources are what the agents say of themselves, by node.
func (c *Cluster) agentSources() map[string]v1alpha1.HealthSource {
	out := map[string]v1alpha1.HealthSource{}
	for i := range c.NodeHealths.Items {
		h := &c.NodeHealths.Items[i]
		for _, s := range h.Status.Sources {
			if s.Name == v1alpha1.SourceDCGM {
				out[h.Name] = s
			}
		}
	}
	return out
}

// maxLabelled is how many nodes one command labels.
const maxLabelled = 100

// daemonSet checks that the agents' pods run, and on which GPU nodes none does.
func (c *Cluster) daemonSet(d *appsv1.DaemonSet) []Finding {
	subject := "DaemonSet/" + d.Namespace + "/" + d.Name
	var out []Finding
	selector := labels.SelectorFromSet(d.Spec.Template.Spec.NodeSelector)
	var unlabelled []string
	for i := range c.Nodes.Items {
		if n := &c.Nodes.Items[i]; hasGPU(n) && !selector.Matches(labels.Set(n.Labels)) {
			unlabelled = append(unlabelled, n.Name)
		}
	}
	if len(unlabelled) > 0 {
		slices.Sort(unlabelled)
		out = append(out, Finding{
			Severity: Problem, Subject: "Node/" + unlabelled[0],
			What:    fmt.Sprintf("%s without the label %s, so that no health agent runs there: %s.", countAre(len(unlabelled), "GPU node"), selector, some(unlabelled)),
			Fix:     "Label them, or have NVIDIA's GPU feature discovery label them.",
			Command: "kubectl label nodes " + strings.Join(unlabelled[:min(len(unlabelled), maxLabelled)], " ") + " " + selector.String(),
		})
	}
	if n := d.Status.DesiredNumberScheduled - d.Status.NumberReady; n > 0 {
		out = append(out, Finding{
			Severity: Problem, Subject: subject, What: fmt.Sprintf("%d of its %d pods are not ready.", n, d.Status.DesiredNumberScheduled),
			Fix: "Look at what these pods say.", Command: fmt.Sprintf("kubectl -n %s describe pods -l %s", d.Namespace, labels.SelectorFromSet(d.Spec.Selector.MatchLabels)),
		})
	}
	return out
}

// silent finds GPU nodes of which no agent has been heard, or not for longer than the HealthPolicy allows. Those on which no agent
// can run are another finding.
func (c *Cluster) silent(gpus []string, sources map[string]v1alpha1.HealthSource) []Finding {
	after := healthpolicy.Of(&c.policy().Spec, c.Now).SilentAfter
	var never, stale []string
	for _, node := range gpus {
		switch s, ok := sources[node]; {
		case !ok:
			if c.watched(node) {
				never = append(never, node)
			}
		case s.HeartbeatTime != nil && c.Now.Sub(s.HeartbeatTime.Time) > after:
			stale = append(stale, node)
		}
	}
	fix, command := "Look at the agents' pods on these nodes, and at their logs.", "kubectl -n lockstep-health get pods -o wide"
	if len(c.Agents.Items) == 0 {
		fix, command = "No DaemonSet of agents is installed: install the health agent (config/agent/README.md), or delete the NodeHealths that it has left.", ""
	}
	var out []Finding
	add := func(nodes []string, what string) {
		if len(nodes) > 0 {
			out = append(out, Finding{
				Severity: Problem, Subject: "NodeHealth/" + slices.Min(nodes), What: fmt.Sprintf(what, count(len(nodes), "GPU node"), some(nodes)),
				Fix: fix, Command: command,
			})
		}
	}
	add(never, "No health agent has reported on %s: %s.")
	add(stale, "The health agents of %s have been silent for more than "+after.String()+": %s. Their health is Unknown.")
	return out
}

// watched reports whether a DaemonSet of agents selects a node.
func (c *Cluster) watched(node string) bool {
	at := slices.IndexFunc(c.Nodes.Items, func(n corev1.Node) bool { return n.Name == node })
	return at >= 0 && slices.ContainsFunc(c.Agents.Items, func(d appsv1.DaemonSet) bool {
		return labels.SelectorFromSet(d.Spec.Template.Spec.NodeSelector).Matches(labels.Set(c.Nodes.Items[at].Labels))
	})
}

// said groups what the agents say is wrong.
func (c *Cluster) said(sources map[string]v1alpha1.HealthSource) []Finding {
	type saying struct {
		state   v1alpha1.HealthState
		message string
	}
	by := map[saying][]string{}
	for node, s := range sources {
		if s.State == v1alpha1.HealthUnknown || s.Message != "" {
			by[saying{s.State, s.Message}] = append(by[saying{s.State, s.Message}], node)
		}
	}
	order := func(a, b saying) int { // what is unknown comes first
		return cmp.Or(strings.Compare(string(b.state), string(a.state)), strings.Compare(a.message, b.message))
	}
	var out []Finding
	for _, s := range slices.SortedFunc(maps.Keys(by), order) {
		f := Finding{
			Severity: Warning, Subject: "NodeHealth/" + slices.Min(by[s]),
			What: fmt.Sprintf("The health agents of %s say: %s (%s).", count(len(by[s]), "node"), s.message, some(by[s])),
			Fix:  `config/agent/README.md has what to do about each message, under "When something is wrong".`,
		}
		if s.state == v1alpha1.HealthUnknown {
			f.Severity = Problem
		}
		out = append(out, f)
	}
	return out
}

// oldestEngine is the oldest host engine of DCGM that the agent sees everything of (config/agent/README.md).
const oldestEngine = "4.6.0"

// engines finds host engines of DCGM that are too old to see everything of, and nodes whose engines differ.
func engines(sources map[string]v1alpha1.HealthSource) []Finding {
	by := map[string][]string{}
	for node, s := range sources {
		if s.Version != "" {
			by[s.Version] = append(by[s.Version], node)
		}
	}
	versions := slices.Sorted(maps.Keys(by))
	var out []Finding
	var all []string
	for _, v := range versions {
		all = append(all, fmt.Sprintf("%s on %s (%s)", v, count(len(by[v]), "node"), some(by[v])))
		if parsed, err := version.ParseGeneric(v); err == nil && parsed.LessThan(version.MustParseGeneric(oldestEngine)) {
			out = append(out, Finding{
				Severity: Warning, Subject: "NodeHealth/" + slices.Min(by[v]),
				What: fmt.Sprintf("DCGM's host engine is of version %s on %s: %s. Before 4.6 the counters of each link cannot be read.", v, count(len(by[v]), "node"), some(by[v])),
				Fix:  "Upgrade the host engines to DCGM 4.6 or newer.",
			})
		}
	}
	if len(versions) > 1 {
		out = append(out, Finding{
			Severity: Warning, Subject: "NodeHealth/" + slices.Min(by[versions[0]]),
			What: "DCGM's host engines are of different versions: " + strings.Join(all, ", ") + ". The same fault may be seen on some nodes and not on others.",
			Fix:  "Bring all host engines to one version.",
		})
	}
	return out
}

// policy is the HealthPolicy, or an empty one.
func (c *Cluster) policy() *v1alpha1.HealthPolicy {
	for i := range c.HealthPolicies.Items {
		if c.HealthPolicies.Items[i].Name == v1alpha1.HealthPolicyName {
			return &c.HealthPolicies.Items[i]
		}
	}
	return &v1alpha1.HealthPolicy{}
}
