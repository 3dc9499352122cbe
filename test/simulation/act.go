package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// act carries out a plan in the order, and with the preconditions, of the controller.
func (m *manager) act(t *tenant, p policies.Plan) {
	held := m.holdAll(t, p.Hold)
	m.giveOrder(t, &p)
	if !held {
		return // nothing is deleted where a hold is missing
	}
	for _, d := range p.Evictable {
		m.write()
		if pod := t.podOfUID(d.UID); pod != nil {
			pod.EvictableFrom = t.now.Truncate(time.Second)
		}
	}
	for _, d := range p.DeletePods {
		m.write()
		t.deleteByUID(d)
	}
	m.actOnVolcano(t, &p)
	if p.Protect != nil {
		m.write()
		t.protected = p.Protect.Tasks
	}
	for _, l := range p.Lift {
		m.write()
		t.lift(l)
	}
	for _, l := range p.Tolerate {
		m.write()
		t.tolerate(l)
	}
	m.bind(t, p.Bind)
	for _, l := range p.Relabel {
		m.write()
		if pod := t.podOfUID(l.UID); pod != nil {
			pod.SpareLabel = l.Spare
		}
	}
	for _, a := range p.Ask {
		for _, pod := range a.Pods {
			m.write()
			t.ask(a, pod)
		}
	}
	for _, name := range p.Release {
		m.write()
		t.release(name)
	}
}

// holdAll holds nodes until it fails to.
func (m *manager) holdAll(t *tenant, holds []v1alpha1.NodeHold) bool {
	for _, h := range holds {
		m.write()
		if !t.hold(h) {
			return false
		}
	}
	return true
}

// actOnVolcano carries out what a plan wants of Volcano Jobs and their PodGroups.
func (m *manager) actOnVolcano(t *tenant, p *policies.Plan) {
	for _, name := range p.DeleteVolcanoJobs {
		m.write()
		t.deleteVolcanoJobNamed(name)
	}
	if p.Stop != "" {
		m.write()
		t.stop(m.status.Attempt)
	}
	if p.Create {
		m.write()
		t.createVolcanoJob()
	}
	if p.Resize != nil {
		m.write()
		t.resizeVolcanoJob(*p.Resize)
	}
	if p.Sync {
		m.write()
		t.syncCommand()
	}
	if p.Admit {
		m.write()
		t.admit()
	}
	if p.Refresh.Step != "" {
		m.write()
		t.refresh(p.Refresh)
	}
}

func (t *tenant) hold(h v1alpha1.NodeHold) bool {
	if !t.calm && t.one(10) {
		t.say("conflict: node %s", h.Node)
		return false
	}
	if n := t.nodes[h.Node]; !n.gone {
		if _, held := n.holds[t.name]; !held {
			n.heldSince[t.name] = t.now.Truncate(time.Second)
		}
		n.holds[t.name] = holdValue(h)
		t.happened("node is held")
		t.changed("node %s is held for %s until %s", n.Name, t.name, holdValue(h))
	}
	return true
}

// holdValue is the documented value of the taint: the Unix time at which the hold ends, or "standing", and the hold's id.
func holdValue(h v1alpha1.NodeHold) string {
	if h.Until == nil {
		return v1alpha1.HoldStanding + "-" + h.ID
	}
	return strconv.FormatInt(h.Until.Unix(), 10) + "-" + h.ID
}

func (t *tenant) release(name string) {
	n := t.nodes[name]
	if _, held := n.holds[t.name]; held && !n.gone {
		delete(n.holds, t.name)
		t.changed("node %s is released by %s", name, t.name)
	}
}

func (t *tenant) deleteByUID(d policies.PodDeletion) {
	p := t.podNamed(d.Name)
	if p == nil || p.UID != d.UID {
		t.say("pod %s, uid %s, is not there", d.Name, d.UID)
		t.acting.noteVacated(d.Node)
		return
	}
	asSeen := func(seen gang.Pod) bool {
		return seen.UID == p.UID && seen.Phase == p.Phase && seen.Deleting == p.Deleting
	}
	if !d.Force && !slices.ContainsFunc(t.acting.cache.Pods, asSeen) {
		t.acting.noteVacated(d.Node) // the precondition fails
	}
	t.checkDeletion(p, d.Force)
	if d.Force {
		t.happened("pod is removed by force")
	}
	if d.Force || p.Node == "" {
		t.remove(p)
		return
	}
	if !p.Deleting {
		p.Deleting = true
		t.changed("the manager deletes pod %s", p.Name)
	}
}

// noteVacated remembers that the pod of a node which the job holds was not as seen when it was to be deleted.
func (m *manager) noteVacated(node string) {
	if at := slices.IndexFunc(m.status.Holds, func(h v1alpha1.NodeHold) bool { return h.Node == node }); at >= 0 {
		if m.vacated == nil {
			m.vacated = map[string]string{}
		}
		m.vacated[node] = m.status.Holds[at].ID
	}
}

func (t *tenant) deleteVolcanoJobNamed(name string) {
	for _, v := range t.volcano {
		if v.name == name && !v.deleting {
			t.checkVolcanoDeletion(v)
			v.deleting = true
			t.changed("the manager deletes Volcano Job %s", name)
		}
	}
}

func (t *tenant) stop(attempt int32) {
	for _, v := range t.volcano {
		if v.attempt == attempt && !v.deleting && !v.ended && !v.stopping {
			t.require(Scope, isFinished(&t.job.Status), "Volcano Job %s of an unfinished job is stopped", v.name)
			v.stopping = true
			t.changed("the manager stops Volcano Job %s", v.name)
		}
	}
}

