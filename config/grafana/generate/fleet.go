// The dashboard of those who look after nodes: which are ill, what is done about them, and whether their agents say so in time.

package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// links matches the signals of links between GPUs and nodes.
const links = `(NVLink|C2CLink|Fabric|IB|PCIe|ConnectX).*`

// onNodes replaces the word SELECTED by the selector of the nodes that the reader chose.
func onNodes(expr string) string {
	return strings.ReplaceAll(expr, "SELECTED", `instance=~"$node"`)
}

func fleet() page {
	return page{
		name:  "fleet",
		title: "Lockstep / Nodes",
		description: "Which nodes are ill, by which signals, and what Lockstep does about it. Lockstep's metrics have no label for nodes or HyperNodes; " +
			"those of an agent have its node as their instance. `kubectl lockstep nodes` names the rest.",
		variables: []variable{{"node", `label_values(lockstep_health_dcgm_connected, instance)`, "Nodes that have an agent."}},
		rows: []row{
			{"Nodes", fleetNow()},
			{"Over time", fleetOverTime()},
			{"Signals", signals()},
			{"Agents", agents()},
		},
	}
}

func fleetNow() []panel {
	return []panel{
		{
			title: "Ill nodes", unit: units.Short, scale: badFrom(1),
			shows:     "Nodes that are not healthy: Failed, Degraded, or Unknown, of which nobody can tell.",
			good:      "0 of each.",
			otherwise: "`kubectl lockstep nodes` names them, with their signals.",
			queries:   []query{{`max by (state) (lockstep_nodes)`, "{{state}}"}},
		},
		{
			title: "In quarantine", unit: units.Short, scale: badFrom(1),
			shows:     "Nodes that no job is placed on, and how many of these are lemons: they failed too often, and stay until somebody acknowledges.",
			good:      "0. After an hour the alert LockstepNodesQuarantined fires.",
			otherwise: "Repair them. A node that is well leaves quarantine by itself, and a lemon after `kubectl lockstep ack node NODE`.",
			queries:   []query{{`max(lockstep_quarantined_nodes)`, "in quarantine"}, {`max(lockstep_lemon_nodes)`, "lemons"}},
		},
		{
			title: "Open breakers", unit: units.Short, scale: badFrom(1),
			shows:     "Scopes in which Lockstep has stopped to act, because too many nodes are unhealthy at once: HyperNodes, or the cluster.",
			good:      "0.",
			otherwise: "Either much is broken, or a sensor is. `kubectl get healthpolicy " + v1alpha1.HealthPolicyName + " -o yaml` names the breakers; find out which it is. Where the reports are true, run `kubectl lockstep ack breaker`.",
			queries:   []query{{`max by (scope) (lockstep_breaker_open) or on () vector(0)`, "{{scope}}"}},
		},
		{
			title: "Held nodes", unit: units.Short,
			shows:     "Nodes kept free for a job that recovers. The figure comes from kube-state-metrics.",
			good:      "0 but for the minutes of a recovery.",
			otherwise: "Holds end by themselves. Where one lasts, its job does not come back: see open incidents.",
			queries:   []query{{`count(count by (node) (kube_node_spec_taint{key=~"hold[.]lockstep[.]dev/.+"})) or on () vector(0)`, "held"}},
		},
	}
}

func fleetOverTime() []panel {
	return []panel{
		{
			title: "Ill nodes, by state", unit: units.Short, form: lines,
			shows:     "Nodes that are not healthy, by state.",
			good:      "Few, and not rising.",
			otherwise: "A step up of many at once is a sensor, a switch or a change of software: compare it with the signals below.",
			queries:   []query{{`max by (state) (lockstep_nodes)`, "{{state}}"}},
		},
		{
			title: "In quarantine, and held back", unit: units.Short, form: lines,
			shows:     "Nodes in quarantine, and unhealthy nodes about which nothing is done because a breaker is open.",
			good:      "None is held back.",
			otherwise: "Look at the breakers: what they hold back waits until `kubectl lockstep ack breaker`, or until it is not reported any more. Time alone lets nothing through.",
			queries:   []query{{`max(lockstep_quarantined_nodes)`, "in quarantine"}, {`max(lockstep_held_back_nodes)`, "held back"}},
		},
		{
			title: "Quarantines that began", unit: units.Short, form: bars,
			shows:     "Nodes that were put into quarantine.",
			good:      "A few a day in a thousand nodes.",
			otherwise: "More: look for what the nodes have in common, such as a rack, a driver or a batch.",
			queries:   []query{{`sum(increase(lockstep_quarantines_total[$__rate_interval]))`, "began"}},
		},
		{
			title: "Taints of Lockstep", unit: units.Short, form: lines,
			shows:     "Nodes by the taint that Lockstep has put on them: quarantine, degraded, and holds. The figures come from kube-state-metrics.",
			good:      "As many in quarantine as the panel beside it says.",
			otherwise: "Where they differ for longer than a minute, somebody else changes taints, or the manager may not: see refused writes on the operator's dashboard.",
			queries: []query{
				{`count by (key) (kube_node_spec_taint{key=~"lockstep[.]dev/.+"})`, "{{key}}"},
				{`count(count by (node) (kube_node_spec_taint{key=~"hold[.]lockstep[.]dev/.+"}))`, "holds"},
			},
		},
	}
}

