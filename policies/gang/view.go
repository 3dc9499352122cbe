// View: an observation by rank.

package gang

import (
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// View returns the gang of the attempt and of the size that a status says.
func View(o *Observation, s *v1alpha1.TrainingJobStatus) *Gang {
	o = placed(o, s)
	g := &Gang{Observation: o, Effective: Effective(o.Job, s), epoch: s.Epoch}
	g.restarting = Restarts(s)
	for i := range o.Pods {
		if p := o.Pods[i].Process; p != nil {
			g.heard, g.heardSince = true, instant.Earliest(g.heardSince, p.HeardSince)
		}
	}
	for i := range g.Effective.Spec.Tasks {
		t := &g.Effective.Spec.Tasks[i]
		g.tasks = append(g.tasks, TaskPods{t.Name, make([]*Pod, max(0, t.Replicas))})
		if n := ptr.Deref(t.Spares, 0); n > 0 {
			g.tasks = append(g.tasks, TaskPods{t.Name + v1alpha1.SpareSuffix, make([]*Pod, n)})
		}
	}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Attempt == s.Attempt {
			r := p.Rank()
			if t := g.TaskPods(r.Task); t != nil && Within(r.Index, t.Pods) {
				t.Pods[r.Index] = p
			}
		}
	}
	g.putCompleted(s)
	for i := range o.VolcanoJobs {
		if o.VolcanoJobs[i].Attempt == s.Attempt && !o.VolcanoJobs[i].Deleting {
			g.VolcanoJob = &o.VolcanoJobs[i]
		}
	}
	return g
}

// KeepSignals leaves the pods that have signals, or cordoned nodes, only those signals that f returns. The observation keeps them all.
func (g *Gang) KeepSignals(f func(*Pod) []Signal) {
	for _, t := range g.tasks {
		for i, p := range t.Pods {
			if p != nil && (len(p.Signals) > 0 || g.Nodes[p.Node].Unschedulable) {
				t.Pods[i] = new(*p)
				t.Pods[i].Signals = f(p)
			}
		}
	}
}
