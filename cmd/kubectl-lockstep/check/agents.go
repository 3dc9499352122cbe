// Health: whether an agent watches each GPU node, what the agents say, and what waits for a person.

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
)

// agents checks that a health agent watches each GPU node, and says what keeps those that run from seeing everything.
func agents(c *Cluster, r *Result) {
	gpus, sources := c.gpuNodes(), map[string]v1alpha1.HealthSource{} // what the agents say of themselves, by node
	for _, h := range c.NodeHealths.Items {
		for _, s := range h.Status.Sources {
			if s.Name == v1alpha1.SourceDCGM {
				sources[h.Name] = s
			}
		}
	}
	ready := 0
	for _, d := range c.Agents.Items {
		ready += int(d.Status.NumberReady)
		if n := d.Status.DesiredNumberScheduled - d.Status.NumberReady; n > 0 {
			r.problem("DaemonSet/"+full(&d), fmt.Sprintf("%d of its %d pods are not ready.", n, d.Status.DesiredNumberScheduled),
				"Look at what these pods say.", describePods(d.Namespace, d.Spec.Selector))
		}
	}
	r.Saw = lines.Count(len(gpus), "GPU node")
	switch {
	case len(c.Agents.Items) > 0:
		r.Saw += ", " + lines.Count(ready, "agent")
	case len(sources) > 0: // reports outlive the agents
		r.Saw += ", no DaemonSet of agents, " + lines.Count(len(sources), "report")
	case len(gpus) > 0:
		r.Saw += ", no agent"
		r.warning("DaemonSet/lockstep-health-agent",
			"It is not installed, and no agent has reported on a node: faults of GPUs and links are not seen before a program fails of them.",
			"Install the health agent: config/agent/README.md says how.")
	}
	r.unwatched(c, gpus, sources)
	r.said(sources)
	r.engines(sources)
}

// maxLabelled is how many nodes one command labels.
const maxLabelled = 100

// watched are the nodes that a DaemonSet of agents selects, and the labels that the last one selects by.
func (c *Cluster) watched() (nodes map[string]bool, label string) {
	nodes = map[string]bool{}
	for _, d := range c.Agents.Items {
		selector := labels.SelectorFromSet(d.Spec.Template.Spec.NodeSelector)
		label = selector.String()
		for _, n := range c.Nodes.Items {
			nodes[n.Name] = nodes[n.Name] || selector.Matches(labels.Set(n.Labels))
		}
	}
	return nodes, label
}

// unwatched finds GPU nodes that no DaemonSet of agents selects, those whose agent has never reported, and those whose agent has been
// silent for longer than the HealthPolicy allows.
func (r *Result) unwatched(c *Cluster, gpus []string, sources map[string]v1alpha1.HealthSource) {
	after := healthpolicy.Of(&c.policy().Spec, c.Now).SilentAfter
	watched, label := c.watched()
	var unlabelled, never, stale []string
	for _, node := range slices.Sorted(slices.Values(gpus)) {
		switch s, reported := sources[node]; {
		case label != "" && !watched[node]:
			unlabelled = append(unlabelled, node)
		case reported && s.HeartbeatTime != nil && c.Now.Sub(s.HeartbeatTime.Time) > after:
			stale = append(stale, node)
		case !reported && watched[node]:
			never = append(never, node)
		}
	}
	if len(unlabelled) > 0 {
		nodes := countAre(len(unlabelled), "GPU node")
		r.problem("Node/"+unlabelled[0], nodes+" without the label "+label+", so that no health agent runs there: "+some(unlabelled)+".",
			"Label them, or have NVIDIA's GPU feature discovery label them.",
			"kubectl label nodes "+strings.Join(unlabelled[:min(len(unlabelled), maxLabelled)], " ")+" "+strings.ReplaceAll(label, ",", " "))
	}
	fix, command := "Look at the agents' pods on these nodes, and at their logs.", "kubectl -n lockstep-health get pods -o wide"
	if len(c.Agents.Items) == 0 {
		fix, command = "Install the health agent, whose DaemonSet is missing (config/agent/README.md), or delete the NodeHealths it has left.", ""
	}
	if len(never) > 0 {
		r.problem("NodeHealth/"+never[0], "No health agent has reported on "+lines.Count(len(never), "GPU node")+": "+some(never)+".", fix, command)
	}
	if len(stale) > 0 {
		r.problem("NodeHealth/"+stale[0], fmt.Sprintf("The health agents of %s have been silent for more than %s: %s. Their health is Unknown.",
			lines.Count(len(stale), "GPU node"), after, some(stale)), fix, command)
	}
}

