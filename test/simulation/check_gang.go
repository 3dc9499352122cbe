package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

const (
	// victimTime is how long victims have to come back once the ranks of their incident are placed.
	victimTime = 330 * time.Second
	// correctedFor is for how long the cause of an incident is corrected.
	correctedFor = 10 * time.Second
	// foundWithin is how long before a node is found silent its process may have been lost.
	foundWithin = time.Minute
)

// checkVictim checks that a rank that fell only in another's wake is replaced by no step for pods, before its time to
// come back is over.
func (r *record) checkVictim(p *gang.Pod) {
	if !r.showsVictim(p, 0) || r.isSilent(p) {
		return
	}
	may := slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool {
		was := incidentOf(r.old, inc.ID)
		return slices.ContainsFunc(newSteps(&was, &inc), func(f v1alpha1.FiredStep) bool {
			forPods := f.Action == v1alpha1.RestartPod || f.Action == v1alpha1.MigratePod
			return !f.DryRun && r.reaches(&inc, f, rankOf(p)) && (!forPods || r.isOwn(&was, &inc, p) || r.isOverdue(&was, rankOf(p)) || byRequest(&inc, f))
		})
	})
	r.require(Scope, may, "pod %s on node %s is replaced, and only its peers are broken", p.Name, p.Node)
}

// isSilent reports whether a pod is ready and its supervisor is not heard, although others of its gang are. Nothing says that its program waits.
func (r *record) isSilent(p *gang.Pod) bool {
	return p.Ready && p.Process == nil && r.mayBeLate(r.old, p)
}

// showsVictim reports whether a pod fell only in another's wake, and the observation shows that its program has exited
// while its node and its devices are fine. A cache that is behind may not show the exit yet, or may show a node that has
// come back as silent: then nothing tells the pod from one that has to be replaced. One that is not behind shows all this.
// Of the incidents that are new, only the one that names the pod counts, if any does: the pod may have failed before the others.
func (r *record) showsVictim(p *gang.Pod, namedBy int32) bool {
	is := r.podOfUID(p.UID)
	shown := p.LastExit != nil && !r.ails(p) && r.o.Nodes[p.Node].Ready
	if r.supervised && (r.isLate(p) || r.failsToStart(p)) {
		return false
	}
	return shown && is != nil && r.isVictim(is) && r.isSpared(p, namedBy)
}

// isSpared reports whether an open incident is about other ranks, so that a rank may have fallen in the wake of those.
func (r *record) isSpared(p *gang.Pod, namedBy int32) bool {
	return slices.ContainsFunc(r.s.Incidents, func(inc v1alpha1.Incident) bool {
		rule, was := ruleOf(r.o.Job, &inc), incidentOf(r.old, inc.ID)
		switch {
		case fellFirst(p, &was, inc.ID, namedBy):
			return false
		case (inc.Trigger == v1alpha1.RestartRequested || inc.Trigger == v1alpha1.HealthDegraded || inc.Trigger == v1alpha1.NodeCordoned) && !hasRestarted(&was):
			return false // its ranks have run until now
		case inc.Outcome != "" || inc.Trigger == v1alpha1.PodPending || len(rule.Steps) == 0 || rule.Steps[0].Action == v1alpha1.Ignore:
			return false
		case isHealth(inc.Trigger) && !hasRestarted(&inc) && r.o.HealthPolicy != nil:
			return false // it is held back
		}
		return slices.ContainsFunc(inc.Pods, func(q v1alpha1.IncidentPod) bool { return q.Name != p.Name }) || unnamed(&inc)
	})
}

// fellFirst reports whether a pod may have fallen before an incident began: one that is new and does not name it, or whose cause is later
// by a clock that was set back meanwhile.
func fellFirst(p *gang.Pod, was *v1alpha1.Incident, id, namedBy int32) bool {
	isNew := namedBy > 0 && was.ID == 0 && id != namedBy
	return isNew || (was.Cause.Time != nil && p.LastExit.Time.Before(was.Cause.Time.Time))
}

// isOwn reports whether an incident is about this very pod since before this record, or begins in it with the exit of that as the first that is seen.
func (r *record) isOwn(was, inc *v1alpha1.Incident, p *gang.Pod) bool {
	return isAbout(was, p) || (was.ID == 0 && inc.Cause.Pod == p.Name && r.isSeenFirst(inc, p))
}

// isAbout reports whether an incident is about this very pod. Of the pods that it does not name, it is about those that were there before.
func isAbout(inc *v1alpha1.Incident, p *gang.Pod) bool {
	for _, q := range inc.Pods {
		if q.Task == p.Task && q.Index == p.Index {
			return q.UID == p.UID
		}
	}
	return namesRank(inc, rankOf(p)) && !p.PlacedTime.After(inc.StartTime.Time)
}

