// Forgotten gangs: Volcano has admitted a gang, or owes it a PodGroup, and makes no pods for it.

package policies

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// forgottenAfter is how long Volcano may take for the next pod of a gang. It makes some 50 a second.
	forgottenAfter = 20 * time.Second
	// syncEvery is how often Volcano is asked to look at a Job that it has forgotten. Its controller does not hear of
	// it until its watches are back, between whose attempts it waits for up to a minute.
	syncEvery = 30 * time.Second
)

// lacksPods reports whether the gang has fewer pods than it needs, although it does not wait for its queue. A pod that
// is being deleted counts: Volcano cannot replace it yet.
func (w *world) lacksPods(s *v1alpha1.TrainingJobStatus) bool {
	v := w.VolcanoJob
	if v == nil || v.Ended || v.Stopping || w.stopped(s) || (w.PodGroup != nil && w.PodGroup.Pending) {
		return false
	}
	return w.made() < gang.MinAvailable(w.Effective)
}

// made is the number of ranks that have a pod, or have completed.
func (w *world) made() int32 {
	var n int32
	gang.EachRank(w.Effective, func(r gang.Rank) {
		if w.Pod(r) != nil {
			n++
		}
	})
	return n
}

// LackingSince is since when a gang has lacked pods without getting one, as far as this process knows; zero where it does not.
func LackingSince(o *gang.Observation) time.Time {
	since := o.LackingSince
	for i := range o.Pods {
		if p := &o.Pods[i]; !since.IsZero() && p.Attempt == o.Job.Status.Attempt {
			since = instant.Latest(since, p.CreatedTime)
		}
	}
	return since
}

// forgottenAt is when Volcano has had its time for the next pod of the gang; zero where the gang lacks none.
func (w *world) forgottenAt(s *v1alpha1.TrainingJobStatus) time.Time {
	if !w.lacksPods(s) {
		return time.Time{}
	}
	since := LackingSince(w.Observation)
	if since.IsZero() {
		since = w.Now
	}
	return since.Add(forgottenAfter)
}

// forgotten reports whether Volcano has forgotten the gang.
func (w *world) forgotten(s *v1alpha1.TrainingJobStatus) bool {
	at := w.forgottenAt(s)
	return !at.IsZero() && !at.After(w.Now)
}

// syncAt is when Volcano is to be asked to look at its Job again; zero for never.
func (w *world) syncAt(s *v1alpha1.TrainingJobStatus) time.Time {
	at := w.forgottenAt(s)
	if at.IsZero() || w.SyncedTime.IsZero() {
		return at
	}
	return instant.Latest(at, w.SyncedTime.Add(syncEvery))
}

// nextSync is when to look again at a gang that lacks pods. What is due now is done before that.
func (w *world) nextSync(s *v1alpha1.TrainingJobStatus) time.Time {
	at := w.syncAt(s)
	if at.IsZero() || at.After(w.Now) {
		return at
	}
	return w.Now.Add(syncEvery)
}

// LacksFor is how long a gang has lacked pods before it is worth asking why.
const LacksFor = forgottenAfter / 2

func (w *world) forgottenStory() string {
	if why := w.VolcanoJob.CreateError; why != "" {
		return fmt.Sprintf("Volcano has made %d of the %d pods of the gang, and fails to make the others: %s", w.made(), gang.MinAvailable(w.Effective), why)
	}
	return fmt.Sprintf("Volcano has made %d of the %d pods of the gang, and makes no more: it is asked every %s to look at its Job again",
		w.made(), gang.MinAvailable(w.Effective), syncEvery)
}
