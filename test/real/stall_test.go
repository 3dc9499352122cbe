// Gangs that hang: every pod runs, and no step comes.

package real

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/fakeras"
)

// stepsSaved is how many steps there are from one checkpoint, and word of it, to the next: enough that a hang never begins while one is saved, when no step is expected.
const stepsSaved = 25

// How many words of steps the manager needs until it expects another one, of the first program and of a later one in its container, with one to spare.
const (
	wordsAtFirst = 8
	wordsLater   = 3
)

// stalledGang is a gang that hangs again and again.
type stalledGang struct {
	*scenario
	*plays
	disk   *disk
	before map[int]corev1.Pod
	// spinning is the rank that computes.
	spinning int
	// service is the address of NCCL's RAS service, which mesh answers at; nil before it is asked.
	service string
	mesh    *fakeras.Mesh
}

// TestAStalledGang has a gang hang in one way after the other. The job says so, and which ranks differ from the others, and no pod and no program is touched for that. With
// a rule for Stalled all programs are restarted in their pods. One that computes may evaluate, and is left alone until NCCL says that the others wait for it in a collective.
func TestAStalledGang(t *testing.T) {
	g := newStalledGang(t)
	defer g.record(t, hangsFile)()
	for round := range *hangs {
		for _, h := range hangKinds {
			g.play(h)
			if round == 0 && h.reason == "" {
				g.leftAlone()
				g.addRule()
			}
		}
	}
}

func newStalledGang(t *testing.T, changes ...func(*scenario)) *stalledGang {
	t.Helper()
	if err := ground.LoadTorch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scenario{Training: ground.NewTorchrun("stalled", 8, 100_000), t: t, ctx: context.WithoutCancel(t.Context())}
	g := &stalledGang{scenario: s, plays: newPlays(t)}
	s.Supervise()
	s.WithoutAgents()
	for _, change := range changes {
		change(s)
	}
	g.disk = s.newDisk()
	s.setEnv("CHECKPOINT_EVERY", strconv.Itoa(stepsSaved))
	port, err := ground.Port()
	s.must(err)
	g.service = net.JoinHostPort(ground.HostAddress(), strconv.Itoa(port))
	s.setEnv("NCCL_RAS_ADDR", g.service)
	s.removedAtTheEnd()
	t.Cleanup(g.disk.thaw) // the first that is done at the end: nothing that waits for the disk can end
	t.Cleanup(func() { s.must(ground.JoinPods(s.ctx, ground.Nodes.NodeNames()...)) })
	s.must(ground.Client().Create(s.ctx, s.Job))
	g.trainsFrom(0, wordsAtFirst)
	g.before = s.pods()
	return g
}

// addRule has the programs of a gang that hangs be restarted.
func (g *stalledGang) addRule() {
	g.t.Helper()
	was := g.Job.DeepCopy()
	g.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
		Name: "hangs", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.Stalled}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartProcesses}},
	}}
	g.must(ground.Client().Patch(g.ctx, g.Job, client.MergeFrom(was)))
}

// leftAlone checks that nothing is done for a stall without a rule, and that the plugin shows the rank that spins.
func (g *stalledGang) leftAlone() {
	g.t.Helper()
	shown := g.stacks()
	g.t.Log(shown)
	g.isAlone(shown, `(master 0|worker \d)`, "spin")
	if g.lastHang().ID > 0 || g.Job.Status.Epoch != 1 {
		g.errorf("incidents %v, epoch %d: nothing is done for a stall", g.Job.Status.Incidents, g.Job.Status.Epoch)
	}
}

// play has the gang hang in one way, and waits until it trains again, if it is restarted for that.
func (g *stalledGang) play(h hang) {
	g.t.Helper()
	count := g.of(h.name)
	count.Played++
	ranks, began := h.choose(g), time.Now()
	g.t.Logf("%s: ranks %v", h.name, ranks)
	versions := g.watched()
	defer versions.Stop()
	h.strike(g, ranks)
	named := true
	if h.said != nil {
		stalled := g.stalls(versions)
		if h.narrow != nil {
			ranks = h.narrow(g, ranks)
		}
		count.suspected(g.inTime(stalled))
		named = g.says(stalled, h.said(g, ranks))
	}
	if h.reason != "" {
		named = g.restarts(h, ranks, count) && named
	}
	if named {
		count.Named++
	}
	g.survivorsStay(g.before)
	g.neverRestarted()
	g.t.Logf("%s: %s", h.name, time.Since(began).Round(time.Second))
}

