// The dashboard of those who run Lockstep: whether it leads, decides and writes as it should.

package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// ofManagers keeps the series of Lockstep's managers, of metrics that many programs have: only their instances have the gauge of nodes
// in quarantine.
func ofManagers(expr string) string { return expr + " and on (instance) lockstep_quarantined_nodes" }

// ofAgents is the same for health agents.
func ofAgents(expr string) string { return expr + " and on (instance) lockstep_health_unknown" }

// controllers matches those of the manager.
func controllers(expr string) string {
	return strings.ReplaceAll(expr, "CONTROLLERS", `trainingjob|holds|fleet|fleet-act`)
}

func operator() page {
	return page{
		name:        "operator",
		title:       "Lockstep / Operator",
		description: "Whether Lockstep itself is well: its managers, its agents, and the receiver of alerts.",
		rows: []row{
			{"Managers", managers()},
			{"Controllers", reconciles()},
			{"The API server", requests()},
			{"Programs", programs()},
		},
	}
}

func managers() []panel {
	return []panel{
		{
			title: "Leaders", unit: units.Short, scale: goodFrom(1),
			shows:     "Managers that hold the lease.",
			good:      "1.",
			otherwise: "0: no job is placed, and none recovers; look at the pods of the Deployment lockstep-manager. A manager without leader election shows nothing here.",
			queries:   []query{{`sum(leader_election_master_status{name="manager.lockstep.dev"})`, "leaders"}},
		},
		{
			title: "Managers", unit: units.Short, scale: goodFrom(2),
			shows:     "Managers that Prometheus scrapes.",
			good:      "2, so that one takes over, in 17 s, where the node of the other dies.",
			otherwise: "Look at the pods of the Deployment lockstep-manager, and at Prometheus' targets.",
			queries:   []query{{`count(lockstep_quarantined_nodes)`, "managers"}},
		},
		{
			title: "Failed reconciles", unit: units.Short, scale: badFrom(1),
			shows:     "Passes of the controllers that ended in an error, in the last 15 minutes.",
			good:      "0. The alert LockstepReconcileErrors fires where they go on for 15 minutes.",
			otherwise: "The manager's log says why.",
			queries:   []query{{controllers(`sum(increase(controller_runtime_reconcile_errors_total{controller=~"CONTROLLERS"}[15m]))`), "errors"}},
		},
		{
			title: "Agents", unit: units.Short,
			shows:     "Health agents that Prometheus scrapes.",
			good:      "One for each GPU node.",
			otherwise: "`kubectl -n lockstep-health get pods -o wide` shows the nodes that lack one.",
			queries:   []query{{`count(lockstep_health_unknown)`, "agents"}},
		},
	}
}

func reconciles() []panel {
	return []panel{
		{
			title: "Time of a pass", unit: units.Seconds, form: lines,
			shows:     "How long one pass takes, by controller: 99 of 100 are shorter.",
			good:      "Below 1 s.",
			otherwise: "Compare with the API server's latency. A job with thousands of pods takes longer while it starts.",
			queries:   []query{{controllers(`histogram_quantile(0.99, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{controller=~"CONTROLLERS"}[$__rate_interval])))`), "{{controller}}"}},
		},
		{
			title: "Passes", unit: units.OpsPerSecond, form: lines,
			shows:     "Passes per second, by controller and result.",
			good:      "Where nothing happens in the cluster, next to none.",
			otherwise: "error: the log says why. Many without events of jobs or nodes: something changes objects all the time.",
			queries:   []query{{controllers(`sum by (controller, result) (rate(controller_runtime_reconcile_total{controller=~"CONTROLLERS"}[$__rate_interval]))`), "{{controller}} {{result}}"}},
		},
		{
			title: "Work that waits", unit: units.Short, form: lines,
			shows:     "Objects that wait for a pass, by controller.",
			good:      "0 but for moments.",
			otherwise: "Raise --workers, or find the job whose passes are slow.",
			queries:   []query{{controllers(`sum by (name) (max by (name, priority, instance) (workqueue_depth{name=~"CONTROLLERS"}))`), "{{name}}"}},
		},
		{
			title: "Time in the queue", unit: units.Seconds, form: lines,
			shows:     "How long an object waits for its pass, by controller: 99 of 100 wait for less.",
			good:      "Below 1 s.",
			otherwise: "Raise --workers, or give the manager more CPU.",
			queries:   []query{{controllers(`histogram_quantile(0.99, sum by (le, name) (rate(workqueue_queue_duration_seconds_bucket{name=~"CONTROLLERS"}[$__rate_interval])))`), "{{name}}"}},
		},
		{
			title: "Time to see and to decide", unit: units.Seconds, form: lines,
			shows:     "Of incidents that have recovered: the time until the failure was seen (Detect), and from there until the first step (Decide), in which rules give what may come back by itself its time. What one in ten exceeds, over the last hour.",
			good:      "Detect below 5 s; Decide as long as the rules say.",
			otherwise: "Detect: kubelets or Volcano report late, or the manager's queue is long. Decide: the rules' afterSeconds and backoff.",
			queries:   []query{{`histogram_quantile(0.9, sum by (le, phase) (rate(lockstep_incident_phase_duration_seconds_bucket{phase=~"Detect|Decide"}[1h])))`, "{{phase}}"}},
		},
		{
			title: "The longest pass that runs", unit: units.Seconds, form: lines,
			shows:     "For how long the oldest pass that has not ended runs, by controller.",
			good:      "Below 10 s.",
			otherwise: "A line that keeps rising is a pass that hangs: keep a stack dump (kill -QUIT), and restart the manager.",
			queries:   []query{{controllers(`max by (name) (workqueue_longest_running_processor_seconds{name=~"CONTROLLERS"})`), "{{name}}"}},
		},
	}
}

