// The oracles about gangs notice what they are for: each collective below is treated as it must not be.

package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// abort ends the process of the head, and those of the others in its wake.
func (t *tenant) abort() {
	t.now = t.now.Add(time.Second)
	t.crash(t.pods[0], 137)
	t.breakCollective()
	for _, p := range t.pods[1:] {
		t.now = t.now.Add(time.Second)
		t.exit(p, 1, peerFault)
	}
}

// abortAgain ends it a second time, by another crash, soon after its kubelets have restarted it. Only that crash is known yet.
func (t *tenant) abortAgain() {
	t.abort()
	t.now = t.now.Add(time.Second)
	for _, p := range t.pods {
		t.startProcess(p)
		p.Ready, p.Failure = true, gang.Failure{}
	}
	t.join()
	t.now = t.now.Add(time.Second)
	t.crash(t.pods[1], 137)
	t.breakCollective()
	t.now = t.now.Add(time.Second)
}

// incidentAbout is a status with an incident about a pod, and a step that restarts it.
func (t *tenant) incidentAbout(p *pod, at time.Time, steps ...v1alpha1.FiredStep) *v1alpha1.TrainingJobStatus {
	s := t.job.Status.DeepCopy()
	s.Incidents = []v1alpha1.Incident{{
		ID: 1, Trigger: v1alpha1.PodNotReady, Class: v1alpha1.ClassUser, Rule: "restarts-in-place", StartTime: metav1.NewMicroTime(at), Steps: steps,
		Cause: v1alpha1.Cause{Pod: p.Name},
	}}
	addRank(&s.Incidents[0], v1alpha1.IncidentPod{Name: p.Name, UID: p.UID, Task: p.Task, Index: p.Index, Node: p.Node})
	return s
}

// addRank makes a pod, of another task than those before or of the last one, part of an incident.
func addRank(inc *v1alpha1.Incident, p v1alpha1.IncidentPod) {
	inc.PodCount++
	inc.Pods = append(inc.Pods, p)
	if n := len(inc.Ranks); n > 0 && inc.Ranks[n-1].Task == p.Task {
		inc.Ranks[n-1].Failed += fmt.Sprintf(",%d", p.Index)
		return
	}
	inc.Ranks = append(inc.Ranks, v1alpha1.IncidentRanks{Task: p.Task, Failed: fmt.Sprint(p.Index)})
}

func (t *tenant) replaces(o *gang.Observation, p *pod, s *v1alpha1.TrainingJobStatus) {
	s.Tasks[1].Ranks = []v1alpha1.RankStatus{{Indexes: fmt.Sprint(p.Index), Incarnation: 1}}
	s.Restarts = v1alpha1.Restarts{Total: 1, Pod: 1, Uncharged: 1}
	t.checkRecord(o, s)
}

// replacesVictim has a step restart the head, and a worker that the incident had replaced before and that fell in the
// wake of the head since. What the cache shows may differ from the world.
func (t *tenant) replacesVictim(cache func(*gang.Observation, *gang.Pod)) {
	t.abort()
	victim := t.pods[1]
	t.job.Status = *t.incidentAbout(t.pods[0], t.now)
	inc := &t.job.Status.Incidents[0]
	addRank(inc, v1alpha1.IncidentPod{Name: victim.Name, Task: victim.Task, Index: victim.Index})
	s := t.job.Status.DeepCopy()
	s.Incidents[0].Steps = []v1alpha1.FiredStep{beside(t.now)}
	o := t.observe()
	i := slices.IndexFunc(o.Pods, func(p gang.Pod) bool { return p.UID == victim.UID })
	cache(o, &o.Pods[i])
	t.replaces(o, victim, s)
}

// replacesWithNew has the first step of a new incident restart a worker, which that is blamed on, with another one that has failed for good. The exit
// of the head, in whose wake they fell, is not seen yet.
func (t *tenant) replacesWithNew(victim *pod) {
	t.abort()
	s := t.incidentAbout(victim, t.now, beside(t.now))
	for _, p := range t.pods[1:] {
		if p != victim {
			p.Phase = "Failed"
			addRank(&s.Incidents[0], v1alpha1.IncidentPod{Name: p.Name, UID: p.UID, Task: p.Task, Index: p.Index, Node: p.Node})
		}
	}
	o := t.observe()
	i := slices.IndexFunc(o.Pods, func(p gang.Pod) bool { return p.UID == t.pods[0].UID })
	o.Pods[i].Ready, o.Pods[i].LastExit, o.Pods[i].Failure = true, nil, gang.Failure{}
	t.replaces(o, victim, s)
}

func beside(at time.Time) v1alpha1.FiredStep {
	return v1alpha1.FiredStep{Action: v1alpha1.RestartPod, Index: -1, Time: metav1.NewMicroTime(at)}
}

