package lab

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// Begin is when every play begins.
var Begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster with one job.
type world struct {
	*Setup
	now, end time.Time
	queue    events
	job      *v1alpha1.TrainingJob // with the status that is recorded
	topology *topology.Topology
	order    []string // the nodes, those of a HyperNode beside each other
	nodes    map[string]*node
	pods     []*pod
	volcano  []gang.VolcanoJob
	podGroup *gang.PodGroup
	answers  map[gang.AnswerKey]gang.Answer
	uids     int
	// looks counts those of the manager; the next one is due at lookAt.
	looks   int
	lookAt  time.Time
	lookSeq int
	// placing is whether the scheduler is about to look, and making whether Volcano is about to make pods.
	placing, making bool
	// running is the number of ranks whose processes run, and are not about to abort; degraded is the number of degraded nodes.
	running  int32
	degraded int
	// seen are the nodes and pods as the manager last saw them.
	seen seen
	// ordered is what the supervisors of the job heard last.
	ordered *policies.Order
	// lived is the node on which each rank ran last.
	lived map[gang.Rank]string
	// requests are what a pod of each task requests.
	requests map[string]corev1.ResourceList
	// leaves are the nodes of the lowest HyperNode of each node.
	leaves  map[string][]string
	program program
	tally   tally
}

// node is a node with what is wrong with it.
type node struct {
	name string
	// lost is whether it does not answer, silent whether the control plane knows that, gone whether its object is deleted.
	lost, silent, gone bool
	silentSince        time.Time
	// broken is whether a device of it has failed, reported whether that is known.
	broken, reported bool
	// degraded is whether it slows the job down, and slowdown by how much.
	degraded bool
	slowdown float64
	// taken is how many times other jobs have taken it.
	taken     int
	hold      string
	heldSince time.Time
	// allocatable is what the node has for pods.
	allocatable corev1.ResourceList
}

// pod is a pod with its process.
type pod struct {
	gang.Pod
	supervisor
	target  placement.Target
	process process
}

func newWorld(s *Setup) *world {
	w := &world{
		Setup: s, now: Begin, end: Begin.Add(s.For), job: s.Job.DeepCopy(),
		topology: topology.New(clone(s.HyperNodes)), nodes: map[string]*node{}, answers: map[gang.AnswerKey]gang.Answer{},
		tally: newTally(), lived: map[gang.Rank]string{}, requests: map[string]corev1.ResourceList{},
	}
	w.job.Status = v1alpha1.TrainingJobStatus{}
	if w.job.UID == "" {
		w.job.UID = "lab"
	}
	for i := range w.job.Spec.Tasks {
		w.requests[w.job.Spec.Tasks[i].Name] = cpus(1)
	}
	w.order, w.leaves = nodesOf(w.topology), leavesOf(w.topology)
	w.seen.nodes = make(map[string]gang.Node, len(w.order))
	for _, name := range w.order {
		w.nodes[name] = &node{name: name, allocatable: cpus(w.Slots(name))}
		w.seen.note(w.nodes[name])
	}
	return w
}

// clone copies HyperNodes, whose nodes a topology sorts: plays of one setup go side by side.
func clone(hyperNodes []topology.HyperNode) []topology.HyperNode {
	out := slices.Clone(hyperNodes)
	for i := range out {
		out[i].Nodes = slices.Clone(out[i].Nodes)
	}
	return out
}

func seedOf(n uint64) (seed [32]byte) {
	binary.LittleEndian.PutUint64(seed[:], n)
	return seed
}

// after has something happen later.
func (w *world) after(d time.Duration, do func()) { w.queue.add(w.now.Add(d), do) }

// usable reports whether pods are placed on a node.
func (n *node) usable() bool {
	return !n.silent && !n.gone && n.taken == 0 && (!n.broken || !n.reported)
}

// unnoticed reports whether something is wrong with a node that nobody knows of yet.
func (n *node) unnoticed() bool { return (n.lost && !n.silent && !n.gone) || (n.broken && !n.reported) }

// newPod is a pod behind its gate.
func (w *world) newPod(attempt int32, task string, index int32, spare bool) *pod {
	w.uids++
	p := &pod{Pod: gang.Pod{
		UID: strconv.Itoa(w.uids), Task: task, Index: index, Attempt: attempt, Spare: spare, SpareLabel: spare, Phase: corev1.PodPending, Gated: true, CreatedTime: w.now,
	}}
	p.Name = gang.PodName(w.job, attempt, p.Rank())
	return p
}

// podOf is the pod of a name; nil where there is none.
func (w *world) podOf(name, uid string) *pod {
	i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.Name == name && p.UID == uid })
	if i < 0 {
		return nil
	}
	return w.pods[i]
}

// free are how many more pods a node takes.
func (w *world) free(used map[string]int, name string) int { return w.Slots(name) - used[name] }

// used counts the pods on each node.
func (w *world) used() map[string]int {
	used := map[string]int{}
	for _, p := range w.pods {
		if p.Node != "" && !p.Finished() {
			used[p.Node]++
		}
	}
	return used
}

// task is the one of a name.
func (w *world) task(name string) *v1alpha1.Task {
	return &w.job.Spec.Tasks[slices.IndexFunc(w.job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == name })]
}

// spares are how many spares a task asks for.
func spares(t *v1alpha1.Task) int32 { return ptr.Deref(t.Spares, 0) }
