// The oracles of the kinds of worlds notice what they are for: each world below is broken by hand.

package simulation

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// unbind takes the node from a pod, as if it had just been created.
func (w *world) unbind(p *pod) {
	p.Node, p.Phase, p.Ready, p.Unschedulable = "", corev1.PodPending, false, true
	w.changed("pod %s has no node", p.Name)
}

// waitForEachOther has the heads of two jobs look for nodes that the other job holds, for longer than they may.
func (w *world) waitForEachOther() {
	job, other := w.tenants[0], w.tenants[1]
	mine, theirs := job.pods[0], other.pods[0]
	theirs.Node = w.names[slices.IndexFunc(w.names, func(name string) bool { return w.leafOf(name) != w.leafOf(mine.Node) })]
	w.changed("pod %s is in another leaf", theirs.Name)
	for _, name := range w.names {
		w.nodes[name].foreign += w.free(w.nodes[name])
	}
	w.nodes[mine.Node].holds = map[string]string{other.name: v1alpha1.HoldStanding}
	w.nodes[theirs.Node].holds = map[string]string{job.name: v1alpha1.HoldStanding}
	job.job.Status.Placement.HyperNode, other.job.Status.Placement.HyperNode = w.leafOf(mine.Node), w.leafOf(theirs.Node)
	w.unbind(mine)
	w.unbind(theirs)
	w.checkMutualHolds()
	w.now = w.now.Add(mutualFor)
	w.checkMutualHolds()
	job.passes, other.passes = job.passes+mutualPasses, other.passes+mutualPasses
	w.checkMutualHolds()
}

// takeBack has a younger job take room on a node of which the older one is owed all for its workers, since some time before or after the
// younger one is owed its room.
func (w *world) takeBack(before time.Duration) {
	older, younger := w.tenants[0], w.tenants[1]
	older.request, younger.request = gpus/2, gpus/2
	p := younger.pods[0]
	n := w.nodes[p.Node]
	older.job.Status.Placement.Tasks[1].Nodes = []string{n.Name, n.Name}
	owe := func(t *tenant, p *pod, since time.Time) {
		w.unbind(p)
		t.ledger.owed = append(t.ledger.owed, owed{n.Name, p.rank(), since, w.now.Add(time.Hour)})
	}
	owe(younger, p, w.now)
	for _, q := range older.pods {
		w.unbind(q)
		if q.Task == "worker" {
			owe(older, q, w.now.Add(-before))
		}
	}
	w.now = w.now.Add(2 * time.Minute)
	younger.bindReturning(policies.Binding{Pod: p.Name, UID: p.UID, Node: n.Name})
}

func TestOraclesOfTheKinds(t *testing.T) {
	tests := map[string]struct {
		kind   kind
		breaks Invariant
		deed   func(*world, *tenant)
	}{
		"two jobs wait for each other's holds": {sharedNodes, Holds, func(w *world, _ *tenant) { w.waitForEachOther() }},
		"two jobs look for room, and one has no good node for its workers": {sharedNodes, "", func(w *world, job *tenant) {
			home := w.leafOf("n11")
			job.job.Spec.Tasks[1].Partition = &v1alpha1.Partition{Size: 2}
			job.job.Status.Placement.Tasks[1].Partitions = []v1alpha1.PartitionPlacement{{HyperNode: home}}
			for _, name := range w.members[home] {
				job.job.Status.ExcludedNodes = append(job.job.Status.ExcludedNodes, v1alpha1.ExcludedNode{Name: name})
			}
			for _, p := range job.pods[1:] {
				w.unbind(p)
				p.Gated = true
			}
			w.waitForEachOther()
		}},
		"two jobs look for room, and the hold of one keeps out a spare alone": {sharedNodes, "", func(w *world, job *tenant) {
			full := slices.DeleteFunc(slices.Clone(w.members[w.leafOf(job.pods[0].Node)]), func(name string) bool { return name == job.pods[0].Node })
			job.pods[0].target = placement.Target{In: []string{w.nodes[full[0]].Hostname}}
			job.pods = append(job.pods, &pod{Pod: gang.Pod{Name: "spare", UID: "spare", Task: "worker", Spare: true, Attempt: 1, Phase: corev1.PodPending}})
			w.waitForEachOther()
		}},
		"a spare is deleted for another job's hold": {sharedNodes, Scope, func(w *world, job *tenant) {
			p := &pod{Pod: gang.Pod{Name: "spare", UID: "spare", Task: "worker", Spare: true, Attempt: 1, Node: "n11", Phase: corev1.PodRunning}}
			job.pods = append(job.pods, p)
			w.nodes["n11"].holds["moe"] = v1alpha1.HoldStanding
			job.acting.cache = job.observe()
			job.acting.act(job, policies.Plan{DeletePods: []policies.PodDeletion{{Name: p.Name, UID: p.UID}}})
		}},
		"a rank passes an older job's hold where it has no place": {sharedNodes, Holds, func(w *world, _ *tenant) {
			younger := w.tenants[1]
			younger.checkTolerations(younger.pods[0], placement.Target{In: []string{"host-none"}}, []string{holdKey(w.tenants[0].name)})
		}},
		"a younger job takes what an older one is owed": {sharedNodes, Holds, func(w *world, _ *tenant) { w.takeBack(time.Minute) }},
		"a younger job takes back what an older one took past its hold": {sharedNodes, "", func(w *world, _ *tenant) {
			w.takeBack(-time.Minute)
		}},
		"a late node is not used": {lateNodes, Liveness, func(w *world, job *tenant) {
			p := job.pods[0]
			home := job.job.Status.Placement.HyperNode
			late := w.addNode("late", 0)
			late.joinTime, p.PlacedTime = w.now.Add(-lateFor), w.now.Add(-2*lateFor)
			w.members[home] = append(w.members[home], late.Name)
			p.target = placement.Target{In: []string{"host-none"}}
			w.unbind(p)
			job.checkWaiting()
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := running(t, tc.kind)
			if got := broken(func() { tc.deed(w, w.tenants[0]) }); got != string(tc.breaks) {
				t.Errorf("invariant %q is broken, want %q", got, tc.breaks)
			}
		})
	}
}

// The charge of 0 s is refunded, and that of 30 s counts on: the next does not come before 57 s.
func TestRefundOfAnEarlierCharge(t *testing.T) {
	w := running(t)
	job := w.tenants[0]
	w.verbose, job.never = true, true
	job.edit(func(spec *v1alpha1.TrainingJob) {
		spec.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(27)), MaxSeconds: 27}}
		spec.Spec.Tasks[1].RestartPolicy = &v1alpha1.RestartPolicy{Rules: defaultRules()} // else the workers fall in the head's wake
	})
	fall := func(r rank) {
		p := job.findPod(func(p *pod) bool { return p.rank() == r })
		job.crash(p, 1)
		job.reconcileFresh()
	}
	fall(rank{"head", 0})
	job.runPod(job.podNamed("llm-1-head-0"))
	w.syncVolcano()
	job.reconcileFresh()
	w.schedule() // the head is bound again, and not ready yet
	w.now = w.now.Add(30 * time.Second)
	fall(rank{"worker", 0})
	for range 4 {
		w.syncVolcano()
		w.schedule()
		job.runPod(job.findPod(func(p *pod) bool { return p.rank() == rank{"worker", 0} }))
		job.reconcileFresh()
	}
	w.now = w.now.Add(10 * time.Second)
	w.silence(w.nodes[job.podNamed("llm-1-head-0").Node])
	job.reconcileFresh()
	w.now = w.now.Add(5 * time.Second)
	fall(rank{"worker", 1})
}
