package simulation

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// What an incident says that it concerns, and what was done about it.

// maxNamed is how many of its ranks an incident names.
const maxNamed = 32

// incidentOf is the incident of an ID; a zero one where there is none.
func incidentOf(s *v1alpha1.TrainingJobStatus, id int32) v1alpha1.Incident {
	if i := slices.IndexFunc(s.Incidents, func(inc v1alpha1.Incident) bool { return inc.ID == id }); i >= 0 {
		return s.Incidents[i]
	}
	return v1alpha1.Incident{}
}

// namesRank reports whether a pod of the rank is among those that an incident names.
func namesRank(inc *v1alpha1.Incident, r rank) bool {
	return slices.ContainsFunc(inc.Ranks, func(of v1alpha1.IncidentRanks) bool { return of.Task == r.task && inSet(of.Failed, r.index) })
}

// failedRanks are the ranks that an incident says have failed.
func failedRanks(inc *v1alpha1.Incident) []rank {
	var out []rank
	for _, of := range inc.Ranks {
		for _, index := range indexesOf(of.Failed) {
			out = append(out, rank{of.Task, index})
		}
	}
	return out
}

// unnamed reports whether an incident is about the job as a whole, and no rank in particular.
func unnamed(inc *v1alpha1.Incident) bool {
	return !slices.ContainsFunc(inc.Ranks, func(of v1alpha1.IncidentRanks) bool { return of.Failed != "" })
}

// eachRange calls f for each range of a set of indexes such as 0-31,40 until it returns false.
func eachRange(set string, f func(first, last int32) bool) {
	for set != "" {
		var part string
		part, set, _ = strings.Cut(set, ",")
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseInt(from, 10, 32)
		last, err2 := strconv.ParseInt(to, 10, 32)
		if err != nil || err2 != nil {
			panic(violation("a set of ranks is " + part))
		}
		if !f(int32(first), int32(last)) {
			return
		}
	}
}

func inSet(set string, index int32) bool {
	found := false
	eachRange(set, func(first, last int32) bool {
		found = first <= index && index <= last
		return !found
	})
	return found
}

func indexesOf(set string) []int32 {
	var out []int32
	eachRange(set, func(first, last int32) bool {
		for i := first; i <= last; i++ {
			out = append(out, i)
		}
		return true
	})
	return out
}

// newSteps are the steps of an incident that it had not taken before. Of those that no rule asked for it keeps the last.
func newSteps(was, inc *v1alpha1.Incident) []v1alpha1.FiredStep {
	kept := 0
	for _, f := range was.Steps {
		if slices.Contains(inc.Steps, f) {
			kept++
		}
	}
	return inc.Steps[kept:]
}

// took reports whether a step of this action was taken.
func took(inc *v1alpha1.Incident, actions ...v1alpha1.Action) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return !f.DryRun && slices.Contains(actions, f.Action) })
}

// hasRestarted reports whether a step of an incident has restarted something.
func hasRestarted(inc *v1alpha1.Incident) bool {
	return slices.ContainsFunc(inc.Steps, func(f v1alpha1.FiredStep) bool { return !f.DryRun && f.Action != v1alpha1.Ignore })
}

// lastRestart is when an incident last restarted something, or began.
func lastRestart(inc *v1alpha1.Incident) time.Time {
	at := inc.StartTime.Time
	for _, f := range inc.Steps {
		if !f.DryRun && f.Action != v1alpha1.Ignore && f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}

// concernsJob reports whether an incident concerns every rank.
func concernsJob(inc *v1alpha1.Incident) bool {
	return unnamed(inc) || took(inc, v1alpha1.RestartJob, v1alpha1.RelocateJob)
}

// concernsMore reports whether an incident concerns more ranks than it names.
func concernsMore(inc *v1alpha1.Incident) bool {
	return concernsJob(inc) || took(inc, v1alpha1.RestartTask, v1alpha1.RestartPartition)
}

// concerns reports whether an incident is about a rank: one that fell, or one that a step has restarted since.
func concerns(job *v1alpha1.TrainingJob, inc *v1alpha1.Incident, r rank) bool {
	if concernsJob(inc) || namesRank(inc, r) {
		return true
	}
	task, partition := took(inc, v1alpha1.RestartTask), took(inc, v1alpha1.RestartPartition)
	return (task || partition) && slices.ContainsFunc(failedRanks(inc), func(p rank) bool {
		return p.task == r.task && (task || samePartition(job, r, p.index))
	})
}

// samePartition reports whether a rank is in the partition of another rank of its task. A task without
// partitions is one.
func samePartition(job *v1alpha1.TrainingJob, r rank, index int32) bool {
	for i := range job.Spec.Tasks {
		if t := &job.Spec.Tasks[i]; t.Name == r.task && t.Partition != nil {
			return r.index/t.Partition.Size == index/t.Partition.Size
		}
	}
	return true
}

// ofJob reports whether a trigger concerns the job as a whole, so that no rule matches it.
func ofJob(trigger v1alpha1.EventType) bool {
	return trigger == v1alpha1.VolcanoJobDeleted || trigger == v1alpha1.VolcanoJobEnded || trigger == v1alpha1.JobResumed
}

// byUser reports whether a step makes the new Volcano Job that a user has asked for.
func byUser(inc *v1alpha1.Incident, step v1alpha1.FiredStep) bool {
	return (inc.Trigger == v1alpha1.JobResumed || inc.Trigger == v1alpha1.VolcanoJobDeleted) && step == inc.Steps[0]
}

// recreatedAll reports whether the last step of an incident restarted every rank.
func recreatedAll(inc *v1alpha1.Incident) bool {
	for _, f := range slices.Backward(inc.Steps) {
		if !f.DryRun {
			return f.Action == v1alpha1.RestartJob || f.Action == v1alpha1.RelocateJob
		}
	}
	return false
}

// yields reports whether a job waits its turn like any other: it was preempted, or comes back from suspension.
func yields(s *v1alpha1.TrainingJobStatus) bool {
	return slices.ContainsFunc(s.Incidents, func(inc v1alpha1.Incident) bool {
		return inc.Outcome == "" && (inc.Trigger == v1alpha1.JobResumed || inc.Class == v1alpha1.ClassPreemption)
	})
}

func asksForCheckpoint(inc *v1alpha1.Incident) bool {
	return inc.Checkpoint != nil && inc.Checkpoint.Outcome == ""
}

func isHealth(e v1alpha1.EventType) bool {
	return e == v1alpha1.HealthDegraded || e == v1alpha1.HealthFailed
}
