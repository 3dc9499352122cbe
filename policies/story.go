// The story: what people are told of an open incident, beside what it is about.

package policies

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/healthpolicy"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// unknownStory tells of an action that this manager does not know, in the rule of an incident or among the steps that
// another version has taken; empty where it knows all.
func (j job) unknownStory(inc *v1alpha1.Incident) string {
	for _, step := range j.RuleOf(inc).Steps {
		if !rules.ActionOf(step.Action).Known {
			return fmt.Sprintf(", action %s of rule %s is unknown to this version of the manager, which does nothing for it", step.Action, inc.Rule)
		}
	}
	for _, f := range inc.Steps {
		if !rules.ActionOf(f.Action).Known {
			return fmt.Sprintf(", action %s was taken by another version of the manager, and is unknown to this one", f.Action)
		}
	}
	return ""
}

// maxSilentTold is how many of the ranks whose supervisors are not heard are named.
const maxSilentTold = 3

// silentStory names ranks whose supervisors have not been heard for some time; empty where there are none.
func (j job) silentStory() string {
	ranks, more := j.SilentRanks, ""
	if len(ranks) == 0 {
		return ""
	}
	if n := len(ranks) - maxSilentTold; n > 0 {
		ranks, more = ranks[:maxSilentTold], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("no stream from the supervisors of %s%s: their programs cannot be restarted in place", strings.Join(ranks, ", "), more)
}

// breakerStory says why an incident has to wait for its turn.
func (j job) breakerStory(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) string {
	policy := healthpolicy.Of(j.HealthPolicy, j.Now)
	return fmt.Sprintf(", held back by the breaker: to move %d of %d pods for their health, after %d within %s, is more than spec.breaker.job of the HealthPolicy allows",
		j.ToMove(s, inc), gang.Replicas(j.Effective), incident.MovedPods(j.RecentMoves(s, &policy)), policy.Moves.Window)
}

// obstacle says what keeps an incident from going on: the backoff, a breaker, or what a rank of it waits for to be placed. Waiting is
// the pod of that rank; nil for none.
func (j job) obstacle(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, waiting *gang.Pod) string {
	if until := j.backsOffUntil(s, inc); !until.IsZero() {
		return ", backs off until " + until.UTC().Format(time.TimeOnly) + " UTC"
	}
	if j.BreakerUntil(s, inc).After(j.Now) && !j.WaitsForCapacity(s, inc) {
		return j.breakerStory(s, inc)
	}
	switch {
	case j.refused() != "":
		return ", " + j.refused()
	case j.forgotten(s):
		return ", waits for its pods: " + j.forgottenStory()
	case waiting != nil:
		return j.waitingStory(s, waiting)
	}
	return ""
}

// waitingPod returns the first pod of an incident that has waited for a node for so long that people are told; nil for none.
func (j job) waitingPod(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, m *placement.Rooms) *gang.Pod {
	var found *gang.Pod
	j.EveryRankOf(inc, func(r gang.Rank) bool {
		if p := j.Pod(r); p != nil && p.Node == "" && j.waitsForRoom(s, p, m) {
			found = p
		}
		return found == nil
	})
	return found
}

// waitsForRoom reports whether no node is good for a pod, or the scheduler has found none for some time, or tries none.
func (j job) waitsForRoom(s *v1alpha1.TrainingJobStatus, p *gang.Pod, m *placement.Rooms) bool {
	if p.Gated && m.ForRank(p.Rank()).None() {
		return true
	}
	return p.Searches() && !gang.IsStale(s, p) && (p.Untried || !placement.NoRoomToldAt(p).After(j.Now))
}

// noteNoRoom records when the first replacement of an incident began to wait for room. Its pod may be another one by the end.
func (j job) noteNoRoom(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, waiting *gang.Pod) {
	if waiting == nil || inc.NoRoomTime != nil || !j.roomIsMissing(s, waiting) {
		return
	}
	since := j.Now
	if !waiting.Gated {
		since = waiting.PlacedTime
	}
	inc.NoRoomTime = new(metav1.NewMicroTime(since))
}

// roomIsMissing reports whether it is room that a waiting pod lacks: for 5 s, where the scheduler looks, because its rounds may find
// none while the pod before is still on its node. A queue that is closed, and a HyperNode that is new, are no lack of room.
func (j job) roomIsMissing(s *v1alpha1.TrainingJobStatus, p *gang.Pod) bool {
	switch {
	case p.Gated:
		return true
	case placement.NoRoomToldAt(p).After(j.Now):
		return false
	case p.Untried:
		_, outdated := j.OutdatedHome(s, p.Rank())
		return !outdated && !j.QueueClosed
	}
	return j.lacksRoom()
}

// waitingStory says what a pod waits for that has waited for a node for some time.
func (j job) waitingStory(s *v1alpha1.TrainingJobStatus, p *gang.Pod) string {
	r, where := p.Rank(), ""
	if home := j.Places(s).HomeOf(r); home != "" {
		where = " in HyperNode " + home
	}
	switch {
	case p.Gated:
		return ", waits for a healthy node" + where
	case p.Untried:
		return ", waits for the scheduler, which tries no node for it: " + j.whyUntried(s, r)
	case j.lacksRoom():
		return ", waits for room" + where
	}
	return fmt.Sprintf(", finds no node%s: %s", where, strings.Join(j.FitErrors, ", "))
}

// backsOffUntil is until when the backoff alone keeps an incident from its first step, or from another start of its programs.
func (j job) backsOffUntil(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident) time.Time {
	if !j.WaitsForCapacity(s, inc) {
		if up, ok := j.Due(s, inc); ok && (len(inc.Steps) == 0 || incident.Repeats(inc, up)) && up.At.Equal(j.Backoff(s, inc)) && up.At.After(j.Now) {
			return up.At
		}
	}
	return time.Time{}
}
