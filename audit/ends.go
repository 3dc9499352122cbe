// Ends: what an incident has to come to.

package audit

import (
	"fmt"
	"strings"
	"time"
)

const (
	// reachedWithin is how long a pod that has failed may be left by a step that replaces it. Where the manager writes nothing about the job
	// meanwhile it may have been away, and has until silentFor.
	reachedWithin, silentFor = 30 * time.Second, 2 * time.Minute
	// endsWithin is how long an incident may be open while all pods of its job are ready.
	endsWithin = 5 * time.Minute
	// lookEvery is the interval of the log's time after which Reached and Ends are checked again.
	lookEvery = time.Second
)

// noteSteps keeps when the log showed the last step of each incident that replaces the pods of the ranks that failed.
func (c *checker) noteSteps(line *change) {
	is, was := line.jobIs, line.jobWas
	if is == nil {
		return
	}
	if c.byManager(line) {
		c.spoke[is.Metadata.UID] = c.world.now
	}
	if was == nil {
		return
	}
	for i := range is.Status.Incidents {
		inc := &is.Status.Incidents[i]
		for _, s := range newSteps(was, inc) {
			if replaces[s.Action] == ofRanks {
				c.stepAt[inc.key(is)] = c.world.now
			}
		}
	}
}

// key tells an incident from all others.
func (i *incident) key(of *trainingJob) string { return fmt.Sprint(of.Metadata.UID, " ", i.ID) }

// spell is a time for which a condition has held at each check: since is its begin, and looked the last check.
type spell struct{ since, looked time.Time }

// lasts notes that a condition holds, and returns since when. It reports once for each key whether that is too long.
func (c *checker) lasts(key string, tooLong func(since time.Time) bool) (time.Time, bool) {
	s := c.spells[key]
	if s.looked.IsZero() || !s.looked.Equal(c.lookedBefore) {
		s.since = c.world.now
	}
	s.looked = c.world.now
	c.spells[key] = s
	if c.told[key] || !tooLong(s.since) {
		return s.since, false
	}
	c.told[key] = true
	return s.since, true
}

// presentSince is how long the manager has been there since a time, by its writes. After a silence of silentFor it may have been away: the time
// counts from its first write.
func (c *checker) presentSince(since time.Time) time.Duration {
	if c.backAt.After(since) {
		since = c.backAt
	}
	return c.managerAt.Sub(since)
}

// ofIncidents asks about each open incident that the manager acts on, and joins the answers that are not empty.
func (c *checker) ofIncidents(ask func(*trainingJob, *incident) string) string {
	if !c.looks {
		return ""
	}
	var all []string
	for uid := range c.world.jobs {
		job := c.world.job(uid)
		if job == nil || job.rests() || job.Metadata.Annotations["lockstep.dev/dry-run"] == "true" {
			continue
		}
		for i := range job.Status.Incidents {
			inc := &job.Status.Incidents[i]
			if inc.Outcome != "" {
				continue
			}
			if message := ask(job, inc); message != "" {
				all = append(all, fmt.Sprintf("incident %d of job %s %s", inc.ID, job.Metadata.Name, message))
			}
		}
	}
	return strings.Join(all, "; ")
}

// reached: where a step replaces the pods of the ranks that failed in an incident, no pod is left that had failed for good, or is gone.
func (c *checker) reached(*change) string { return c.ofIncidents(c.missedBy) }

// missedBy names the pods that the step of an incident has not reached in time; empty where there are none.
func (c *checker) missedBy(job *trainingJob, inc *incident) string {
	at, stepped := c.stepAt[inc.key(job)]
	if !stepped {
		return ""
	}
	uid := job.Metadata.UID
	late := func(since time.Time) bool {
		return c.spoke[uid].Sub(since) > reachedWithin || c.presentSince(since) > silentFor
	}
	var missed []string
	for _, of := range inc.Ranks {
		for _, index := range indexes(of.Failed) {
			p := c.latest[place{uid, of.Task, index}]
			if p == nil || !c.isMissed(job, p, at) {
				continue
			}
			if since, long := c.lasts("Reached "+inc.key(job)+" "+p.Metadata.UID, late); long {
				missed = append(missed, fmt.Sprintf("%s of incarnation %d since %s", nameOf(p), c.incarnationOf(p), since.UTC().Format(time.RFC3339Nano)))
			}
		}
	}
	if len(missed) == 0 {
		return ""
	}
	return "has restarted its ranks, and not those of pods that have failed or are gone: " + strings.Join(missed, ", ")
}

// isMissed reports whether a pod has failed, or is gone, that had its node before a step, and that the status does not ask to replace.
func (c *checker) isMissed(job *trainingJob, p *pod, step time.Time) bool {
	of, _ := c.rankOf(p)
	began, known := c.began[p.Metadata.UID]
	gone := c.world.removed[p.Metadata.UID] && p.Status.Phase != "Succeeded"
	ended := gone || p.Status.Phase == "Failed" && p.Metadata.DeletionTimestamp == nil
	return ended && known && began.Before(step) && p.attempt() == job.Status.Attempt && c.incarnationOf(p) >= job.wanted(of) &&
		of.index < job.task(of.task).Replicas
}

// ends: an incident is over some minutes after all pods of its job are ready, unless a step is still to come.
func (c *checker) ends(*change) string { return c.ofIncidents(c.lingers) }

// lingers says that an incident has been open for too long; empty where it has not.
func (c *checker) lingers(job *trainingJob, inc *incident) string {
	if job.Status.NextStep != nil || inc.waits() || !c.allReady(job) {
		return ""
	}
	since, long := c.lasts("Ends "+inc.key(job), func(since time.Time) bool {
		return c.spoke[job.Metadata.UID].Sub(since) > endsWithin || c.presentSince(since) > endsWithin
	})
	if !long {
		return ""
	}
	return "is open, and since " + since.UTC().Format(time.RFC3339Nano) + " all pods are ready and no step is to come"
}

// waits reports whether an incident waits for what the log does not show: the health of devices, or a checkpoint.
func (i *incident) waits() bool {
	return i.Checkpoint != nil && i.Checkpoint.Outcome == "" || strings.HasPrefix(i.Trigger, "Health")
}

// allReady reports whether every rank of a job has a ready pod, on a node that is well. Whether the programs of a supervised gang run the log
// does not show: there the status has to say so, too.
func (c *checker) allReady(job *trainingJob) bool {
	for i := range job.Spec.Tasks {
		t := job.task(job.Spec.Tasks[i].Name)
		if job.Spec.Supervisor != nil && t.Ready < t.Replicas {
			return false
		}
		for index := range t.Replicas {
			p := c.latest[place{job.Metadata.UID, t.Name, index}]
			if p == nil || p.attempt() != job.Status.Attempt || !c.isReady(p) {
				return false
			}
		}
	}
	return len(job.Spec.Tasks) > 0
}

func (c *checker) isReady(p *pod) bool {
	n := c.world.nodes[p.Spec.NodeName]
	if n == nil || !n.ready() || c.world.pods[p.Metadata.UID] == nil || p.Metadata.DeletionTimestamp != nil {
		return false
	}
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "lockstep.dev/") {
			return false // its devices may be at fault
		}
	}
	return is(p.Status.Conditions, "Ready", "True") && !is(p.Status.Conditions, "DisruptionTarget", "True")
}
