// Package epochs plays random histories of one supervised gang: the manager's decisions and the state machines of its supervisors, both as
// they are, with what is between them late, lost and cut. It shows that no two programs of a rank run at once, and that no program starts
// while one of an earlier epoch is left.
package epochs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// managerTimeout is that of the supervisors.
const managerTimeout = time.Minute

// world is a gang on nodes of one rack, its manager, and its supervisors.
type world struct {
	rng   *rand.Rand
	now   time.Time
	job   *v1alpha1.TrainingJob
	nodes map[string]*gang.Node
	names []string
	pods  []*pod
	// ghosts are pods whose objects are gone while their node is silent: their programs may run on.
	ghosts []*pod
	uids   int

	// order is what the manager last told its hub; nil since its start.
	order *policies.Order
	// late are earlier orders, which may still be on their way.
	late []policies.Order
	// ordered reports whether what a supervisor does now follows an order.
	ordered bool
	// listens is since when the manager runs, and writes how many statuses it has written.
	listens time.Time
	writes  int

	calm bool // the trouble is over
	// failing is the rank whose program fails soon after each start; negative for none.
	failing int32
	history []string
	defect  string
}

// pod is a pod with its supervisor.
type pod struct {
	gang.Pod
	machine *epoch.Machine
	// seen is the highest epoch in the pod's volume.
	seen int64
	// program is the epoch that the program runs in; 0 where none does. processes reports whether anything of it is left.
	program   int64
	processes bool
	stopping  bool
	cleaning  bool
	// report is the last one of the supervisor, and heard the last one that the manager has of this stream.
	report, heard *wire.Report
	connected     bool
	restartAt     time.Time // when the kubelet starts its container again; zero while it runs
	ended         bool
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), now: began, listens: began, failing: -1, nodes: map[string]*gang.Node{}}
	ranks := int32(2 + w.rng.IntN(3))
	for i := range int(ranks) + 2 {
		name := fmt.Sprintf("n%d", i)
		w.names = append(w.names, name)
		w.nodes[name] = &gang.Node{Name: name, Hostname: name, Ready: true}
	}
	w.job = &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llm", UID: "0123abcd-0000-4000-8000-000000000000", Generation: 1},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: "default", Supervisor: &v1alpha1.Supervisor{},
			RestartPolicy: &v1alpha1.RestartPolicy{
				Budget: &v1alpha1.Budget{MaxRestarts: new(int32(1000))}, ExcludeNodeSeconds: new(int32(0)),
			},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: ranks}},
		},
	}
	if w.one(4) {
		w.job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep
	}
	if w.one(2) {
		w.job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(1))}
	}
	if rand.New(rand.NewPCG(seed, 1)).IntN(8) == 0 { // drawn apart, so that other histories are as they were
		w.failing = 0
	}
	return w
}

// maxStatus is how large the status of such a small gang may get, in bytes, whatever happens.
const maxStatus = 32 << 10

// checkSize checks that a status does not grow with each failure.
func (w *world) checkSize(s *v1alpha1.TrainingJobStatus) {
	raw, err := json.Marshal(s)
	w.require(err == nil && len(raw) <= maxStatus, "the status takes %d bytes: %v", len(raw), err)
}

// failStarts ends the programs that fail soon after each start.
func (w *world) failStarts() {
	for _, p := range w.pods {
		if p.Index == w.failing && p.program > 0 && !p.stopping {
			w.exits(p, 1)
		}
	}
}

// keeps reports whether survivors are kept.
func (w *world) keeps() bool { return w.job.Spec.Supervisor.Survivors == v1alpha1.SurvivorsKeep }

func (w *world) one(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%7.1fs ", w.now.Sub(began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) require(ok bool, format string, args ...any) {
	if !ok && w.defect == "" {
		w.defect = fmt.Sprintf(format, args...)
		w.say("DEFECT: %s", w.defect)
	}
}

// observe is what the manager sees.
func (w *world) observe() *gang.Observation {
	hyperNode := topology.HyperNode{Name: "rack", Tier: 1, Nodes: w.names}
	o := &gang.Observation{
		Now: w.now, Job: w.job, Topology: topology.New([]topology.HyperNode{hyperNode}), Nodes: map[string]gang.Node{}, ListensSince: w.listens,
	}
	for name, n := range w.nodes {
		o.Nodes[name] = *n
	}
	if attempt := w.job.Status.Attempt; attempt > 0 {
		o.VolcanoJobs = []gang.VolcanoJob{{Name: gang.VolcanoJobName(w.job, attempt), Attempt: attempt, Size: gang.SizeOf(w.job)}}
		o.PodGroup = &gang.PodGroup{Name: "pg"}
	}
	for _, p := range w.pods {
		seen := p.Pod
		if p.connected && p.heard != nil {
			tell(&seen, p.heard)
		}
		o.Pods = append(o.Pods, seen)
	}
	return o
}

