// Every oracle can fail: each world below is broken by hand in one respect, and the oracle of one invariant notices.

package simulation

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// running is a world of some kinds whose jobs, of a head and two workers, run.
func running(t *testing.T, kinds ...kind) *world {
	t.Helper()
	w := &world{
		rng: rand.New(rand.NewPCG(1, 0)), now: start, kinds: kinds, queueOpen: true,
		nodes: map[string]*node{}, members: map[string][]string{}, census: census{},
	}
	w.makeNodes()
	names := []string{"llm"}
	if w.is(sharedNodes) {
		names = append(names, "moe")
	}
	for _, name := range names {
		job := w.newTenant(name)
		job.confined, job.never = true, false
		job.job.Spec = v1alpha1.TrainingJobSpec{Queue: "default", Tasks: []v1alpha1.Task{{Name: "head", Replicas: 1}, {Name: "worker", Replicas: 2}}}
		w.tenants = append(w.tenants, job)
	}
	w.startInPeace()
	w.calm = true
	w.settle()
	for _, job := range w.tenants {
		if !job.well() {
			t.Fatal(job.String())
		}
	}
	w.tenants[0].acting = w.tenants[0].manager
	return w
}

// broken is the invariant that some deed breaks.
func broken(deed func()) (found string) {
	defer func() {
		if p := recover(); p != nil {
			v, ok := p.(violation)
			if !ok {
				panic(p)
			}
			found, _, _ = strings.Cut(strings.TrimPrefix(string(v), "invariant "), ":")
		}
	}()
	deed()
	return ""
}

// failsForGood has a pod fail that belongs to an incident with some steps, and nothing done about it.
func failsForGood(w *world, job *tenant, steps []v1alpha1.FiredStep) {
	p := job.pods[0]
	p.Phase = corev1.PodFailed
	s := job.incidentAbout(p, w.now, steps...)
	s.Incidents[0].Rule = "everything-else"
	for range 2 {
		job.recordOf(job.observe(), s, s).checkOverdue()
		w.pass(overdueAfter + time.Second)
	}
	job.recordOf(job.observe(), s, s).checkOverdue()
}

func TestOraclesOfTheWorld(t *testing.T) {
	tests := map[string]struct {
		want Invariant
		deed func(*world, *tenant)
	}{
		"a healthy pod is deleted": {want: Scope, deed: func(_ *world, job *tenant) {
			job.acting.act(job, policies.Plan{DeletePods: []policies.PodDeletion{{Name: job.pods[0].Name, UID: job.pods[0].UID}}})
		}},
		"a rank waits for a node that is held for it": {want: Liveness, deed: func(w *world, job *tenant) {
			p := job.pods[0]
			n := w.nodes[p.Node]
			p.target, n.holds[job.name], w.direct = placement.Target{In: []string{n.Hostname}}, v1alpha1.HoldStanding, true
			n.heldSince[job.name] = w.now.Add(-leftToScheduler)
			w.unbind(p)
			job.checkWaiting()
		}},
		"a rank that has failed is not restarted with the others of its incident": {want: Timing, deed: func(w *world, job *tenant) {
			failsForGood(w, job, []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: metav1.NewMicroTime(w.now.Add(time.Second))}})
		}},
		"a rank that has failed waits for a step that is due": {want: Timing, deed: func(w *world, job *tenant) { failsForGood(w, job, nil) }},
		"a pod of a gang that is down is bound alone": {want: Holds, deed: func(w *world, job *tenant) {
			nodes := map[string]string{}
			for _, p := range job.pods {
				nodes[p.UID] = p.Node
				w.nodes[p.Node].holds[job.name] = v1alpha1.HoldStanding
				w.unbind(p)
			}
			first := job.pods[0]
			m := job.acting
			m.cache, m.job, m.status, m.tried = job.observe(), job.job, &job.job.Status, map[string]bool{}
			m.bind(job, policies.Bindings{Pods: []policies.Binding{{Pod: first.Name, UID: first.UID, Node: nodes[first.UID]}}})
		}},
		"the Volcano Job is deleted": {want: Scope, deed: func(_ *world, job *tenant) {
			job.acting.act(job, policies.Plan{DeleteVolcanoJobs: []string{job.volcano[0].name}})
		}},
		"a pod may go to an excluded node": {want: Home, deed: func(_ *world, job *tenant) {
			p := job.pods[0]
			p.Gated, p.Node = true, ""
			job.acting.status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n00"}}
			job.acting.act(job, policies.Plan{Lift: []policies.Lift{{Pod: p.Name, UID: p.UID}}})
		}},
		"a pod may leave home": {want: Home, deed: func(_ *world, job *tenant) {
			p := job.pods[0]
			p.Gated, p.Node = true, ""
			job.acting.act(job, policies.Plan{Lift: []policies.Lift{{Pod: p.Name, UID: p.UID}}})
		}},
		"a rank has two pods": {want: OneLife, deed: func(w *world, job *tenant) {
			twin := *job.pods[0]
			twin.Name, twin.Node = "twin", "n11"
			job.pods = append(job.pods, &twin)
			w.checkWorld()
		}},
		"a pod is removed by force from a node that answers": {want: OneLife, deed: func(_ *world, job *tenant) {
			p := job.pods[0]
			p.Deleting = true
			job.acting.act(job, policies.Plan{DeletePods: []policies.PodDeletion{{Name: p.Name, UID: p.UID, Force: true}}})
		}},
		"a suspended job runs": {want: Terminal, deed: func(_ *world, job *tenant) {
			job.job.Spec.Suspend = true
			job.checkStopped()
		}},
		"there is something to do": {want: Quiet, deed: func(_ *world, job *tenant) {
			job.crash(job.pods[0], 1)
			job.checkSettled()
		}},
		"the manager looks again too late": {want: Quiet, deed: func(w *world, job *tenant) {
			job.crash(job.pods[0], 1)
			w.calm = true
			job.reconcileFresh()
			job.checkNext(time.Time{}, w.now.Add(10*time.Minute))
		}},
		"a hold is not listed": {want: Holds, deed: func(_ *world, job *tenant) {
			job.nodes["n00"].holds[job.name] = v1alpha1.HoldStanding
			job.checkHolds()
		}},
		"a node that is owed is lost": {want: Holds, deed: func(w *world, job *tenant) {
			p := job.pods[0]
			job.ledger.owed = []owed{{p.Node, p.rank(), w.now, w.now.Add(time.Minute)}}
			node := w.nodes[p.Node]
			job.remove(p)
			w.grab(node)
		}},
		"a node has more pods than GPUs": {want: Fit, deed: func(w *world, job *tenant) {
			w.nodes[job.pods[0].Node].foreign = gpus
			w.checkWorld()
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := running(t)
			if got := broken(func() { tc.deed(w, w.tenants[0]) }); got != string(tc.want) {
				t.Errorf("invariant %q is broken, want %q", got, tc.want)
			}
		})
	}
}