func requests() []panel {
	return []panel{
		{
			title: "Requests of managers", unit: units.RequestsPerSecond, form: lines,
			shows:     "Requests to the API server per second, by method.",
			good:      "Next to none where nothing happens: reads come from a cache, and nothing is written where nothing changes.",
			otherwise: "A steady stream of PATCH or PUT is a fight with another controller: the API server's audit log shows over what.",
			queries:   []query{{`sum by (method) (` + ofManagers(`rate(rest_client_requests_total[$__rate_interval])`) + `)`, "{{method}}"}},
		},
		{
			title: "Refused requests", unit: units.RequestsPerSecond, form: lines,
			shows:     "Requests that the API server did not serve, per second, by status code.",
			good:      "Some 404 and 409, which are ordinary: an object is gone, or another has written.",
			otherwise: "403: the role or a policy is not the shipped one. 422: an object is refused by validation. 429 or 5xx: the API server is overloaded.",
			queries:   []query{{`sum by (code) (` + ofManagers(`rate(rest_client_requests_total{code!~"2..|1.."}[$__rate_interval])`) + `) > 0`, "{{code}}"}},
		},
		{
			title: "Requests to the receiver of alerts", unit: units.Short, form: bars,
			shows:     "Requests of Alertmanager, by the code of their answer.",
			good:      "200.",
			otherwise: "health/alerts/README.md says for each code what to do.",
			queries:   []query{{`sum by (code) (increase(lockstep_alert_requests_total[$__rate_interval])) > 0`, "{{code}}"}},
		},
		{
			title: "Alerts that were not applied", unit: units.Short, form: bars,
			shows:     "Alerts that came to the receiver and are no fault of any node, by what became of them.",
			good:      "None.",
			otherwise: "The manager's log names them: their labels do not say which node or signal they are of, or the API server would not write.",
			queries:   []query{{`sum by (outcome) (increase(lockstep_alerts_total{outcome!="Applied"}[$__rate_interval])) > 0`, "{{outcome}}"}},
		},
	}
}

func programs() []panel {
	return []panel{
		{
			title: "Memory of managers", unit: units.BytesIEC, form: lines,
			shows:     "Resident memory of each manager.",
			good:      "Below half of the limit (manager.resources of the chart, 2 GiB by default), and flat.",
			otherwise: "It grows with the pods of TrainingJobs and with the nodes. Where it grows without them, keep a heap profile, and report it.",
			queries:   []query{{ofManagers(`process_resident_memory_bytes`), "{{instance}}"}},
		},
		{
			title: "CPU of managers", unit: units.Short, form: lines,
			shows:     "Cores that each manager uses.",
			good:      "Well below 1, but for the start of large jobs.",
			otherwise: "Compare with passes per second.",
			queries:   []query{{ofManagers(`rate(process_cpu_seconds_total[$__rate_interval])`), "{{instance}}"}},
		},
		{
			title: "Memory of agents", unit: units.BytesIEC, form: lines,
			shows:     "Resident memory of the ten largest agents.",
			good:      "Below 128 MiB; the limit is 256 MiB by default (agent.resources of the chart).",
			otherwise: "Look whether DCGM runs embedded in them, which needs more.",
			queries:   []query{{`topk(10, ` + ofAgents(`process_resident_memory_bytes`) + `)`, "{{instance}}"}},
		},
		{
			title: "Oldest report of an agent", unit: units.Seconds, form: lines,
			shows:     "How long ago the agent that has been silent for longest wrote the NodeHealth of its node.",
			good:      "Below 300 s.",
			otherwise: "See the agents on the dashboard of nodes.",
			queries:   []query{{`max(time() - (lockstep_health_last_write_timestamp_seconds > 0))`, "oldest"}},
		},
	}
}
