// The dashboard of those who train: what failures cost their jobs, and what was done about them.

package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// inQueue replaces the word SELECTED by the selectors of the namespaces and queues that the reader chose.
func inQueue(expr string) string {
	return strings.ReplaceAll(expr, "SELECTED", `namespace=~"$namespace", queue=~"$queue"`)
}

func jobs() page {
	return page{
		name:  "jobs",
		title: "Lockstep / Training jobs",
		description: "How much of their time training jobs train, what the rest was lost to, and what Lockstep did about it. " +
			"Metrics have no label for a job: `kubectl lockstep why JOB` tells of one.",
		variables: []variable{
			{"namespace", `label_values(lockstep_open_incidents, namespace)`, "Namespaces that have jobs."},
			{"queue", `label_values(lockstep_open_incidents{namespace=~"$namespace"}, queue)`, "Volcano queues of these jobs."},
		},
		rows: []row{
			{"Now", jobsNow()},
			{"What failures cost", costs()},
			{"What was done", steps()},
			{"Where ranks come back, and checkpoints", places()},
		},
	}
}

func jobsNow() []panel {
	return []panel{
		{
			title: "Training time, worst queue", unit: units.PercentUnit, scale: goodFrom(0.9),
			shows:     "Share of the time since they were first ready in which the gangs of unfinished jobs were ready (ETTR), in the queue where it is lowest.",
			good:      "Above 95 %. A job that is restarted twice a day and needs ten minutes each time is at 98.6 %.",
			otherwise: "See below what the time is lost to.",
			queries:   []query{{inQueue(`min(max by (namespace, queue) (lockstep_effective_training_time_ratio{SELECTED}))`), "worst"}},
		},
		{
			title: "Jobs", unit: units.Short,
			shows:     "Jobs that have not finished, by state.",
			good:      "Nearly all are Running; Queued ones wait for their queue.",
			otherwise: "`kubectl lockstep list` names those that are Recovering, Starting or Refused, and `kubectl lockstep why JOB` says what one waits for.",
			queries:   []query{{inQueue(`sum by (state) (max by (namespace, queue, state) (lockstep_jobs{SELECTED}))`), "{{state}}"}},
		},
		{
			title: "Open incidents", unit: units.Short, scale: badFrom(1),
			shows:     "Failures from which a job has not recovered yet.",
			good:      "0, or back at 0 within minutes.",
			otherwise: "`kubectl lockstep why JOB` says which step comes next, and when.",
			queries:   []query{{inQueue(`sum(max by (namespace, queue) (lockstep_open_incidents{SELECTED}))`), "open"}},
		},
		{
			title: "Time lost", unit: units.Seconds,
			shows:     "Time in which gangs that had been ready were not, summed over jobs, in the time that this dashboard shows. It counts once the job runs again.",
			good:      "Small beside the time that the jobs ran: 5 % or less.",
			otherwise: "See below by cause and by phase.",
			queries:   []query{{inQueue(`sum(increase(lockstep_lost_seconds_total{SELECTED}[$__range]))`), "lost"}},
		},
	}
}

func costs() []panel {
	return []panel{
		{
			title: "Training time, by queue", unit: units.PercentUnit, form: lines, max: 1,
			shows:     "Share of their time in which the gangs of unfinished jobs were ready (ETTR).",
			good:      "Flat, above 95 %. It falls while a job is down, and rises again slowly.",
			otherwise: "A fall that does not end is a job that does not come back: see open incidents.",
			queries:   []query{{inQueue(`max by (namespace, queue) (lockstep_effective_training_time_ratio{SELECTED})`), "{{namespace}}/{{queue}}"}},
		},
		{
			title: "Time lost, by cause", unit: units.Seconds, form: bars,
			shows:     "Time in which gangs were down, by the event that began it; counted once they run again.",
			good:      "Rare, short bars.",
			otherwise: "PodFailed is mostly the program: look at its logs. Node and Health events are for whoever looks after nodes. PodPending is a lack of room.",
			queries:   []query{{inQueue(`sum by (cause) (increase(lockstep_lost_seconds_total{SELECTED}[$__rate_interval])) > 0`), "{{cause}}"}},
		},
		{
			title: "Time to recover, by phase", unit: units.Seconds, form: bars,
			shows:     "Where the time of recoveries goes: Detect, Decide, Stop, Place, WaitForRoom, Barrier and Start, summed over incidents that have recovered.",
			good:      "Mostly Start, which is the program loading its checkpoint.",
			otherwise: "WaitForRoom: add spares, or allow a higher tier. Decide: shorten the delays of the restart policy. Stop: look for a program that does not end on SIGTERM, and lower stopSeconds. Place: see the operator's dashboard.",
			queries:   []query{{inQueue(`sum by (phase) (increase(lockstep_incident_phase_duration_seconds_sum{SELECTED}[$__rate_interval])) > 0`), "{{phase}}"}},
		},
		{
			title: "Time to recover", unit: units.Seconds, form: lines,
			shows:     "Time from the first signal of an incident until everything runs again: the median, and what one in ten exceeds, over the last hour.",
			good:      "Minutes. The alert LockstepRecoveriesSlow fires above 15 minutes.",
			otherwise: "The panel beside it shows which phase takes the time.",
			queries: []query{
				{inQueue(`histogram_quantile(0.5, sum by (le) (rate(lockstep_incident_duration_seconds_bucket{SELECTED, outcome="Recovered"}[1h])))`), "median"},
				{inQueue(`histogram_quantile(0.9, sum by (le) (rate(lockstep_incident_duration_seconds_bucket{SELECTED, outcome="Recovered"}[1h])))`), "one in ten"},
			},
		},
	}
}