func TestOraclesOfTheRecord(t *testing.T) {
	at := metav1.NewMicroTime(start)
	tests := map[string]struct {
		want   Invariant
		change func(*world, *v1alpha1.TrainingJobStatus)
	}{
		"a rank is replaced by no step": {Scope, func(_ *world, s *v1alpha1.TrainingJobStatus) { s.Tasks[0].Incarnation++ }},
		"a finished job goes on":        {Status, func(_ *world, s *v1alpha1.TrainingJobStatus) { s.Attempt = 0 }},
		"a healthy pod is named": {Evidence, func(w *world, s *v1alpha1.TrainingJobStatus) {
			s.Incidents = []v1alpha1.Incident{{ID: 1, StartTime: at, PodCount: 1, Pods: []v1alpha1.IncidentPod{{Name: w.tenants[0].pods[0].Name, Task: "head"}}, Ranks: []v1alpha1.IncidentRanks{{Task: "head", Failed: "0"}}}}
		}},
		"a node is excluded": {Evidence, func(_ *world, s *v1alpha1.TrainingJobStatus) {
			s.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n00", Until: metav1.NewTime(start.Add(time.Hour))}}
		}},
		"a step fires though all is well": {Cancel, func(w *world, s *v1alpha1.TrainingJobStatus) {
			s.Incidents = []v1alpha1.Incident{{
				ID: 1, Rule: "everything-else", StartTime: at, PodCount: 1, Pods: []v1alpha1.IncidentPod{{Name: w.tenants[0].pods[0].Name, Task: "head"}}, Ranks: []v1alpha1.IncidentRanks{{Task: "head", Failed: "0"}},
				Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: at}},
			}}
		}},
		"an incident counts ranks that it does not keep": {Status, func(_ *world, s *v1alpha1.TrainingJobStatus) {
			s.Incidents = []v1alpha1.Incident{{ID: 1, StartTime: at, PodCount: 1}}
		}},
		"the API server refuses the status": {Status, func(w *world, s *v1alpha1.TrainingJobStatus) {
			w.validates = true
			s.Message, s.Conditions[0].Message = "", strings.Repeat("x", 32769)
		}},
		"the status is too large": {Status, func(w *world, s *v1alpha1.TrainingJobStatus) {
			w.validates, s.Message = true, strings.Repeat("x", 2*maxStatus)
		}},
		"a step fires twice": {Once, func(_ *world, s *v1alpha1.TrainingJobStatus) {
			s.Incidents = []v1alpha1.Incident{{ID: 1, StartTime: at, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.Ignore, Time: at}, {Action: v1alpha1.Ignore, Time: at}}}}
		}},
		"a step fires too soon": {Timing, func(w *world, s *v1alpha1.TrainingJobStatus) {
			s.Incidents = []v1alpha1.Incident{{
				ID: 1, Rule: "everything-else", StartTime: metav1.NewMicroTime(w.now), Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartTask, Index: 1, Time: metav1.NewMicroTime(w.now)}},
			}}
		}},
		"restarts are counted that were none": {Status, func(_ *world, s *v1alpha1.TrainingJobStatus) { s.Restarts.Total++ }},
		"a charge is counted that was none":   {Budget, func(_ *world, s *v1alpha1.TrainingJobStatus) { s.Restarts.Charged++ }},
		"a task shrinks by itself":            {Status, func(_ *world, s *v1alpha1.TrainingJobStatus) { s.Tasks[1].Shrunk++ }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := running(t)
			job := w.tenants[0]
			s := job.job.Status.DeepCopy()
			tc.change(w, s)
			if got := broken(func() { job.checkRecord(job.observe(), s) }); got != string(tc.want) {
				t.Errorf("invariant %q is broken, want %q", got, tc.want)
			}
		})
	}
}