// checkNamed checks that an incident does not name a rank that fell only in another's wake, before the time of that
// is over. The first to fall may be its cause: what it fell in the wake of may be unknown.
func (r *record) checkNamed(was, inc *v1alpha1.Incident, of rank) {
	p := r.seen(of)
	if p == nil || replaced(r.old, p) || r.hasOwn(of, inc.ID) { // a step of before has yet to delete it
		return
	}
	// An exit whose rule fails the job first counts by itself, which a dry run shows.
	counts := failsFirst(r.o.Job, v1alpha1.ProcessFailed, p)
	if inc.Cause.Pod != p.Name && (was.ID != 0 || !r.isSeenFirst(inc, p)) && r.showsVictim(p, inc.ID) && !r.asksFor(inc, of) && !counts {
		r.require(Scope, was.ID != 0 && r.isOverdue(was, of), "incident %d names pod %s, and only its peers are broken", inc.ID, p.Name)
	}
}

// hasOwn reports whether an open incident besides one was about a rank's failure already.
func (r *record) hasOwn(of rank, besides int32) bool {
	return slices.ContainsFunc(openOnes(r.old), func(inc *v1alpha1.Incident) bool {
		return inc.ID != besides && inc.Trigger != v1alpha1.PodPending && namesRank(inc, of)
	})
}

// isSeenFirst reports whether the exit of a pod comes before all others that are seen of an incident: in the record in which that begins, its cause
// may pass on to a stronger failure of another rank.
func (r *record) isSeenFirst(inc *v1alpha1.Incident, p *gang.Pod) bool {
	return p.LastExit != nil && !slices.ContainsFunc(failedRanks(inc), func(of rank) bool {
		q := r.seen(of)
		return q != nil && q.UID != p.UID && (q.LastExit == nil || !p.LastExit.Time.Before(q.LastExit.Time))
	})
}

// isOverdue reports whether a victim of an incident has had its time: it begins when the last of the incident's own
// ranks is placed.
func (r *record) isOverdue(was *v1alpha1.Incident, victim rank) bool {
	from := lastRestart(was)
	for _, of := range ranksOf(r.o.Job, r.old) {
		if of == victim || !concerns(r.o.Job, was, of) {
			continue
		}
		p := r.seen(of)
		if p == nil || p.Gated || p.Deleting || replaced(r.old, p) {
			return false
		}
		if p.Phase != corev1.PodSucceeded && (p.Phase != corev1.PodRunning || !r.o.Nodes[p.Node].Ready) {
			return false
		}
		if p.PlacedTime.After(from) {
			from = p.PlacedTime
		}
	}
	return !r.o.Now.Before(from.Add(victimTime))
}

// seemsDown reports whether a rank other than a pod's own, on a node that answers, is seen not to run, or to have exited
// since shortly before the pod's node was found silent.
func (t *tenant) seemsDown(p *pod, silentSince time.Time) bool {
	o, s, pods := t.acting.cache, t.acting.status, t.withReports(t.acting.cache.Pods)
	since := silentSince.Add(-foundWithin)
	if p.StartedTime.After(since) {
		since = p.StartedTime
	}
	return slices.ContainsFunc(ranksOf(t.acting.job, s), func(of rank) bool {
		if of == p.rank() {
			return false
		}
		i := slices.IndexFunc(pods, func(q gang.Pod) bool { return rankOf(&q) == of && q.Attempt == s.Attempt })
		if i < 0 || replaced(s, &pods[i]) {
			return true
		}
		q := &pods[i]
		if q.Phase == corev1.PodSucceeded || (q.Node != "" && !o.Nodes[q.Node].Ready) {
			return false
		}
		waits := (!q.Ready && q.LastExit != nil) || (q.Process != nil && q.Process.State != processRunning)
		return q.Phase != corev1.PodRunning || waits || (q.LastExit != nil && q.LastExit.Time.After(since))
	})
}

// checkRefused checks that nobody pays for what kubelets refused. An incident that was charged before is charged again for
// the program where the whole gang has fallen since.
func (r *record) checkRefused(inc *v1alpha1.Incident) {
	was := incidentOf(r.old, inc.ID)
	if was.Charged || r.startedAgain(inc) || ruleOf(r.o.Job, inc).Charge == v1alpha1.ChargeAlways {
		return
	}
	refused := len(inc.Pods) > 0 && int(inc.PodCount) == len(inc.Pods)
	for _, of := range inc.Pods {
		p := r.seen(rank{of.Task, of.Index})
		refused = refused && p != nil && p.Refused && p.UID == of.UID
	}
	r.require(Budget, !refused, "incident %d is charged, and kubelets refused all its pods", inc.ID)
}

// culprit is the process whose exit broke the collective, as the API server tells of it.
type culprit struct {
	pod, uid string
	exit     gang.ContainerFailure
}

