// Starting: what is told of pods that have their nodes and do not start there.

package policies

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// startStory tells which pods have not started in time, and why; empty where all have.
func (j job) startStory(s *v1alpha1.TrainingJobStatus) string {
	var first *gang.Pod
	n := 0
	gang.EachRank(j.Effective, func(r gang.Rank) {
		p := j.Pod(r)
		if p == nil || gang.IsStale(s, p) || p.Deleting {
			return
		}
		if until := p.StartsUntil(); until.IsZero() || until.After(j.Now) {
			return
		}
		if n++; first == nil || (first.StartProblem.Reason == "" && p.StartProblem.Reason != "") {
			first = p
		}
	})
	if first == nil {
		return ""
	}
	told := "pod " + first.Name
	if n > 1 {
		told = fmt.Sprintf("%d pods, %s among them,", n, told)
	}
	if first.Progress() == gang.Started {
		return fmt.Sprintf("%s runs on node %s since %s UTC, and has not become ready", told, first.Node, first.BoundSince().UTC().Format(time.TimeOnly))
	}
	return told + " cannot start on node " + first.Node + startProblemStory(first.StartProblem)
}

// startProblemStory tells a problem, if there is one.
func startProblemStory(p gang.StartProblem) string {
	told := ""
	if p.Container != "" {
		told += ", container " + p.Container
	}
	if p.Reason != "" {
		told += ": " + p.Reason
	}
	if p.Message != "" {
		told += ": " + p.Message
	}
	return told
}