// createVolcanoJob makes the Volcano Job of an attempt, of the size that the job had when it was read.
func (t *tenant) createVolcanoJob() {
	m := t.acting
	name := fmt.Sprintf("%s-%d", m.job.Name, m.status.Attempt)
	if slices.ContainsFunc(t.volcano, func(v *volcanoJob) bool { return v.name == name }) {
		return // AlreadyExists
	}
	if t.leads() {
		t.require(Terminal, !isFinished(&t.job.Status), "Volcano Job %s is created for a finished job", name)
		// One whose cache is behind may create that of an earlier attempt again. Its pods stay behind their gates, until it is deleted.
		t.require(Status, m.status.Attempt <= t.job.Status.Attempt, "Volcano Job %s is created for attempt %d", name, t.job.Status.Attempt)
	}
	t.volcano = append(t.volcano, &volcanoJob{name: name, attempt: m.status.Attempt, pending: true, size: sizeOf(m.job, m.status)})
	t.changed("the manager creates Volcano Job %s", name)
}

// sizeOf is the documented size of a job's Volcano Job: what the tasks ask for, less what they were shrunk by.
func sizeOf(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus) gang.Size {
	size := gang.Size{Replicas: map[string]int32{}}
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		size.Replicas[task.Name] = replicasOf(task, s)
		size.MinAvailable += size.Replicas[task.Name]
		if task.Spares != nil {
			size.Replicas[task.Name+v1alpha1.SpareSuffix] = *task.Spares
		}
	}
	if job.Spec.MinAvailable != nil {
		size.MinAvailable = *job.Spec.MinAvailable
	}
	return size
}

// resizeVolcanoJob changes a Volcano Job that is as the manager has seen it.
func (t *tenant) resizeVolcanoJob(size gang.Size) {
	for _, v := range t.volcano {
		if v.attempt != t.acting.status.Attempt {
			continue
		}
		seen := slices.ContainsFunc(t.acting.cache.VolcanoJobs, func(o gang.VolcanoJob) bool {
			return o.Name == v.name && o.Size.MinAvailable == v.size.MinAvailable && maps.Equal(o.Size.Replicas, v.size.Replicas)
		})
		if !seen {
			t.say("conflict: Volcano Job %s", v.name)
			continue
		}
		v.size = size
		t.happened("task is resized")
		t.changed("the manager resizes Volcano Job %s: %v", v.name, size)
	}
}

// syncCommand asks Volcano to look at its Job again. Volcano does not hear of every command.
func (t *tenant) syncCommand() {
	m := t.acting
	m.synced = t.now
	t.say("the manager asks Volcano to look at the Job of attempt %d again", m.status.Attempt)
	for _, v := range t.volcano {
		if v.attempt == m.status.Attempt && v.forgotten && !t.lazy() {
			v.forgotten = false
			t.happened("Volcano is reminded of a job")
			t.changed("Volcano remembers Volcano Job %s", v.name)
		}
	}
}

func (t *tenant) admit() {
	for _, v := range t.volcano {
		if pg := t.acting.cache.PodGroup; v.pending && pg != nil && pg.Name == v.podGroup() {
			v.pending = false
			t.happened("gang keeps its place in the queue")
			t.changed("the manager admits Volcano Job %s", v.name)
		}
	}
}

// refresh changes the PodGroup, at which the scheduler looks again where the gang runs.
func (t *tenant) refresh(r policies.Refresh) {
	for _, v := range t.volcano {
		if pg := t.acting.cache.PodGroup; pg == nil || pg.Name != v.podGroup() {
			continue
		}
		t.changed("the manager refreshes Volcano Job %s: %s", v.name, r.Step)
		v.refreshing = r.Step == policies.RefreshBegin
		if v.refreshing {
			v.refreshedTime = r.Time
		}
		if v.misled {
			v.misled = false
			t.happened("Volcano looks again where a gang runs")
		}
	}
}

func (t *tenant) lift(l policies.Lift) {
	p := t.podNamed(l.Pod)
	if p == nil || p.UID != l.UID || !p.Gated {
		t.say("the gate of pod %s, uid %s, is not there", l.Pod, l.UID)
		return
	}
	t.checkLift(p, l)
	incarnation, err := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationIncarnation], 10, 32)
	t.require(Status, err == nil, "pod %s is given the incarnation %q", p.Name, l.Annotations[v1alpha1.AnnotationIncarnation])
	t.checkTolerations(p, l.Target, l.Tolerate)
	p.Pins, p.Tolerates = l.Target.In, l.Tolerate
	p.Gated, p.target, p.PlacedTime, p.Incarnation = false, l.Target, t.now, int32(incarnation)
	t.giveEpoch(p, l)
	t.require(Status, p.Phase == corev1.PodPending, "a gated pod is %s", p.Phase)
	t.changed("the gate of pod %s is lifted, incarnation %d, to %v but %v, past %v", p.Name, p.Incarnation, p.target.In, p.target.NotIn, p.Tolerates)
}

func (t *tenant) tolerate(l placement.Toleration) {
	p := t.podNamed(l.Pod)
	if p == nil || p.UID != l.UID || p.Node != "" {
		t.say("pod %s, uid %s, looks for no node", l.Pod, l.UID)
		return
	}
	t.checkTolerations(p, p.target, l.Keys)
	p.Tolerates = slices.Concat(p.Tolerates, l.Keys)
	t.changed("pod %s passes %v", p.Name, l.Keys)
}