func signals() []panel {
	return []panel{
		{
			title: "Faults, by signal", unit: units.Short, form: lines,
			shows:     "Faults that the agents report now, by signal and state.",
			good:      "None.",
			otherwise: "health/table.md says for each signal what it means and what ends it.",
			queries:   []query{{onNodes(`sum by (signal, state) (lockstep_health_faults{SELECTED}) > 0`), "{{signal}} {{state}}"}},
		},
		{
			title: "Links", unit: units.Short, form: lines,
			shows:     "Links with a fault now, by signal: NVLink, PCIe and InfiniBand, their adapters and the fabric.",
			good:      "None.",
			otherwise: "One node: its cable, port or GPU. Many nodes of one rack: their switch.",
			queries:   []query{{onNodes(`sum by (signal) (lockstep_health_faults{SELECTED, signal=~"` + links + `"}) > 0`), "{{signal}}"}},
		},
		{
			title: "Nodes with the most faults", unit: units.Short, form: lines,
			shows:     "The ten agents that know of the most faults.",
			good:      "None.",
			otherwise: "`kubectl get nodehealth NODE -o yaml` lists the faults of a node, with the pods that they concern.",
			queries:   []query{{onNodes(`topk(10, sum by (instance) (lockstep_health_faults{SELECTED}) > 0)`), "{{instance}}"}},
		},
		{
			title: "Alerts received, by outcome", unit: units.Short, form: bars,
			shows:     "Alerts that Alertmanager sent to the manager, by what became of them.",
			good:      "Applied.",
			otherwise: "Refused or UnknownNode: their labels do not say what is needed; the manager's log names them, and health/alerts/README.md says how to mend it.",
			queries:   []query{{`sum by (outcome) (increase(lockstep_alerts_total[$__rate_interval])) > 0`, "{{outcome}}"}},
		},
	}
}

func agents() []panel {
	return []panel{
		{
			title: "Agents without DCGM", unit: units.Short, scale: badFrom(1),
			shows:     "Agents whose last poll DCGM did not answer.",
			good:      "0.",
			otherwise: "Look at the agents' logs, and whether the host engine runs on their nodes; config/agent/README.md says where they look for it.",
			queries:   []query{{onNodes(`count(lockstep_health_dcgm_connected{SELECTED} == 0) or on () vector(0)`), "agents"}},
		},
		{
			title: "Agents that cannot tell", unit: units.Short, scale: badFrom(1),
			shows:     "Agents that cannot tell how well their node is.",
			good:      "0.",
			otherwise: "Their log, and status.sources[].message of the NodeHealth, say why.",
			queries:   []query{{onNodes(`sum(lockstep_health_unknown{SELECTED})`), "agents"}},
		},
		{
			title: "Refused health tables", unit: units.Short, scale: badFrom(1),
			shows:     "Agents that refuse a file of their health table, and go on with the last good one.",
			good:      "0.",
			otherwise: "Their log names the row.",
			queries:   []query{{onNodes(`sum(lockstep_health_overrides_refused{SELECTED})`), "agents"}},
		},
		{
			title: "Oldest report", unit: units.Seconds, scale: badFrom(900),
			shows:     "How long ago the agent that has been silent for longest wrote the NodeHealth of its node.",
			good:      "Below 300 s: agents write when something changes, and every 5 minutes otherwise. After 900 s the node is Unknown.",
			otherwise: "See the panel below for its node, and writes that fail.",
			queries:   []query{{onNodes(`max(time() - (lockstep_health_last_write_timestamp_seconds{SELECTED} > 0))`), "oldest"}},
		},
		{
			title: "Age of reports", unit: units.Seconds, form: lines,
			shows:     "How long ago the agents wrote the NodeHealth of their nodes: the ten oldest.",
			good:      "Each line rises to 300 s at most, and falls back.",
			otherwise: "A line that keeps rising is an agent that polls no more, or may not write.",
			queries:   []query{{onNodes(`topk(10, time() - (lockstep_health_last_write_timestamp_seconds{SELECTED} > 0))`), "{{instance}}"}},
		},
		{
			title: "Time of a poll", unit: units.Seconds, form: lines,
			shows:     "How long DCGM and the ports take to be read: the median, and what one poll in a hundred exceeds.",
			good:      "Below 1 s.",
			otherwise: "DCGM is slow on some nodes: look at its host engine there.",
			queries: []query{
				{onNodes(`histogram_quantile(0.5, sum by (le) (rate(lockstep_health_poll_duration_seconds_bucket{SELECTED}[$__rate_interval])))`), "median"},
				{onNodes(`histogram_quantile(0.99, sum by (le) (rate(lockstep_health_poll_duration_seconds_bucket{SELECTED}[$__rate_interval])))`), "one in a hundred"},
			},
		},
		{
			title: "Polls that fail", unit: units.OpsPerSecond, form: lines,
			shows:     "Polls that DCGM did not answer, per second, of all agents.",
			good:      "0.",
			otherwise: "Nodes become Unknown: nothing is done about them, and nothing is known.",
			queries:   []query{{onNodes(`sum(rate(lockstep_health_polls_total{SELECTED, outcome="Failed"}[$__rate_interval]))`), "failed"}},
		},
		{
			title: "Writes of agents", unit: units.OpsPerSecond, form: lines,
			shows:     "Writes of NodeHealths per second, by outcome.",
			good:      "One per node in 5 minutes, and none that fails.",
			otherwise: "Failed: the agents lack the rights of config/agent, or the API server refuses them. Many Written: a signal that comes and goes.",
			queries:   []query{{onNodes(`sum by (outcome) (rate(lockstep_health_writes_total{SELECTED}[$__rate_interval]))`), "{{outcome}}"}},
		},
	}
}
