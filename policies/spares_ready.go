// What is shown of spares that take over: how many ranks could be lost now, and which pods are theirs.

package policies

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// describeSpares says whether every spare that takes over waits for a rank. Spares stop and wait again with each run, and are heard again by each leader:
// while the gang starts or recovers, and while one may yet be heard, nothing is said of them. The message names some of those that are away, and not how
// many there are: a status that changes is a write.
func (j job) describeSpares(s *v1alpha1.TrainingJobStatus) {
	spares, away := j.spares(s)
	switch {
	case spares == 0:
	case j.stopped(s):
		j.SetCondition(s, v1alpha1.ConditionSparesReady, false, v1alpha1.ReasonVolcanoJobNotNeeded, "the job is not active")
	case incident.AnyOpen(s) || !gang.IsTrue(s, v1alpha1.ConditionRunning) || !j.sparesHeardBy().IsZero():
	case len(away) == 0:
		j.SetCondition(s, v1alpha1.ConditionSparesReady, true, v1alpha1.ReasonSparesWait, "every spare waits for a rank")
	default:
		told := strings.Join(away[:min(len(away), maxRanksTold)], ", ")
		if len(away) > maxRanksTold {
			told += ", and others"
		}
		j.SetCondition(s, v1alpha1.ConditionSparesReady, false, v1alpha1.ReasonSparesNotReady, "some spares do not wait for a rank: "+told)
	}
}

// eachSpareThatTakesOver calls f for every spare that takes over, and its pod, of which there may be none.
func (j job) eachSpareThatTakesOver(f func(gang.Rank, *gang.Pod)) {
	for i := range j.Effective.Spec.Tasks {
		t := &j.Effective.Spec.Tasks[i]
		for index := int32(0); index < ptr.Deref(t.Spares, 0) && j.TakesOver(t.Name); index++ {
			r := gang.SpareRank(t.Name, index)
			f(r, j.Pod(r))
		}
	}
}

// spares are how many spares of the job take over, and why some do not wait for a rank.
func (j job) spares(s *v1alpha1.TrainingJobStatus) (spares int, away []string) {
	j.eachSpareThatTakesOver(func(r gang.Rank, p *gang.Pod) {
		if spares++; !j.Waits(p) || p.Deleting || !j.Places(s).Usable(p.Node, p.Task) {
			away = append(away, awayStory(r, p))
		}
	})
	return spares, away
}

// sparesHeardBy is by when a spare that runs and is not heard has to be; zero where there is none, or that has passed.
func (j job) sparesHeardBy() (by time.Time) {
	j.eachSpareThatTakesOver(func(_ gang.Rank, p *gang.Pod) { by = instant.Latest(by, j.UnheardUntil(p)) })
	return by
}

// awayStory is why a spare, of which there may be no pod, does not wait for a rank.
func awayStory(r gang.Rank, p *gang.Pod) string {
	switch {
	case p == nil:
		return fmt.Sprintf("%s-%d has no pod", r.Task, r.Index)
	case p.Node == "":
		return p.Name + " has no node"
	case p.Process == nil:
		return p.Name + " is not heard"
	case p.Process.WarmUpExit != nil:
		return fmt.Sprintf("%s has failed to warm up, with exit code %d", p.Name, p.Process.WarmUpExit.ExitCode)
	case p.Process.State == gang.ProcessWarmingUp:
		return p.Name + " warms up"
	case p.Process.State == gang.ProcessWaiting:
		return p.Name + " is on a node that takes no rank"
	}
	return p.Name + " does not wait yet"
}

// Relabel is a pod to label as a spare's, or as a rank's.
type Relabel struct {
	Pod, UID string
	Spare    bool
}

// relabels are the pods whose labels do not show what they became by a take-over. Nothing waits for labels: those of ranks, by which a budget knows
// them, wait until the gang runs, and those of spares for the end of the recovery.
func (j job) relabels(s *v1alpha1.TrainingJobStatus) (out []Relabel) {
	if j.Gathers(s) {
		return nil
	}
	open := incident.AnyOpen(s)
	for i := range j.Pods {
		p := &j.Pods[i]
		if j.TakesOver(p.Task) && p.Attempt == s.Attempt && p.SpareLabel != p.Spare && (!p.Spare || !open) && !p.Deleting && !gang.IsStale(s, p) {
			out = append(out, Relabel{Pod: p.Name, UID: p.UID, Spare: p.Spare})
		}
	}
	return out
}