// nodesBy returns what the agents say of themselves, such as their versions, and the nodes where they say so. Those that say nothing are
// left out.
func nodesBy(sources map[string]v1alpha1.HealthSource, value func(v1alpha1.HealthSource) string) (map[string][]string, []string) {
	nodes := map[string][]string{}
	for node, s := range sources {
		if v := value(s); v != "" {
			nodes[v] = append(nodes[v], node)
		}
	}
	return nodes, slices.Sorted(maps.Keys(nodes))
}

// said groups what the agents say is wrong. An agent that says why the health of its node is Unknown sees nothing.
func (r *Result) said(sources map[string]v1alpha1.HealthSource) {
	by, messages := nodesBy(sources, func(s v1alpha1.HealthSource) string { return s.Message })
	for _, message := range messages {
		severity := Warning
		if slices.ContainsFunc(by[message], func(node string) bool { return sources[node].State == v1alpha1.HealthUnknown }) {
			severity = Problem
		}
		r.add(severity, "NodeHealth/"+slices.Min(by[message]),
			fmt.Sprintf("The health agents of %s say: %s (%s).", lines.Count(len(by[message]), "node"), message, some(by[message])),
			`config/agent/README.md has what to do about each message, under "When something is wrong".`)
	}
}

// oldestEngine is the oldest host engine of DCGM that the agent sees everything of (config/agent/README.md).
const oldestEngine = "4.6.0"

// engines finds host engines of DCGM that are too old to see everything of, and nodes whose engines differ.
func (r *Result) engines(sources map[string]v1alpha1.HealthSource) {
	by, versions := nodesBy(sources, func(s v1alpha1.HealthSource) string { return s.Version })
	var all []string
	for _, v := range versions {
		nodes := lines.Count(len(by[v]), "node")
		all = append(all, fmt.Sprintf("%s on %s (%s)", v, nodes, some(by[v])))
		if isOlder(v, oldestEngine) {
			r.warning("NodeHealth/"+slices.Min(by[v]), fmt.Sprintf(
				"DCGM's host engine is of version %s on %s: %s. Before 4.6 the counters of each link cannot be read.", v, nodes, some(by[v])),
				"Upgrade the host engines to DCGM 4.6 or newer.")
		}
	}
	if len(all) > 1 {
		r.warning("NodeHealth/"+slices.Min(by[versions[0]]), "DCGM's host engines are of different versions: "+strings.Join(all, ", ")+
			". The same fault may be seen on some nodes and not on others.", "Bring all host engines to one version.")
	}
}

// policy is the HealthPolicy, or an empty one. The API server takes one only.
func (c *Cluster) policy() *v1alpha1.HealthPolicy {
	if len(c.HealthPolicies.Items) == 0 {
		return &v1alpha1.HealthPolicy{}
	}
	return &c.HealthPolicies.Items[0]
}

// health finds what waits for a person.
func health(c *Cluster, r *Result) {
	r.Saw = lines.Count(len(c.NodeHealths.Items), "NodeHealth")
	policy := c.policy()
	open := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionBreakerOpen)
	if open != nil && open.Status == metav1.ConditionTrue {
		r.warning("HealthPolicy/"+policy.Name,
			"The breaker holds unhealthy nodes back, and nothing is done about them: "+strings.TrimSuffix(open.Message, ".")+".",
			"Find out whether the reports are true. If they are, acknowledge them.", "kubectl lockstep ack breaker")
	}
	var lemons []string
	for _, h := range c.NodeHealths.Items {
		if h.Status.Verdict != nil && h.Status.Verdict.Lemon {
			lemons = append(lemons, h.Name)
		}
	}
	if len(lemons) > 0 {
		r.warning("NodeHealth/"+slices.Min(lemons), countAre(len(lemons), "node")+
			" in quarantine until somebody has looked at it, after repeated failures: "+some(lemons)+".",
			"Repair the node, and acknowledge it.", "kubectl lockstep ack node "+slices.Min(lemons))
	}
}