// findCulprit finds out which exit has broken the collective; none where something else has.
func (t *tenant) findCulprit() {
	t.culprit = nil
	if t.supervised {
		return // see checkFirstExit
	}
	var first *pod
	for _, p := range t.group {
		switch lost := !p.joined || !t.computes(p) || t.podOfUID(p.UID) != p; {
		case !lost || p.Phase == corev1.PodSucceeded:
		case !t.executes(p) || p.Deleting || p.fault != ownFault || p.LastExit == nil:
			return
		case first == nil || p.LastExit.Time.Before(first.LastExit.Time):
			first = p
		}
	}
	if first != nil {
		t.culprit = &culprit{first.Name, first.UID, *first.LastExit}
	}
}

// checkCauses checks that young incidents name the culprit where what is seen tells who it is.
func (r *record) checkCauses() {
	if r.culprit == nil || !r.tellsCulprit() {
		return
	}
	for i := range r.s.Incidents {
		inc := &r.s.Incidents[i]
		age := r.o.Now.Sub(inc.StartTime.Time) // below 0 where the clock was set back
		young := age >= 0 && age <= correctedFor && !inc.StartTime.Time.Before(r.culprit.exit.Time.Add(time.Second))
		// It is about another failure, or about an exit just before, which a cache that was behind did not show to be over.
		earlier := inc.Cause.Time != nil && (inc.Cause.Time.Time.Before(r.culprit.exit.StartedTime) || r.culprit.follows(inc.Cause.Time.Time))
		if inc.Outcome != "" || inc.Trigger != v1alpha1.PodNotReady || hasRestarted(inc) || !young || earlier {
			continue
		}
		r.require(Evidence, inc.Cause.Pod == r.culprit.pod, "incident %d is blamed on %s, and %s exited first", inc.ID, inc.Cause.Pod, r.culprit.pod)
		r.happened("culprit is named")
	}
}

// tellsCulprit reports whether the observation shows the exit that broke the collective, later ones and nothing else, and the pod stays
// that it was in: one that a step for something else replaces in this very pass, or that the job no longer asks for, is looked at no more.
func (r *record) tellsCulprit() bool {
	c, shown := r.culprit, false
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		switch {
		case p.Spare:
		case !r.onlyExits(p):
			return false
		case p.UID == c.uid:
			shown = r.isRank(p) && !replaced(r.s, p) && p.LastExit != nil && *p.LastExit == c.exit && isForExit(r.o.Job, p) && !r.wasTaken(p)
		case p.LastExit != nil && (!c.precedes(p.LastExit) || c.findsDown(p)):
			return false
		}
	}
	return shown
}

// wasTaken reports whether the rank of a pod was in an open incident when its process exited, which so is no news.
func (r *record) wasTaken(p *gang.Pod) bool {
	return slices.ContainsFunc(openOnes(r.old), func(inc *v1alpha1.Incident) bool {
		return namesRank(inc, rankOf(p)) && inc.StartTime.Time.Before(p.LastExit.Time)
	})
}

// onlyExits reports whether nothing but an exit of its process is seen to be wrong with a pod. One that was ready and is not, although its process
// runs, has failed by itself: its node was silent, and it has yet to say that it is ready again.
func (r *record) onlyExits(p *gang.Pod) bool {
	unready := p.WasReady && !p.Ready && len(p.Failure.Containers) == 0
	return !unready && p.Phase == corev1.PodRunning && !p.Deleting && p.Disrupted == "" && !r.ails(p) && r.o.Nodes[p.Node].Ready && !replaced(r.old, p)
}

// follows reports whether the exit of the culprit came so soon after another one that what is seen may not tell them apart.
func (c *culprit) follows(exit time.Time) bool {
	return exit.Before(c.exit.Time) && c.exit.Time.Sub(exit) <= correctedFor
}

// findsDown reports whether a rank may have been down since an exit of its own, just before the process of the culprit started.
func (c *culprit) findsDown(p *gang.Pod) bool {
	return !p.Ready && p.LastExit.Time.Before(c.exit.StartedTime) && c.exit.Time.Sub(p.LastExit.Time) <= correctedFor
}

// precedes reports whether the exit of the culprit is seen to come before that of another rank, whose process ran at the
// time, or has nothing to do with it, as its process was started later. Where a clock was set back since the processes started, nobody
// sees which came first.
func (c *culprit) precedes(other *gang.ContainerFailure) bool {
	if c.exit.Time.Before(c.exit.StartedTime) || other.Time.Before(other.StartedTime) {
		return false
	}
	after := other.Time.Sub(c.exit.Time)
	lead := after + killLead(&c.exit) - killLead(other)
	killed := lead == 0 && killLead(&c.exit) > killLead(other)
	unrelated := after < -correctedFor || other.Time.Before(c.exit.StartedTime)
	return unrelated || killed || (lead > 0 && after <= correctedFor && other.StartedTime.Before(c.exit.Time))
}

// killLead is how much later a process that was killed may seem to have exited than those that gave up because of it.
func killLead(exit *gang.ContainerFailure) time.Duration {
	if exit.ExitCode == 137 {
		return time.Second
	}
	return 0
}