// tell gives a pod what its supervisor reports, as the controller does.
func tell(p *gang.Pod, r *wire.Report) {
	p.Process = &gang.Process{State: gang.ProcessState(r.State - wire.State_STATE_RUNNING), Epoch: r.Epoch, LastExitEpoch: r.LastExitEpoch, Progressed: r.Progressed}
	if r.Exit != nil && r.Exit.Code != 0 {
		f := gang.ContainerFailure{Name: "train", ExitCode: r.Exit.Code, Reason: "Error", Time: time.UnixMicro(r.Exit.EndedMicros)}
		p.Failure.Containers, p.LastExit = []gang.ContainerFailure{f}, &f
	}
}

// reconcile is one pass of the manager, which may die after it has recorded.
func (w *world) reconcile(dies bool) {
	o := w.observe()
	d := policies.Decide(o)
	if !same(&w.job.Status, &d.Status) {
		w.writes++
		job := w.job.DeepCopy()
		job.Status = d.Status
		w.checkSize(&d.Status)
		w.job = job
		w.say("status: epoch %d, ready %s, %d incidents, %s", d.Status.Epoch, d.Status.Ready, len(d.Status.Incidents), d.Status.Message)
	}
	if dies {
		w.restartManager()
		return
	}
	plan := policies.PlanFor(o, &w.job.Status)
	if plan.Create {
		w.createPods()
	}
	if plan.Order != nil {
		w.order, w.late = plan.Order, append(w.late, *plan.Order)
	}
	for _, x := range plan.DeletePods {
		w.deletePod(x)
	}
	for _, l := range plan.Lift {
		w.lift(l)
	}
}

// restartManager has another process of the manager listen: it knows nothing of what was reported.
func (w *world) restartManager() {
	w.say("the manager starts again")
	w.order, w.listens = nil, w.now
	for _, p := range w.pods {
		w.cut(p)
	}
}

func (w *world) createPods() {
	attempt := w.job.Status.Attempt
	w.pods = slices.DeleteFunc(w.pods, func(p *pod) bool { return p.Attempt != attempt })
	for i := range w.job.Spec.Tasks[0].Replicas {
		if w.podOf(i) == nil {
			w.makePod(i)
		}
	}
}

func (w *world) podOf(index int32) *pod {
	if i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.Index == index }); i >= 0 {
		return w.pods[i]
	}
	return nil
}

func (w *world) makePod(index int32) {
	w.uids++
	p := &pod{Pod: gang.Pod{
		UID: strconv.Itoa(w.uids), Task: "worker", Index: index, Attempt: w.job.Status.Attempt, Phase: corev1.PodPending, Gated: true, CreatedTime: w.now,
	}}
	p.Name = gang.PodName(w.job, p.Attempt, p.Rank())
	w.pods = append(w.pods, p)
}

func (w *world) deletePod(x policies.PodDeletion) {
	i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.UID == x.UID })
	if i < 0 {
		return
	}
	p := w.pods[i]
	if n := w.nodes[p.Node]; x.Force && n != nil && !n.Ready {
		w.say("pod %s is removed by force", p.UID)
		w.ghosts = append(w.ghosts, p)
		w.gone(p)
		return
	}
	if !p.Deleting {
		w.say("pod %s is deleted", p.UID)
		p.Deleting = true
	}
}

// gone takes the object of a pod away, and Volcano makes another one.
func (w *world) gone(p *pod) {
	w.pods = slices.DeleteFunc(w.pods, func(q *pod) bool { return q == p })
	w.makePod(p.Index)
}

func (w *world) lift(l policies.Lift) {
	i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.UID == l.UID && p.Gated })
	if i < 0 {
		return
	}
	p := w.pods[i]
	free := slices.DeleteFunc(slices.Clone(w.names), func(name string) bool {
		used := slices.ContainsFunc(slices.Concat(w.pods, w.ghosts), func(q *pod) bool { return q.Node == name })
		return used || !w.nodes[name].Ready || (l.Target.In != nil && !slices.Contains(l.Target.In, name)) || slices.Contains(l.Target.NotIn, name)
	})
	if len(free) == 0 {
		return
	}
	incarnation, _ := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationIncarnation], 10, 32)
	first, _ := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	p.Gated, p.Node, p.Incarnation, p.PlacedTime, p.seen = false, free[0], int32(incarnation), w.now, first
	w.say("pod %s goes to %s, incarnation %d, epoch %d", p.UID, p.Node, incarnation, first)
}
