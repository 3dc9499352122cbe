// The tally of the simulation: how often each thing that can happen did.

package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// census counts what happened, by kind and name: "action RestartPod".
type census map[string]int

func (t census) add(other census) {
	for what, n := range other {
		t[what] += n
	}
}

func (t census) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "%9d  %s\n", t[what], what)
	}
	return b.String()
}

// missing are the things that have to happen now and then and have not.
func (t census) missing() []string {
	return slices.DeleteFunc(allThings(), func(what string) bool { return t[what] > 0 })
}

// rare are the things that happen less than once in a thousand histories.
var rare = []string{
	"trigger " + string(v1alpha1.VolcanoJobEnded), "end " + v1alpha1.ReasonLadderExhausted, "dry run of " + string(v1alpha1.FailJob),
	"event left home is relented",
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
		v1alpha1.PodFailed, v1alpha1.PodDeleted, v1alpha1.PodNotReady, v1alpha1.PodPending, v1alpha1.NodeNotReady, v1alpha1.NodeGone,
		v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.VolcanoJobDeleted, v1alpha1.VolcanoJobEnded, v1alpha1.JobResumed,
	} {
		add("trigger", string(e))
	}
	add("outcome", string(v1alpha1.OutcomeRecovered), string(v1alpha1.OutcomeFailed), string(v1alpha1.OutcomeCancelled))
	add("checkpoint", string(v1alpha1.CheckpointSaved), string(v1alpha1.CheckpointRefused), string(v1alpha1.CheckpointTimedOut),
		string(v1alpha1.CheckpointUnreachable), string(v1alpha1.CheckpointOvertaken), string(v1alpha1.CheckpointCancelled))
	add("end", v1alpha1.ReasonTasksSucceeded, v1alpha1.ReasonDeadlineExceeded, v1alpha1.ReasonFailedByRule,
		v1alpha1.ReasonBudgetExhausted, v1alpha1.ReasonLadderExhausted)
	add("event", "charge to the job's budget", "charge to a task's budget", "charge that waited for the backoff", "refund",
		"node is excluded", "exclusion is relented", "home is left", "left home is relented", "spare is adopted",
		"task shrinks", "task is resized", "partition moves", "home is found", "pod is removed by force", "node is held",
		"former leader acts", "clock steps back", "gang keeps its place in the queue",
		"pod is asked again by another process",
		"moves are held back", "moves for health within the limit", "moves that were acknowledged")
	return all
}

// happened counts one thing.
func (c *cluster) happened(what string) { c.tally["event "+what]++ }

// tell counts what a record says.
func (c *cluster) tell(old, s *v1alpha1.TrainingJobStatus) {
	for i := range s.Incidents {
		inc, was := &s.Incidents[i], incidentOf(old, s.Incidents[i].ID)
		for _, f := range inc.Steps[len(was.Steps):] {
			kind := "action "
			if f.DryRun {
				kind = "dry run of "
			}
			c.tally[kind+string(f.Action)]++
		}
		if inc.Trigger != was.Trigger {
			c.tally["trigger "+string(inc.Trigger)]++
		}
		c.tellCheckpoint(&was, inc)
		if inc.Outcome != was.Outcome {
			c.tally["outcome "+string(inc.Outcome)]++
		}
	}
	for _, end := range []string{v1alpha1.ConditionCompleted, v1alpha1.ConditionFailed} {
		if isTrue(s, end) && !isTrue(old, end) {
			c.tally["end "+meta.FindStatusCondition(s.Conditions, end).Reason]++
		}
	}
	if old.Placement == nil && s.Placement != nil {
		c.happened("home is found")
	}
	for i := range s.Tasks {
		if t := taskStatus(old, s.Tasks[i].Name); t != nil && s.Tasks[i].Shrunk > t.Shrunk {
			c.happened("task shrinks")
		}
	}
	c.tellPartitions(old, s)
}

// tellCheckpoint counts a request for a checkpoint that is over.
func (c *cluster) tellCheckpoint(was, is *v1alpha1.Incident) {
	if asking(was) && !asking(is) {
		c.tally["checkpoint "+string(is.Checkpoint.Outcome)]++
	}
}

// tellPartitions counts the partitions that have another home than before.
func (c *cluster) tellPartitions(old, s *v1alpha1.TrainingJobStatus) {
	if old.Placement == nil || s.Placement == nil {
		return
	}
	for _, t := range s.Placement.Tasks {
		was := taskPlacement(old.Placement, t.Name)
		for i, p := range t.Partitions {
			if was != nil && i < len(was.Partitions) && was.Partitions[i].HyperNode != "" && p.HyperNode == "" {
				c.happened("partition moves")
			}
		}
	}
}

// incidentOf is the incident of an id; one without anything where there is none.
func incidentOf(s *v1alpha1.TrainingJobStatus, id int32) v1alpha1.Incident {
	if i := slices.IndexFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID == id }); i >= 0 {
		return s.Incidents[i]
	}
	return v1alpha1.Incident{}
}
