// Incidents: the ranks that they concern, and the ranks that their steps restart.

package audit

import (
	"slices"
	"strings"
	"time"
)

type incident struct {
	ID      int    `json:"id"`
	Trigger string `json:"trigger"`
	Outcome string `json:"outcome"`
	// Ranks that failed, by task, as sets of indexes such as 0-31,40.
	Ranks []struct {
		Task   string `json:"task"`
		Failed string `json:"failed"`
	} `json:"ranks"`
	Steps      []step `json:"steps"`
	Checkpoint *struct {
		Outcome string `json:"outcome"`
	} `json:"checkpoint"`
}

type step struct {
	Action string    `json:"action"`
	Index  int       `json:"index"`
	Time   time.Time `json:"time"`
	DryRun bool      `json:"dryRun"`
}

// Whose pods an action replaces: those of the ranks that failed, of their partitions, of their tasks, or of the job.
const (
	ofRanks = iota + 1
	ofPartitions
	ofTasks
	ofJob
)

// replaces is what each action replaces. The others leave all pods, or say in the status which ranks they restart.
var replaces = map[string]int{
	"RestartPod": ofRanks, "MigratePod": ofRanks, "RestartPartition": ofPartitions, "RestartTask": ofTasks, "RestartJob": ofJob, "RelocateJob": ofJob,
}

// acts reports whether a step did more than to be recorded.
func (s step) acts() bool { return !s.DryRun && s.Action != "Ignore" }

// acted reports whether an incident has restarted anything.
func (i *incident) acted() bool { return slices.ContainsFunc(i.Steps, step.acts) }

// names reports whether a rank is among those that failed in an incident.
func (i *incident) names(task string, index int) bool {
	for _, of := range i.Ranks {
		if of.Task == task && slices.Contains(indexes(of.Failed), index) {
			return true
		}
	}
	return false
}

// namesAny reports whether an incident names a rank of a task, from one index until before another.
func (i *incident) namesAny(task string, from, to int) bool {
	for _, of := range i.Ranks {
		if of.Task == task && slices.ContainsFunc(indexes(of.Failed), func(index int) bool { return from <= index && index < to }) {
			return true
		}
	}
	return false
}

// unnamed reports whether an incident is about the job as a whole.
func (i *incident) unnamed() bool {
	for _, of := range i.Ranks {
		if of.Failed != "" {
			return false
		}
	}
	return true
}

// indexes are those of a set such as 0-31,40.
func indexes(set string) []int {
	var out []int
	for part := range strings.SplitSeq(set, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		for n := number(first); part != "" && n <= number(last); n++ {
			out = append(out, n)
		}
	}
	return out
}

// newSteps are the steps of an incident of a status that an earlier one has not, and that did something.
func newSteps(was *trainingJob, now *incident) []step {
	var old []step
	for _, before := range was.Status.Incidents {
		if before.ID == now.ID {
			old = before.Steps
		}
	}
	var out []step
	for _, s := range now.Steps {
		if s.acts() && !slices.Contains(old, s) {
			out = append(out, s)
		}
	}
	return out
}

// repeats reports whether an incident has taken a step of its rule twice, and which. What a dry run recorded is still to be taken; a FailJob
// may come into the rule at a position that was taken.
func (i *incident) repeats() (int, bool) {
	taken := map[int]bool{}
	for _, s := range i.Steps {
		if s.Index < 0 || !s.acts() || s.Action == "FailJob" {
			continue
		}
		if taken[s.Index] {
			return s.Index, true
		}
		taken[s.Index] = true
	}
	return 0, false
}
