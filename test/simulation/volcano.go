package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// volcanoJob is a Volcano Job and its PodGroup.
type volcanoJob struct {
	name      string
	attempt   int32
	size      gang.Size
	pending   bool // its PodGroup waits for the queue
	forgotten bool // Volcano makes no pods for it until a command comes
	// misled is whether the scheduler takes the gang for one of a HyperNode above all that it may have.
	misled        bool
	refreshing    bool      // the PodGroup has a subGroupPolicy that selects no pod
	refreshedTime time.Time // when it last got that
	deleting      bool
	stopping      bool
	ended         bool
	succeeded     bool
}

func (v *volcanoJob) podGroup() string { return v.name + "-pg" }

func (v *volcanoJob) observed() gang.VolcanoJob {
	return gang.VolcanoJob{
		Name: v.name, Attempt: v.attempt, Deleting: v.deleting, Stopping: v.stopping, Ended: v.ended, Succeeded: v.succeeded, Size: v.size,
	}
}

// replicas is the number of pods that a Volcano Job asks for.
func (v *volcanoJob) replicas() int {
	n := 0
	for _, replicas := range v.size.Replicas {
		n += int(replicas)
	}
	return n
}

// currentVolcanoJob is the newest Volcano Job that is not being deleted.
func (t *tenant) currentVolcanoJob() *volcanoJob {
	var newest *volcanoJob
	for _, v := range t.volcano {
		if !v.deleting && (newest == nil || v.attempt > newest.attempt) {
			newest = v
		}
	}
	return newest
}

// syncVolcano lets Volcano's controller and the garbage collector look at every job once.
func (w *world) syncVolcano() {
	for _, t := range w.tenants {
		t.syncVolcanoJobs()
	}
}

func (t *tenant) syncVolcanoJobs() {
	for _, v := range slices.Clone(t.volcano) {
		switch {
		case v.deleting:
			t.changed("Volcano Job %s is gone", v.name)
			t.volcano = slices.DeleteFunc(t.volcano, func(o *volcanoJob) bool { return o == v })
		case v.stopping:
			t.stopPods(v)
		case !v.ended:
			t.syncVolcanoJob(v)
		}
	}
	for _, p := range t.pods {
		owned := slices.ContainsFunc(t.volcano, func(v *volcanoJob) bool { return v.attempt == p.Attempt })
		if !owned && !p.Deleting && !t.lazy() {
			p.Deleting = true
			t.changed("the garbage collector deletes pod %s", p.Name)
		}
	}
}

func (t *tenant) stopPods(v *volcanoJob) {
	running := false
	for _, p := range t.podsOf(v) {
		if p.finished() {
			continue
		}
		running = true
		if !p.Deleting {
			p.Deleting = true
			t.changed("Volcano stops pod %s", p.Name)
		}
	}
	if !running {
		v.stopping, v.ended = false, true
		t.changed("Volcano Job %s has stopped", v.name)
	}
}

func (t *tenant) podsOf(v *volcanoJob) []*pod {
	var out []*pod
	for _, p := range t.pods {
		if p.Attempt == v.attempt {
			out = append(out, p)
		}
	}
	return out
}

func (t *tenant) syncVolcanoJob(v *volcanoJob) {
	pods := t.podsOf(v)
	if t.endVolcanoJob(v, pods) {
		return
	}
	running := slices.ContainsFunc(pods, func(p *pod) bool { return p.Node != "" && !p.finished() })
	if v.pending && t.queueOpen {
		v.pending = false
		t.changed("the queue admits Volcano Job %s", v.name)
		t.maybeForget(v)
	} else if !v.pending && !running && !t.calm && t.one(4) {
		v.pending = true
		t.changed("Volcano Job %s is back in the queue", v.name)
	}
	if v.pending || v.forgotten {
		return // pods are created once the PodGroup is admitted, unless that news was lost
	}
	for i := range t.job.Spec.Tasks {
		name := t.job.Spec.Tasks[i].Name
		t.syncTask(v, name, false, pods)
		t.syncTask(v, name, true, pods)
	}
}

// drawForgets lets Volcano forget Jobs in one world in four. What it forgets is drawn apart, so that other histories
// are as they were.
func (w *world) drawForgets(seed uint64) {
	if rng := rand.New(rand.NewPCG(seed, 1)); rng.IntN(4) == 0 {
		w.forgets = rng
	}
}

// maybeForget has Volcano's controller miss now and then that a new Job was admitted.
func (t *tenant) maybeForget(v *volcanoJob) {
	if t.forgets != nil && !t.calm && len(t.podsOf(v)) == 0 && t.forgets.IntN(3) == 0 {
		v.forgotten = true
		t.happened("Volcano forgets a job")
		t.changed("Volcano forgets Volcano Job %s", v.name)
	}
}

// endVolcanoJob ends a Volcano Job all of whose pods have ended, placeholders among them.
func (t *tenant) endVolcanoJob(v *volcanoJob, pods []*pod) bool {
	if len(pods) != v.replicas() || slices.ContainsFunc(pods, func(p *pod) bool { return !p.finished() }) {
		return false
	}
	v.ended = true
	v.succeeded = countRanks(pods, func(p *pod) bool { return p.Phase == corev1.PodSucceeded }) >= int(v.size.MinAvailable)
	t.changed("Volcano Job %s has ended, success %v", v.name, v.succeeded)
	return true
}

// syncTask creates the pods that a task lacks, and deletes those beyond its replicas.
func (t *tenant) syncTask(v *volcanoJob, task string, spare bool, pods []*pod) {
	key := task
	if spare {
		key += v1alpha1.SpareSuffix
	}
	replicas := v.size.Replicas[key]
	have := make([]bool, replicas)
	for _, p := range pods {
		switch {
		case p.Slot.Task != key:
		case p.Slot.Index < replicas:
			have[p.Slot.Index] = true
		case !p.Deleting && !t.lazy():
			p.Deleting = true
			t.changed("Volcano deletes pod %s, which is beyond the replicas", p.Name)
		}
	}
	for index, exists := range have {
		if exists || t.lazy() {
			continue
		}
		t.uids++
		p := &pod{Pod: gang.Pod{
			Name: fmt.Sprintf("%s-%s-%d", v.name, key, index), UID: fmt.Sprint(t.uids), Task: task, Index: int32(index), Attempt: v.attempt,
			Spare: spare, SpareLabel: spare, Phase: corev1.PodPending, Gated: true, CreatedTime: t.now,
		}}
		p.Slot.Task, p.Slot.Index = key, int32(index)
		t.pods = append(t.pods, p)
		t.place()
		t.changed("Volcano creates pod %s, uid %s", p.Name, p.UID)
	}
}

// countRanks counts the pods that satisfy a condition, spares apart.
func countRanks(pods []*pod, ok func(*pod) bool) int {
	n := 0
	for _, p := range pods {
		if !p.Spare && ok(p) {
			n++
		}
	}
	return n
}
