package simulation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// census counts what happened, by kind and name: "action RestartPod".
type census map[string]int

func (c census) add(other census) {
	for what, n := range other {
		c[what] += n
	}
}

func (c census) String() string {
	var b strings.Builder
	for _, what := range sortedKeys(c) {
		fmt.Fprintf(&b, "%9d  %s\n", c[what], what)
	}
	return b.String()
}

// missing are the things that have to happen now and then and did not.
func (c census) missing() []string {
	return slices.DeleteFunc(allThings(), func(what string) bool { return c[what] > 0 })
}

// rare are the things that happen less than once in a thousand histories.
var rare = []string{
	"trigger " + string(v1alpha1.VolcanoJobEnded), "end " + v1alpha1.ReasonLadderExhausted, "dry run of " + string(v1alpha1.FailJob),
	"event left home is allowed early",
}

// events are what the world and the checks count.
var events = []string{
	"charge to the job's budget", "charge to a task's budget", "charge that waited for the backoff", "refund",
	"node is excluded", "exclusion is lifted early", "home is left", "left home is allowed early", "spare is adopted",
	"task shrinks", "task is resized", "partition moves", "home is found", "pod is removed by force", "node is held",
	"former leader acts", "clock steps back", "gang keeps its place in the queue",
	"pod is asked again by another process",
	"leaf is drained", "eviction is refused", "pod is to leave its node, others stay", "node joins late", "node returns", "node is lost", "late node is used",
	"queue's share refuses a pod", "other queues have demand",
	"pod is bound without the scheduler", "pod is bound early", "scheduler is behind", "gang is bound without the scheduler", "pod that returns is left to the scheduler",
	"place is taken first", "kubelet refuses a pod",
	"Volcano forgets a job", "Volcano is reminded of a job",
	"Volcano is misled by a deleted node", "Volcano looks again where a gang runs",
	"kubelet backs off", "collective is complete", "collective aborts a rank", "collective aborts in a history", "victims in a history",
	"culprit is named", "pod is removed early, with its gang down",
	"kubelet cannot start a pod", "pod never becomes ready", "task starts nowhere",
	"failure spreads", "rack is lost", "program fails at each start",
	"request is carried out", "request is refused",
	"moves are held back", "moves for health within the limit", "moves that were acknowledged",
}

func allThings() []string {
	var all []string
	add := func(kind string, names ...string) {
		for _, n := range names {
			all = append(all, kind+" "+n)
		}
	}
	for _, a := range []v1alpha1.Action{
		v1alpha1.Ignore, v1alpha1.RestartPod, v1alpha1.RestartTask, v1alpha1.RestartPartition, v1alpha1.RestartJob,
		v1alpha1.MigratePod, v1alpha1.ShrinkTask, v1alpha1.RelocateJob, v1alpha1.FailJob,
	} {
		add("action", string(a))
		add("dry run of", string(a))
	}
	for _, e := range []v1alpha1.EventType{
		v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.PodNotStarted, v1alpha1.PodPending, v1alpha1.NodeNotReady, v1alpha1.NodeGone,
		v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.NodeCordoned, v1alpha1.VolcanoJobDeleted, v1alpha1.VolcanoJobEnded, v1alpha1.JobResumed,
		v1alpha1.RestartRequested,
	} {
		add("trigger", string(e))
	}
	add("outcome", string(v1alpha1.OutcomeRecovered), string(v1alpha1.OutcomeFailed), string(v1alpha1.OutcomeCancelled))
	add("checkpoint", string(v1alpha1.CheckpointSaved), string(v1alpha1.CheckpointRefused), string(v1alpha1.CheckpointTimedOut),
		string(v1alpha1.CheckpointUnreachable), string(v1alpha1.CheckpointOvertaken), string(v1alpha1.CheckpointCancelled))
	add("end", v1alpha1.ReasonTasksSucceeded, v1alpha1.ReasonDeadlineExceeded, v1alpha1.ReasonFailedByRule,
		v1alpha1.ReasonBudgetExhausted, v1alpha1.ReasonLadderExhausted)
	for _, e := range []v1alpha1.EventType{
		v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.NodeNotReady, v1alpha1.NodeGone,
		v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.NodeCordoned, v1alpha1.VolcanoJobDeleted, v1alpha1.RestartRequested,
	} {
		add("time lost to", string(e))
	}
	add("time lost to", string(v1alpha1.CauseResized), string(v1alpha1.CauseNoIncident))
	add("event", events...)
	all = append(all, supervisedThings()...)
	for _, k := range append(slices.Clone(kinds), spreading, largeGangs) {
		add("event", "world has "+string(k))
	}
	return all
}

// happened counts one thing.
func (w *world) happened(what string) { w.census["event "+what]++ }

// once counts the histories in which something happens.
func (w *world) once(what string) { w.census["event "+what] = 1 }

// count counts what a record says.
func (t *tenant) count(old, s *v1alpha1.TrainingJobStatus) {
	for i := range s.Incidents {
		inc, was := &s.Incidents[i], incidentOf(old, s.Incidents[i].ID)
		t.countIncident(inc, &was)
	}
	for _, end := range []string{v1alpha1.ConditionCompleted, v1alpha1.ConditionFailed} {
		if isTrue(s, end) && !isTrue(old, end) {
			t.census["end "+meta.FindStatusCondition(s.Conditions, end).Reason]++
		}
	}
	if old.Placement == nil && s.Placement != nil {
		t.happened("home is found")
	}
	for _, task := range s.Tasks {
		if task.Shrunk > taskStatus(old, task.Name).Shrunk {
			t.happened("task shrinks")
		}
	}
	t.countPartitions(old, s)
}

// countIncident counts what is new of an incident.
func (t *tenant) countIncident(inc, was *v1alpha1.Incident) {
	for _, f := range newSteps(was, inc) {
		kind := "action "
		if f.DryRun {
			kind = "dry run of "
		}
		t.census[kind+string(f.Action)]++
	}
	if inc.VictimCount > was.VictimCount {
		t.once("victims in a history")
	}
	if inc.Trigger != was.Trigger {
		t.census["trigger "+string(inc.Trigger)]++
	}
	if asksForCheckpoint(was) && !asksForCheckpoint(inc) {
		t.census["checkpoint "+string(inc.Checkpoint.Outcome)]++
	}
	if inc.Outcome != was.Outcome {
		t.census["outcome "+string(inc.Outcome)]++
	}
}

// countPartitions counts the partitions that are placed again.
func (t *tenant) countPartitions(old, s *v1alpha1.TrainingJobStatus) {
	if old.Placement == nil || s.Placement == nil {
		return
	}
	for i, task := range s.Placement.Tasks {
		for n, p := range task.Partitions {
			if i < len(old.Placement.Tasks) && n < len(old.Placement.Tasks[i].Partitions) && old.Placement.Tasks[i].Partitions[n].HyperNode != "" && p.HyperNode == "" {
				t.happened("partition moves")
			}
		}
	}
}