func steps() []panel {
	return []panel{
		{
			title: "Incidents, by trigger", unit: units.Short, form: bars,
			shows:     "Incidents that were opened, by the event that opened them.",
			good:      "Few, and of no kind in particular.",
			otherwise: "One kind that repeats has one cause: `kubectl lockstep timeline JOB` shows the incidents of a job.",
			queries:   []query{{inQueue(`sum by (trigger) (increase(lockstep_incidents_total{SELECTED}[$__rate_interval])) > 0`), "{{trigger}}"}},
		},
		{
			title: "Incidents, by fault", unit: units.Short, form: bars,
			shows:     "Incidents that were opened, by whose fault they are: the program's (User), the Infrastructure's, a Preemption or a Maintenance. Those of the program count against the budget of its job.",
			good:      "Mostly Maintenance and Preemption.",
			otherwise: "User: mend the program before its budget is used up. Infrastructure: see the fleet's dashboard.",
			queries:   []query{{inQueue(`sum by (class) (increase(lockstep_incidents_total{SELECTED}[$__rate_interval])) > 0`), "{{class}}"}},
		},
		{
			title: "Restarts, by scope", unit: units.Short, form: bars,
			shows:     "Steps that were taken, by action: what was restarted for a failure, at somebody's request, or because a suspended job was resumed (RestartJob).",
			good:      "RestartPod and MigratePod, which leave the rest of the gang where it is.",
			otherwise: "RestartJob or RelocateJob after each failure: the earlier steps do not help. Look whether the program can continue with a replaced rank, and whether home has room.",
			queries:   []query{{inQueue(`sum by (action) (increase(lockstep_steps_total{SELECTED}[$__rate_interval])) > 0`), "{{action}}"}},
		},
		{
			title: "Incidents that ended, by outcome", unit: units.Short, form: bars,
			shows:     "How incidents ended: Recovered, Failed or Cancelled.",
			good:      "Recovered, all of them.",
			otherwise: "Failed: the job has failed, or its ladder has ended. `kubectl describe tj` tells which rule gave up, and why.",
			queries:   []query{{inQueue(`sum by (outcome) (increase(lockstep_incident_duration_seconds_count{SELECTED}[$__rate_interval])) > 0`), "{{outcome}}"}},
		},
	}
}

func places() []panel {
	return []panel{
		{
			title: "Where ranks come back", unit: units.PercentUnit, form: lines, max: 1,
			shows:     "Of the ranks that were ready again in another pod, the share that came back to its own node, to the lowest HyperNode around that, to the job's home, or elsewhere; over 6 hours.",
			good:      "Nearly all on OwnNode or in LowestHyperNode: caches are warm there, and collectives as fast as before.",
			otherwise: "Elsewhere: jobs relocate, because home had no room in time. Add spares, or give the queue more room in its racks.",
			queries: []query{{inQueue(`sum by (place) (increase(lockstep_replaced_ranks_total{SELECTED}[6h])) / ignoring (place) group_left ()
  (sum(increase(lockstep_replaced_ranks_total{SELECTED}[6h])) > 0)`), "{{place}}"}},
		},
		{
			title: "Returns to held nodes", unit: units.Short, form: bars,
			shows:     "Pods that returned to a node that their job held: Bound by the manager at once, or LeftToScheduler.",
			good:      "Bound.",
			otherwise: "LeftToScheduler is slower, and not wrong: the events of the pods say why they could not be bound.",
			queries:   []query{{inQueue(`sum by (result) (increase(lockstep_bindings_total{SELECTED}[$__rate_interval])) > 0`), "{{result}}"}},
		},
		{
			title: "Checkpoints on request, by outcome", unit: units.Short, form: bars,
			shows:     "Requests for a checkpoint before a pod is moved, by how they ended.",
			good:      "Saved.",
			otherwise: "Refused, TimedOut or Unreachable: the program was moved without a checkpoint. docs/researchers.md says what its endpoint has to answer.",
			queries:   []query{{inQueue(`sum by (outcome) (increase(lockstep_checkpoints_total{SELECTED}[$__rate_interval])) > 0`), "{{outcome}}"}},
		},
		{
			title: "Time of checkpoints on request", unit: units.Seconds, form: lines,
			shows:     "How long requests for checkpoints took that were saved: what one in ten exceeds, over 6 hours.",
			good:      "Well below checkpoint.request.timeoutSeconds of the jobs.",
			otherwise: "Raise the timeout, or save less.",
			queries:   []query{{inQueue(`histogram_quantile(0.9, sum by (le) (rate(lockstep_checkpoint_duration_seconds_bucket{SELECTED, outcome="Saved"}[6h])))`), "one in ten"}},
		},
	}
}