func TestOraclesOfGangs(t *testing.T) {
	tests := map[string]struct {
		want Invariant
		deed func(*world, *tenant)
	}{
		"a victim is named beside the culprit": {Scope, func(w *world, job *tenant) {
			job.abort()
			s := job.incidentAbout(job.pods[0], w.now)
			p := job.pods[1]
			addRank(&s.Incidents[0], v1alpha1.IncidentPod{Name: p.Name, Task: p.Task, Index: p.Index})
			job.checkRecord(job.observe(), s)
		}},
		"a victim is replaced with the culprit": {Scope, func(_ *world, job *tenant) {
			job.replacesVictim(func(*gang.Observation, *gang.Pod) {})
		}},
		"a victim is replaced that is seen to have fallen first": {"", func(_ *world, job *tenant) {
			job.replacesWithNew(job.pods[1])
		}},
		"a victim is replaced that is seen to have fallen last": {Scope, func(_ *world, job *tenant) {
			job.replacesWithNew(job.pods[2])
		}},
		"a victim is replaced whose exit is not seen yet": {"", func(_ *world, job *tenant) {
			job.replacesVictim(func(_ *gang.Observation, p *gang.Pod) { p.LastExit = nil })
		}},
		"a victim is replaced whose node is still seen silent": {"", func(_ *world, job *tenant) {
			job.replacesVictim(func(o *gang.Observation, p *gang.Pod) { o.Nodes[p.Node] = gang.Node{Name: p.Node} })
		}},
		"a victim is replaced before its time is over": {Scope, func(w *world, job *tenant) {
			job.abort()
			job.pods[1].restartAt = w.now.Add(time.Hour)
			job.job.Status = *job.incidentAbout(job.pods[0], w.now)
			w.now = w.now.Add(victimTime - time.Second)
			job.joinAndRestart(job.pods[1])
		}},
		"a victim is replaced after its time": {"", func(w *world, job *tenant) {
			job.abort()
			job.pods[1].restartAt = w.now.Add(time.Hour)
			job.job.Status = *job.incidentAbout(job.pods[0], w.now)
			w.now = w.now.Add(victimTime)
			job.joinAndRestart(job.pods[1])
		}},
		"another than the culprit is blamed": {Evidence, func(w *world, job *tenant) {
			job.abort()
			job.checkRecord(job.observe(), job.incidentAbout(job.pods[1], w.now))
		}},
		"the culprit is blamed": {"", func(w *world, job *tenant) {
			job.abort()
			job.checkRecord(job.observe(), job.incidentAbout(job.pods[0], w.now))
		}},
		"a pod that is not ready since its node was silent is blamed": {"", func(w *world, job *tenant) {
			n := w.nodes[job.pods[1].Node]
			w.silence(n)
			w.mend(n)
			w.now = w.now.Add(time.Second)
			job.crash(job.pods[0], 137)
			job.breakCollective()
			w.now = w.now.Add(time.Second)
			job.checkRecord(job.observe(), job.incidentAbout(job.pods[1], w.now))
		}},
		"who crashed before is blamed": {Evidence, func(w *world, job *tenant) {
			job.abortAgain()
			job.checkRecord(job.observe(), job.incidentAbout(job.pods[0], w.now))
		}},
		"who crashed last is blamed": {"", func(w *world, job *tenant) {
			job.abortAgain()
			job.checkRecord(job.observe(), job.incidentAbout(job.pods[1], w.now))
		}},
		"a pod that trains is removed early": {OneLife, func(w *world, job *tenant) {
			job.removesEarly(w)
		}},
		"a pod of a gang that is down is removed early": {"", func(w *world, job *tenant) {
			job.exit(job.pods[1], 1, peerFault)
			job.removesEarly(w)
		}},
		"a refusal is charged": {Budget, func(w *world, job *tenant) {
			p := job.pods[1]
			job.fail(p, "UnexpectedAdmissionError")
			s := job.incidentAbout(p, w.now, beside(w.now))
			s.Incidents[0].Charged = true
			s.Restarts = v1alpha1.Restarts{Total: 1, Pod: 1, Charged: 1, ChargedTimes: []metav1.Time{metav1.NewTime(w.now)}}
			job.checkRecord(job.observe(), s)
		}},
		"a pod is blamed for not starting where none starts": {Evidence, func(w *world, job *tenant) {
			for _, p := range job.pods {
				p.Phase, p.Ready, p.WasReady, p.StartProblem.Reason = "Pending", false, false, "ImagePullBackOff"
			}
			w.now = w.now.Add(time.Hour)
			job.checkRecord(job.observe(), job.incidentAbout(job.pods[1], w.now))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := running(t, collective)
			if got := broken(func() { tc.deed(w, w.tenants[0]) }); got != string(tc.want) {
				t.Errorf("invariant %q is broken, want %q", got, tc.want)
			}
		})
	}
}

// joinAndRestart makes a victim a rank of the incident, and restarts it.
func (t *tenant) joinAndRestart(p *pod) {
	s := t.job.Status.DeepCopy()
	inc := &s.Incidents[0]
	addRank(inc, v1alpha1.IncidentPod{Name: p.Name, UID: p.UID, Task: p.Task, Index: p.Index, Node: p.Node})
	inc.Steps = append(inc.Steps, beside(t.now))
	t.replaces(t.observe(), p, s)
}

// removesEarly has the manager remove a pod by force whose node has just been found silent.
func (t *tenant) removesEarly(w *world) {
	p := t.pods[0]
	t.edit(func(job *v1alpha1.TrainingJob) {
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{
			Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(60)), GangDownAfterSeconds: new(int32(10)),
		}}
	})
	w.silence(w.nodes[p.Node])
	w.now = w.now.Add(10 * time.Second)
	p.Deleting = true
	t.acting.job, t.acting.status, t.acting.cache = t.job, &t.job.Status, t.observe()
	t.acting.act(t, policies.Plan{DeletePods: []policies.PodDeletion{{Name: p.Name, UID: p.UID, Force: true}}})
}
