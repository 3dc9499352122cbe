package audit

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// incident0 is an open incident about ranks that failed, which has taken steps.
func incident0(failed string, steps ...any) fields {
	return fields{"id": 1, "trigger": "PodFailed", "ranks": []any{fields{"task": "worker", "failed": failed}}, "steps": steps}
}

func step0(action string, at time.Time) fields {
	return fields{"action": action, "index": 0, "time": at}
}

// with is an object with changes.
func with(of, changes fields) fields {
	out := maps.Clone(of)
	maps.Copy(out, changes)
	return out
}

// rank0 is the status of a task of four ranks, the first of which a restart has raised, for a reason.
func rank0(reason string) []any {
	return []any{fields{"name": "worker", "replicas": 4, "ranks": []any{fields{"index": 0, "incarnation": 1, "reason": reason}}}}
}

// raises has the manager restart the first rank after it has run for a while, for a reason and with an incident, and delete its pod.
func (h *history) raises(reason string, inc ...any) {
	h.after(time.Minute)
	h.status(fields{"tasks": rank0(reason), "incidents": inc})
	h.deletes("llama-1-worker-0")
}

// raisesTask does so with all ranks of its task.
func (h *history) raisesTask(inc ...any) {
	h.status(fields{"tasks": []any{fields{"name": "worker", "replicas": 4, "incarnation": 1}}, "incidents": inc})
	h.deletes("llama-1-worker-0")
}

func TestFalsifiedReasons(t *testing.T) {
	other := fields{"ranks": []any{fields{"task": "other", "failed": "0"}}}
	partitions := fields{"tasks": []any{fields{"name": "worker", "partition": fields{"size": 2}}}}
	judge(t, map[string]story{
		"a task is raised, and there is no incident": {func(h *history) { h.raisesTask() }, "Deletions"},
		"a task is raised by a step for one rank":    {func(h *history) { h.raisesTask(incident0("0", step0("RestartPod", h.now))) }, "Deletions"},
		"a task is raised by a step for another one": {func(h *history) { h.raisesTask(with(incident0("", step0("RestartTask", h.now)), other)) }, "Deletions"},
		"a task is raised by a step of a dry run": {func(h *history) {
			h.raisesTask(incident0("0", with(step0("RestartTask", h.now), fields{"dryRun": true})))
		}, "Deletions"},
		"a task is raised by a step that was before": {func(h *history) {
			i := incident0("0", step0("RestartTask", h.now))
			h.status(incidents(i))
			h.raisesTask(i)
		}, "Deletions"},
		"a task is raised by its step":                {func(h *history) { h.raisesTask(incident0("3", step0("RestartTask", h.now))) }, ""},
		"a task is raised with its job":               {func(h *history) { h.raisesTask(with(incident0("", step0("RestartJob", h.now)), other)) }, ""},
		"a task is raised by a step for the job":      {func(h *history) { h.raisesTask(incident0("", step0("RestartTask", h.now))) }, ""},
		"a rank is raised, and there is no incident":  {func(h *history) { h.raises("Step") }, "Deletions"},
		"a rank is raised by a step for others":       {func(h *history) { h.raises("Step", incident0("1-3", step0("RestartPod", h.now))) }, "Deletions"},
		"a rank is raised by a step that raises none": {func(h *history) { h.raises("Step", incident0("0", step0("RestartProcesses", h.now))) }, "Deletions"},
		"a rank is raised by a step for another group": {func(h *history) {
			h.spec(partitions)
			h.raises("Step", incident0("2", step0("RestartPartition", h.now)))
		}, "Deletions"},
		"a rank joins an incident that has done nothing": {func(h *history) { h.raises("JoinedIncident", incident0("0")) }, "Deletions"},
		"a rank joins an incident about others":          {func(h *history) { h.raises("JoinedIncident", incident0("1", step0("RestartPod", h.now))) }, "Deletions"},
		"the pod of a rank is gone, and it works":        {func(h *history) { h.raises("PodGone", incident0("0")) }, "Deletions"},
		"a rank is raised by its step":                   {func(h *history) { h.raises("Step", incident0("0-3", step0("MigratePod", h.now))) }, ""},
		"a rank is raised by a step for its group": {func(h *history) {
			h.spec(partitions)
			h.raises("Step", incident0("1", step0("RestartPartition", h.now)))
		}, ""},
		"a rank is raised by a step after one for the job": {func(h *history) {
			h.raises("Step", incident0("1", step0("RestartJob", h.now), with(step0("RestartPod", h.now), fields{"index": 1})))
		}, ""},
		"a rank joins an incident":                  {func(h *history) { h.raises("JoinedIncident", incident0("0", step0("RestartPod", h.now))) }, ""},
		"a rank gets the node of another one":       {func(h *history) { h.raises("NodeInherited", incident0("1", step0("ShrinkTask", h.now))) }, ""},
		"a rank is raised as its pod gets its node": {func(h *history) { h.status(fields{"tasks": rank0("HoldEnded")}); h.deletes("llama-1-worker-0") }, ""},
		"a rank was raised when the log began":      {func(h *history) { h.raises("Step"); h.forgetJob() }, ""},
	})
}

