package lab

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// actOnVolcano does what a plan says of Volcano Jobs.
func (w *world) actOnVolcano(plan *policies.Plan) {
	for _, name := range plan.DeleteVolcanoJobs {
		w.volcano = slices.DeleteFunc(w.volcano, func(v gang.VolcanoJob) bool {
			if v.Name != name {
				return false
			}
			for _, p := range slices.Clone(w.pods) {
				if p.Attempt == v.Attempt {
					w.delete(p, false)
				}
			}
			return true
		})
	}
	if plan.Create {
		w.create()
	}
	if plan.Resize != nil {
		w.resize(*plan.Resize)
	}
	if plan.Admit && w.podGroup != nil {
		w.podGroup = &gang.PodGroup{Name: w.podGroup.Name}
	}
	if plan.Stop != "" {
		w.stop()
	}
}

// stop has Volcano end the Job of the attempt, with the pods that still run.
func (w *world) stop() {
	for i := range w.volcano {
		w.volcano[i].Ended = w.volcano[i].Attempt == w.job.Status.Attempt
	}
	for _, p := range slices.Clone(w.pods) {
		if p.Attempt == w.job.Status.Attempt && !p.Finished() {
			w.delete(p, false)
		}
	}
}

// create makes the Volcano Job of the attempt. Its queue takes it at once.
func (w *world) create() {
	attempt := w.job.Status.Attempt
	effective := gang.Effective(w.job, &w.job.Status)
	v := gang.VolcanoJob{Name: gang.VolcanoJobName(w.job, attempt), UID: "v", Attempt: attempt, Size: gang.SizeOf(effective)}
	w.volcano = append(w.volcano, v)
	w.podGroup = &gang.PodGroup{Name: v.Name}
	w.makeSoon(w.Costs.Recreate)
}

func (w *world) resize(size gang.Size) {
	for i := range w.volcano {
		if w.volcano[i].Attempt == w.job.Status.Attempt {
			w.volcano[i].Size = size
		}
	}
	for _, p := range slices.Clone(w.pods) {
		if p.Index >= size.Replicas[p.Rank().Task] {
			w.delete(p, false)
		}
	}
	w.makeSoon(w.Costs.Recreate)
}

// endVolcanoJob has Volcano end the Job of an attempt once all of its pods have failed (runningState in volcano
// pkg/controllers/job/state/running.go). It makes no pods any more then.
func (w *world) endVolcanoJob(attempt int32) {
	finished := int32(0)
	for _, p := range w.pods {
		if p.Attempt == attempt && p.Finished() {
			finished++
		}
	}
	for i := range w.volcano {
		if v := &w.volcano[i]; v.Attempt == attempt {
			pods := int32(0)
			for _, n := range v.Size.Replicas {
				pods += n
			}
			v.Ended = v.Ended || finished == pods
		}
	}
}

// makeSoon has Volcano make pods.
func (w *world) makeSoon(d time.Duration) {
	if w.making {
		return
	}
	w.making = true
	w.after(d, func() {
		w.making = false
		w.makePods()
	})
}

// makingPeriod is how often Volcano makes some of the pods that it still has to make. It is that long because the manager looks each
// time.
const makingPeriod = time.Second

// makePods makes some of the pods that the newest Volcano Job lacks.
func (w *world) makePods() {
	if len(w.volcano) == 0 {
		return
	}
	v := w.volcano[len(w.volcano)-1]
	if v.Ended {
		return
	}
	there := map[gang.Rank]bool{}
	for _, p := range w.pods {
		if p.Attempt == v.Attempt {
			there[p.Rank()] = true
		}
	}
	left := max(1, int(w.Costs.CreateRate*makingPeriod.Seconds()))
	for i := range w.job.Spec.Tasks {
		t := &w.job.Spec.Tasks[i]
		w.makeTask(v, t.Name, v.Size.Replicas[t.Name], false, there, &left)
		w.makeTask(v, t.Name, spares(t), true, there, &left)
	}
	if left <= 0 {
		w.makeSoon(makingPeriod)
	}
}

func (w *world) makeTask(v gang.VolcanoJob, task string, n int32, spare bool, there map[gang.Rank]bool, left *int) {
	for index := range n {
		if *left <= 0 {
			return
		}
		r := gang.Rank{Task: task, Index: index}
		if spare {
			r = gang.SpareRank(task, index)
		}
		if !there[r] {
			*left--
			w.pods = append(w.pods, w.newPod(v.Attempt, task, index, spare))
			w.changed()
		}
	}
}

// placeSoon has the scheduler look.
func (w *world) placeSoon() {
	if w.placing {
		return
	}
	w.placing = true
	w.after(w.Costs.Schedule, func() {
		w.placing = false
		w.schedule()
	})
}

// schedule binds the pods that look for a node, or says that none was found.
func (w *world) schedule() {
	if w.podGroup == nil {
		return
	}
	var waiting []*pod
	bound := 0
	for _, p := range w.pods {
		switch {
		case p.Node != "":
			bound++
		case !p.Gated && !p.Deleting:
			waiting = append(waiting, p)
		}
	}
	allowed := func(string) bool { return true }
	if bound == 0 {
		if int32(len(waiting)) < gang.MinAvailable(w.job) {
			return // a gang is placed as a whole
		}
		allowed = w.firstPlace(len(waiting))
	}
	used := w.used()
	for _, p := range waiting {
		name := w.nodeFor(p, used, allowed)
		if name == "" {
			if !p.Unschedulable {
				p.Unschedulable = true
				w.changed()
			}
			continue
		}
		used[name]++
		w.bind(p, name)
	}
}

// nodeFor is a node that takes a pod: the first one in the order of the topology.
func (w *world) nodeFor(p *pod, used map[string]int, allowed func(string) bool) string {
	for _, name := range w.order {
		n := w.nodes[name]
		in := p.target.In == nil || slices.Contains(p.target.In, name)
		if in && !slices.Contains(p.target.NotIn, name) && n.usable() && allowed(name) && w.free(used, name) > 0 {
			return name
		}
	}
	return ""
}

// firstPlace says which nodes a whole gang may go to: those of the lowest HyperNode that takes it, where one of the tiers that its
// topology allows does, and all nodes where it has no topology that has to be kept.
func (w *world) firstPlace(pods int) func(string) bool {
	topology := w.job.Spec.NetworkTopology
	used := w.used()
	var best map[string]bool
	tier := int32(0)
	for _, h := range w.topology.All() {
		if topology != nil && topology.HighestTierAllowed != nil && h.Tier > *topology.HighestTierAllowed {
			continue
		}
		slots := 0
		nodes := map[string]bool{}
		for _, name := range h.Nodes {
			if w.nodes[name].usable() {
				slots += w.free(used, name)
				nodes[name] = true
			}
		}
		if slots >= pods && (best == nil || h.Tier < tier) {
			best, tier = nodes, h.Tier
		}
	}
	if best == nil && (topology == nil || topology.Mode != v1alpha1.TopologyHard) {
		return func(string) bool { return true }
	}
	return func(name string) bool { return best[name] }
}
