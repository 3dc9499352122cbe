// Forgotten gangs: Volcano has admitted a gang, or owes it a PodGroup, and makes no pods for it.

package policies

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

const (
	// forgottenAfter is how long Volcano may take for the next pod of a gang. It makes some 50 a second.
	forgottenAfter = 20 * time.Second
	// syncEvery is how often Volcano is asked to look at a Job that it has forgotten. Its controller does not hear of
	// it until its watches are back, between whose attempts it waits for up to a minute.
	syncEvery = 30 * time.Second
	// mostForgotten is how many first attempts of a job are given up at most because Volcano makes no pod for them.
	mostForgotten = 20
)

// lacksPods reports whether the gang has fewer pods than it needs, although it does not wait for its queue. A pod that
// is being deleted counts: Volcano cannot replace it yet.
func (j job) lacksPods(s *v1alpha1.TrainingJobStatus) bool {
	v := j.VolcanoJob
	if v == nil || v.Ended || v.Stopping || j.stopped(s) || (j.PodGroup != nil && j.PodGroup.Pending) {
		return false
	}
	return j.made() < gang.MinAvailable(j.Effective)
}

// made is the number of ranks that have a pod, or have completed.
func (j job) made() int32 {
	var n int32
	gang.EachRank(j.Effective, func(r gang.Rank) {
		if j.Pod(r) != nil {
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
func (j job) forgottenAt(s *v1alpha1.TrainingJobStatus) time.Time {
	if !j.lacksPods(s) {
		return time.Time{}
	}
	since := LackingSince(j.Observation)
	if since.IsZero() {
		since = j.Now
	}
	return since.Add(forgottenAfter)
}

// forgotten reports whether Volcano has forgotten the gang.
func (j job) forgotten(s *v1alpha1.TrainingJobStatus) bool {
	at := j.forgottenAt(s)
	return !at.IsZero() && !at.After(j.Now)
}

// syncAt is when Volcano is to be asked to look at its Job again; zero for never.
func (j job) syncAt(s *v1alpha1.TrainingJobStatus) time.Time {
	at := j.forgottenAt(s)
	if at.IsZero() || j.SyncedTime.IsZero() {
		return at
	}
	return instant.Latest(at, j.SyncedTime.Add(syncEvery))
}

// forgottenForGood reports whether Volcano has heard twice that it should look at a Job, and has made no pod of it, although nothing refuses that. Its
// controller never makes any where a Job of the same name was deleted shortly before: the cleanup of that one, which is tried again later and later while
// its pods last, takes this one from the cache (jobCache.processCleanupJob of 1.14.1). Of a Job with another name it makes them.
func (j job) forgottenForGood(s *v1alpha1.TrainingJobStatus) bool {
	return s.Placement == nil && s.Attempt <= mostForgotten && !incident.AnyOpen(s) && j.SyncHeard && j.made() == 0 && j.forgotten(s) && !j.syncAt(s).After(j.Now) &&
		j.VolcanoJob.CreateError == ""
}

// nextSync is when to look again at a gang that lacks pods. What is due now is done before that.
func (j job) nextSync(s *v1alpha1.TrainingJobStatus) time.Time {
	at := j.syncAt(s)
	if at.IsZero() || at.After(j.Now) {
		return at
	}
	return j.Now.Add(syncEvery)
}

// LacksFor is how long a gang has lacked pods before it is worth asking why.
const LacksFor = forgottenAfter / 2

func (j job) forgottenStory() string {
	if why := j.VolcanoJob.CreateError; why != "" {
		return fmt.Sprintf("Volcano has made %d of the %d pods of the gang, and fails to make the others: %s", j.made(), gang.MinAvailable(j.Effective), why)
	}
	return fmt.Sprintf("Volcano has made %d of the %d pods of the gang, and makes no more: it is asked every %s to look at its Job again",
		j.made(), gang.MinAvailable(j.Effective), syncEvery)
}