// spec is one that the user writes.
func (h *history) spec(s fields) { h.write(user1, "patch", "trainingjobs", "llama", fields{"spec": s}) }

// forgetJob leaves out all that the log has of the job but its last line.
func (h *history) forgetJob() {
	var lines []string
	for i, line := range h.lines {
		if i >= len(h.lines)-2 || !strings.Contains(line, `"resource":"trainingjobs"`) {
			lines = append(lines, line)
		}
	}
	h.lines = lines
}

// fails0 ends the pod of the first rank.
func (h *history) fails0() {
	h.write(kubelet, "patch", "pods", "llama-1-worker-0", fields{"status": fields{"phase": "Failed"}})
}

// misses has a step restart ranks after a while, and not the first one.
func (h *history) misses(inc fields) {
	h.after(time.Minute)
	h.status(fields{"tasks": []any{fields{"name": "worker", "replicas": 4}}, "incidents": []any{inc}})
}

// speaks has the manager write the status, after some time.
func (h *history) speaks(after time.Duration) {
	h.after(after)
	h.status(fields{"message": h.now.String()})
}

// aMinute passes, in which the manager writes the status.
func (h *history) aMinute() {
	h.speaks(time.Second)
	h.speaks(time.Minute)
}

func TestFalsifiedReach(t *testing.T) {
	pods := func(h *history) fields { return incident0("0-3", step0("RestartPod", h.now)) }
	misses := func(after time.Duration) func(*history) {
		return func(h *history) { h.fails0(); h.misses(pods(h)); h.speaks(time.Second); h.speaks(after) }
	}
	judge(t, map[string]story{
		"a step leaves a pod that had failed": {misses(40 * time.Second), "Reached"},
		"it leaves it, but not for long":      {misses(20 * time.Second), ""},
		"it leaves one that fails later":      {func(h *history) { h.misses(pods(h)); h.fails0(); h.speaks(time.Second); h.speaks(40 * time.Second) }, "Reached"},
		"it leaves one that is gone": {func(h *history) {
			h.misses(pods(h))
			h.remove(user1, "pods", "llama-1-worker-0")
			h.speaks(time.Second)
			h.speaks(40 * time.Second)
		}, "Reached"},
		"it leaves one that may be gone": {func(h *history) {
			h.misses(pods(h))
			h.fails(user1, "delete", "pods", "llama-1-worker-0")
			h.speaks(time.Second)
			h.speaks(40 * time.Second)
		}, ""},
		"it leaves one, and the manager looks after others for minutes": {func(h *history) {
			h.fails0()
			h.misses(pods(h))
			h.holds("standing-7")
			h.after(time.Second)
			h.idle(time.Second)
			for i := range 4 {
				h.after(time.Minute)
				h.holds(fmt.Sprint("standing-", i))
			}
		}, "Reached"},
		"it leaves one, and the manager was away and looks after others first": {func(h *history) {
			h.fails0()
			h.misses(pods(h))
			h.after(time.Second)
			h.idle(time.Second)
			h.after(10 * time.Minute)
			h.holds("standing-7")
		}, ""},
		"it leaves one, and the manager is away": {func(h *history) { h.fails0(); h.misses(pods(h)); h.idle(time.Second); h.idle(10 * time.Minute) }, ""},
		"it restarts the rank": {func(h *history) {
			h.fails0()
			h.after(time.Minute)
			h.status(fields{"tasks": rank0("Step"), "incidents": []any{pods(h)}})
			h.aMinute()
		}, ""},
		"a step for programs leaves it": {func(h *history) {
			h.fails0()
			h.misses(incident0("0", step0("RestartProcesses", h.now)))
			h.aMinute()
		}, ""},
		"a step of a dry run leaves it": {func(h *history) {
			h.fails0()
			h.misses(incident0("0", with(step0("RestartPod", h.now), fields{"dryRun": true})))
			h.aMinute()
		}, ""},
		"a step for other ranks leaves it": {func(h *history) {
			h.fails0()
			h.misses(incident0("1-3", step0("RestartPod", h.now)))
			h.aMinute()
		}, ""},
		"the incident has ended": {func(h *history) {
			h.fails0()
			h.misses(with(pods(h), fields{"outcome": "Failed"}))
			h.aMinute()
		}, ""},
		"the job is suspended": {func(h *history) {
			h.fails0()
			h.misses(pods(h))
			h.spec(fields{"suspend": true})
			h.aMinute()
		}, ""},
		"the rank is given up": {func(h *history) {
			h.fails0()
			h.misses(pods(h))
			h.status(fields{"tasks": []any{fields{"name": "worker", "replicas": 0}}})
			h.speaks(time.Minute)
			h.speaks(time.Minute)
		}, ""},
		"the next pod of the rank fails, and the ladder goes on later": {func(h *history) {
			h.fails0()
			h.after(time.Minute)
			h.status(fields{"tasks": rank0("Step"), "incidents": []any{pods(h)}})
			h.deletes("llama-1-worker-0")
			h.remove(kubelet, "pods", "llama-1-worker-0")
			h.pod("llama-1-worker-0", "n0")
			h.write(manager, "patch", "pods", "llama-1-worker-0", fields{"metadata": fields{"annotations": fields{"lockstep.dev/incarnation": "1"}}})
			h.fails0()
			h.aMinute()
		}, ""},
	})
}