// restarts waits until the programs of a gang that hangs are to be restarted, lifts the fault, and waits until the gang trains again. It reports whether the incident is right.
func (g *stalledGang) restarts(h hang, ranks []int, count *faultCounts) bool {
	g.t.Helper()
	before, was := g.lastHang().ID, *g.Job.Status.DeepCopy()
	g.must(g.AwaitJob(g.ctx, "the programs are to be restarted", func(job *v1alpha1.TrainingJob) bool { return job.Status.Epoch > was.Epoch }))
	// No program is stopped before its stacks are in the log. So each is seen in its hang, and one that waits for the disk cannot end before that.
	for rank := range g.Ranks {
		g.keptStacks(rank, h.kept(g, rank, slices.Contains(ranks, rank)))
	}
	h.lift(g)
	g.must(g.AwaitJob(g.ctx, "the programs are started again", func(*v1alpha1.TrainingJob) bool {
		inc := g.lastHang()
		return inc.ID > before && inc.Outcome == v1alpha1.OutcomeRecovered
	}))
	count.Restarted++
	right := g.judged(h, ranks, was)
	g.trainsFrom(g.resumed(), wordsLater)
	count.TrainsAgain++
	return right
}

// lastHang is the newest incident of a hang; an empty one before the first.
func (g *stalledGang) lastHang() (last v1alpha1.Incident) {
	for _, inc := range g.Job.Status.Incidents {
		if inc.Trigger == v1alpha1.Stalled {
			last = inc
		}
	}
	return last
}

// judged checks what the incident of a hang says, and that nothing is charged to the job. Where all ranks hang none is to blame, and no node is left for that.
func (g *stalledGang) judged(h hang, ranks []int, was v1alpha1.TrainingJobStatus) bool {
	g.t.Helper()
	inc, now := g.lastHang(), g.Job.Status
	g.t.Logf("incident %d: %s, cause %q on %q, %d pods, %d victims", inc.ID, inc.Class, inc.Cause.Pod, inc.Cause.Node, inc.PodCount, inc.VictimCount)
	culprits := []string{""}
	if len(ranks) < g.Ranks {
		culprits = g.names(ranks)
	}
	got, want := []string{string(inc.Class), inc.Cause.Reason, inc.Rule}, []string{string(h.class), h.reason, "hangs"}
	right := slices.Equal(got, want) && slices.Contains(culprits, inc.Cause.Pod)
	if !right {
		g.errorf("class, reason and rule of the incident: %v, want %v; pod %q, want one of %q", got, want, inc.Cause.Pod, culprits)
	}
	left := h.class == v1alpha1.ClassInfrastructure && len(ranks) < g.Ranks
	if !left && len(now.ExcludedNodes) > len(was.ExcludedNodes) {
		g.errorf("excluded nodes: %v, and before %v", now.ExcludedNodes, was.ExcludedNodes)
	}
	if now.Epoch != was.Epoch+1 || now.Restarts.Charged != 0 || inc.Charged || meta.IsStatusConditionTrue(now.Conditions, v1alpha1.ConditionStalled) {
		g.errorf("epoch %d, %d restarts charged, conditions %v", now.Epoch, now.Restarts.Charged, now.Conditions)
	}
	return right
}

// watched are the versions of the job from now on: under a rule it has stalled for a moment.
func (g *stalledGang) watched() watch.Interface {
	g.t.Helper()
	g.must(g.Refresh(g.ctx))
	w, err := ground.Client().Watch(g.ctx, &v1alpha1.TrainingJobList{}, client.InNamespace(g.Job.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: g.Job.ResourceVersion, FieldSelector: "metadata.name=" + g.Job.Name,
	}})
	g.must(err)
	return w
}

// stalls waits for the version of the job that says that it has stalled.
func (g *stalledGang) stalls(versions watch.Interface) metav1.Condition {
	g.t.Helper()
	for late := time.After(AwaitTimeout); ; {
		select {
		case event, open := <-versions.ResultChan():
			if !open {
				g.t.Fatal("the watch of the job has ended")
			}
			job, is := event.Object.(*v1alpha1.TrainingJob)
			if !is || !meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionStalled) {
				continue
			}
			g.Job = job
			stalled := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionStalled)
			g.t.Log(stalled.Message)
			return *stalled
		case <-late:
			g.t.Fatal("the job has not stalled")
		}
	}
}

// says checks the end of what a job says of a stall.
func (g *stalledGang) says(stalled metav1.Condition, want string) bool {
	g.t.Helper()
	right := strings.HasSuffix(stalled.Message, "; "+want)
	if !right {
		g.errorf("the job says %q, and not %q", stalled.Message, want)
	}
	return right
}