func TestFalsifiedLadders(t *testing.T) {
	judge(t, map[string]story{
		"a step is taken twice": {func(h *history) {
			h.status(incidents(incident0("0", step0("RestartPod", h.now), step0("RestartPod", h.now.Add(time.Second)))))
		}, "Incidents"},
		"a step is taken twice, as another one": {func(h *history) {
			h.status(incidents(incident0("0", step0("RestartPod", h.now), step0("RestartJob", h.now))))
		}, "Incidents"},
		"a step is recorded, and then taken": {func(h *history) {
			h.status(incidents(incident0("0", with(step0("RestartPod", h.now), fields{"dryRun": true}), step0("RestartPod", h.now))))
		}, ""},
		"a step that was ignored is taken": {func(h *history) {
			h.status(incidents(incident0("0", step0("Ignore", h.now), step0("RestartPod", h.now))))
		}, ""},
		"a step that no rule asks for is taken again": {func(h *history) {
			again := with(step0("RestartProcesses", h.now), fields{"index": -1})
			h.status(incidents(incident0("0", again, with(again, fields{"time": h.now.Add(time.Second)}))))
		}, ""},
		"a FailJob comes into the rule": {func(h *history) {
			h.status(incidents(incident0("0", step0("RestartPod", h.now), step0("FailJob", h.now))))
		}, ""},
	})
}

// lingers has all pods ready while an incident is open, for some time.
func (h *history) lingers(inc, status fields, d time.Duration) {
	h.spec(fields{"tasks": []any{fields{"name": "worker"}}})
	h.condition("Ready")
	h.status(with(fields{"tasks": ranks(1, 0), "incidents": []any{inc}}, status))
	h.speaks(time.Second)
	h.speaks(d)
}

// condition adds one to the pod of the rank.
func (h *history) condition(name string) {
	status := h.objects["pods/llama-1-worker-0"]["status"].(map[string]any)
	old, _ := status["conditions"].([]any)
	h.write(kubelet, "patch", "pods", "llama-1-worker-0", fields{"status": fields{"conditions": append(old, fields{"type": name, "status": "True"})}})
}

// ranks are those of a status, and how many of them are ready.
func ranks(replicas, ready int) []any {
	return []any{
		fields{"name": "worker", "replicas": replicas, "ready": ready},
		fields{"name": "worker-spare", "replicas": 1},
	}
}

func TestFalsifiedEnds(t *testing.T) {
	open, none := incident0("0", step0("RestartPod", time.Time{})), fields{}
	long, supervised := 6*time.Minute, fields{"supervisor": fields{}}
	judge(t, map[string]story{
		"an incident is open while all is well":      {func(h *history) { h.lingers(open, none, long) }, "Ends"},
		"one of a supervised gang is, while it runs": {func(h *history) { h.spec(supervised); h.lingers(open, fields{"tasks": ranks(1, 1)}, long) }, "Ends"},
		"one that has taken no step is":              {func(h *history) { h.lingers(incident0("0"), none, long) }, "Ends"},
		"it is, but not for long":                    {func(h *history) { h.lingers(open, none, 4*time.Minute) }, ""},
		"it is, and a step is to come":               {func(h *history) { h.lingers(open, fields{"nextStep": fields{"incident": 1}}, long) }, ""},
		"a supervised gang does not run":             {func(h *history) { h.spec(supervised); h.lingers(open, none, long) }, ""},
		"another rank has no pod":                    {func(h *history) { h.lingers(open, fields{"tasks": ranks(2, 1)}, long) }, ""},
		"a pod is about to be evicted":               {func(h *history) { h.condition("DisruptionTarget"); h.lingers(open, none, long) }, ""},
		"it waits for a device":                      {func(h *history) { h.lingers(with(open, fields{"trigger": "HealthDegraded"}), none, long) }, ""},
		"it waits for a checkpoint":                  {func(h *history) { h.lingers(with(open, fields{"checkpoint": fields{}}), none, long) }, ""},
		"its node is in quarantine": {func(h *history) {
			h.becomes("n0", taints("lockstep.dev/quarantine", "NoSchedule"))
			h.lingers(open, none, long)
		}, ""},
		"it has ended": {func(h *history) { h.lingers(with(open, fields{"outcome": "Recovered"}), none, long) }, ""},
		"it is in a dry run": {func(h *history) {
			h.write(user1, "patch", "trainingjobs", "llama", fields{"metadata": fields{"annotations": fields{"lockstep.dev/dry-run": "true"}}})
			h.lingers(open, none, long)
		}, ""},
	})
}
