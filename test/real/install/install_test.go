package install

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
	"github.com/lockstep-dev/lockstep/test/real"
)

// here is shared by the tests, which run one after the other.
var here *site

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	ctrl.SetLogger(zap.New())
	var err error
	if here, err = start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "test/real/install:", err)
		return 1
	}
	code := m.Run()
	if err := here.CheckHistory(); err != nil {
		fmt.Fprintln(os.Stderr, "test/real/install:", err)
		code = 1
	}
	if err := here.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "test/real/install:", err)
		return 1
	}
	return code
}

// By Helm: the version before is installed, upgraded and rolled back, each while a job recovers, and uninstalled while a job with supervisors
// trains, which goes on with the next installation.
func TestTheChart(t *testing.T) {
	w := newWorld(t)
	w.must(here.writeValues(here.previous))
	w.must(here.writeValues(here.root))
	w.follow(here.previous, "helm")
	w.must(w.shell(ready))
	w.agentsReport()
	job := w.train("chart")

	w.acrossAnIncident(job, func() { w.follow(here.root, "upgrade") })
	w.runs(here.root)
	w.follow(here.root, "verify")
	w.acrossAnIncident(job, func() { w.follow(here.root, "downgrade") })
	w.runs(here.previous)
	w.follow(here.root, "upgrade")

	w.must(job.Delete(w.ctx))
	job = w.train("supervised", (*real.Training).Supervise)
	w.restartsInPlace(job)
	w.must(w.shell("helm uninstall lockstep --namespace lockstep-system --wait"))
	w.must(job.AwaitSteps(w.ctx, job.LastStep()+10)) // nobody is needed to train
	w.follow(here.root, "helm")
	w.must(w.shell(ready))
	w.restartsInPlace(job) // its supervisors have found the next manager, and trust it
	w.breakLink()
	w.follow(here.root, "free")
	w.follow(here.root, "uninstall")
	w.nothingIsLeft()
}

// By kubectl: the version before is installed, upgraded while a job recovers, and uninstalled while a node is in quarantine.
func TestKustomize(t *testing.T) {
	w := newWorld(t)
	w.must(here.writeOverlay(here.previous))
	w.must(here.writeOverlay(here.root))
	w.follow(here.previous, "kubectl")
	w.agentsReport()
	job := w.train("kustomize")
	w.acrossAnIncident(job, func() {
		w.follow(here.root, "kubectl")
		w.must(w.shell(ready))
	})
	w.runs(here.root)
	w.follow(here.root, "verify")
	w.breakLink()
	w.follow(here.root, "uninstall-kubectl")
	w.nothingIsLeft()
}

// ready waits for the manager, as the page does when it verifies an installation.
const ready = "kubectl --namespace lockstep-system rollout status deployment lockstep-manager --timeout=5m"

// world is a cluster as it is before an installation.
type world struct {
	t      *testing.T
	ctx    context.Context
	before map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ctx: context.WithoutCancel(t.Context())}
	var err error
	w.before, err = here.objects(w.ctx)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.dump()
		w.t.Fatal(err)
	}
}

// dump prints what runs.
func (w *world) dump() {
	out, _ := here.command(w.ctx, here.root, `set +e
kubectl get pods -A -o wide; kubectl get trainingjobs,nodehealths -A; kubectl get events -A | tail -20
kubectl -n lockstep-system logs -l app.kubernetes.io/component=manager --tail=10
kubectl -n lockstep-health logs -l app.kubernetes.io/component=health-agent --tail=3`).CombinedOutput()
	w.t.Logf("%s", out)
}

// follow runs a part of the page.
func (w *world) follow(checkout, part string) {
	w.t.Helper()
	began := time.Now()
	w.must(here.follow(w.ctx, checkout, part))
	w.t.Logf("%s took %s", part, time.Since(began).Round(time.Second))
}

func (w *world) shell(script string) error {
	if out, err := here.command(w.ctx, here.root, script).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}

func (w *world) await(what string, holds func() (bool, error)) {
	w.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, real.AwaitTimeout, true, func(context.Context) (done bool, _ error) {
		done, last = holds()
		return done && last == nil, nil
	})
	if err != nil {
		w.must(fmt.Errorf("waiting until %s: %w: %w", what, err, last))
	}
}

// agentsReport waits until the agent of every node says that all is well, with the version of what plays DCGM there.
func (w *world) agentsReport() {
	w.t.Helper()
	for _, node := range here.Nodes.NodeNames() {
		w.await("the agent of "+node+" reports", func() (bool, error) {
			health := &v1alpha1.NodeHealth{}
			err := here.Client().Get(w.ctx, client.ObjectKey{Name: node}, health)
			if err != nil || len(health.Status.Sources) != 1 {
				return false, client.IgnoreNotFound(err)
			}
			source := health.Status.Sources[0]
			return source.State == v1alpha1.HealthHealthy && source.Version != "", nil // one that has not asked yet has none
		})
	}
}

// train runs a job on all nodes, until its first step of training. It would not end before the test does, and goes back to a node that it
// lost, since there is no other.
func (w *world) train(name string, change ...func(*real.Training)) *real.Training {
	w.t.Helper()
	job := here.NewTraining(name, len(here.Nodes.NodeNames()), 100_000)
	job.Job.Spec.RestartPolicy.ExcludeNodeSeconds = new(int32(0))
	for _, c := range change {
		c(job)
	}
	w.must(job.Run(w.ctx))
	w.must(job.AwaitJob(w.ctx, "every rank is ready", func(job *v1alpha1.TrainingJob) bool { return job.Status.State == v1alpha1.StateRunning }))
	return job
}

// restartsInPlace kills the program of one rank. All ranks train again, in the pods and the containers that there were: their supervisors have
// found the manager through its Service.
func (w *world) restartsInPlace(job *real.Training) {
	w.t.Helper()
	before, err := job.Pods(w.ctx)
	w.must(err)
	w.must(job.Refresh(w.ctx))
	generation, restarts := job.Generation(), job.Job.Status.Restarts.Process
	began := time.Now()
	w.must(here.KillPrograms(w.ctx, client.ObjectKeyFromObject(new(before[1]))))
	w.must(job.AwaitNewGeneration(w.ctx, generation))
	w.t.Logf("all ranks train again after %s", time.Since(began).Round(time.Millisecond))
	w.must(job.AwaitJob(w.ctx, "the restart is counted", func(job *v1alpha1.TrainingJob) bool { return job.Status.Restarts.Process > restarts }))
	after, err := job.Pods(w.ctx)
	w.must(err)
	for rank, pod := range before {
		if after[rank].UID != pod.UID || after[rank].Status.ContainerStatuses[0].RestartCount != 0 {
			w.t.Errorf("rank %d was not restarted in place: %v", rank, after[rank].Status.ContainerStatuses)
		}
	}
}

// runs checks that the pods of Lockstep run the images of a checkout.
func (w *world) runs(checkout string) {
	w.t.Helper()
	tag := here.tag(checkout)
	for _, namespace := range []string{"lockstep-system", "lockstep-health"} {
		w.await("all pods of "+namespace+" are of "+tag, func() (bool, error) {
			pods := &corev1.PodList{}
			err := here.Client().List(w.ctx, pods, client.InNamespace(namespace))
			other := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
				return !slices.Contains([]string{managerImage + ":" + tag, agentImage + ":" + tag}, p.Spec.Containers[0].Image)
			})
			return len(pods.Items) > 0 && !other, err
		})
	}
}

// acrossAnIncident loses a node, so that the job recovers and has no room, changes Lockstep's version, and gives the node back. It is one
// incident from beginning to end, each step is taken once, and no other pod than the lost one is replaced.
func (w *world) acrossAnIncident(job *real.Training, change func()) {
	w.t.Helper()
	before, err := job.Pods(w.ctx)
	w.must(err)
	generation, known := job.Generation(), w.incidents(job)
	lost := before[w.rankWithoutManager(before)]
	w.must(here.PowerOff(w.ctx, lost.Spec.NodeName))
	var opened v1alpha1.Incident
	w.await("a step is taken", func() (bool, error) {
		for id, incident := range w.incidents(job) {
			if _, old := known[id]; !old && len(incident.Steps) > 0 {
				opened = incident
			}
		}
		return opened.ID != 0, nil
	})

	change()
	if during := w.incidents(job)[opened.ID]; during.Outcome != "" {
		w.t.Errorf("the incident was over before the node was back: %s", during.Outcome)
	}
	w.must(here.PowerOn(w.ctx, lost.Spec.NodeName))
	w.must(job.AwaitNewGeneration(w.ctx, generation))
	w.await("the job has recovered", func() (bool, error) {
		incidents := slices.Collect(maps.Values(w.incidents(job)))
		return !slices.ContainsFunc(incidents, func(i v1alpha1.Incident) bool { return i.Outcome == "" }), nil
	})
	w.isOneStory(opened, known, w.incidents(job))
	w.onlyOneReplaced(job, before, lost)
}

// isOneStory checks that an incident went on as it was opened. While a rank has no room, an incident of its own says so.
func (w *world) isOneStory(opened v1alpha1.Incident, known, after map[int32]v1alpha1.Incident) {
	w.t.Helper()
	for id, incident := range after {
		if _, old := known[id]; old {
			continue
		}
		w.t.Logf("incident %d, %s: steps %v; %s", id, incident.Trigger, actions(incident), incident.Outcome)
		if id != opened.ID && incident.Trigger != v1alpha1.PodPending {
			w.t.Errorf("incident %d was opened beside incident %d: %s", id, opened.ID, incident.Message)
		}
		if incident.Outcome != v1alpha1.OutcomeRecovered {
			w.t.Errorf("the outcome of incident %d is %s", id, incident.Outcome)
		}
		fired := map[int32]bool{}
		for _, step := range incident.Steps {
			fired[step.Index] = true
		}
		if len(fired) != len(incident.Steps) {
			w.t.Errorf("incident %d took a step twice: %v", id, actions(incident))
		}
	}
	if diff := cmp.Diff(opened.Steps, after[opened.ID].Steps); diff != "" {
		w.t.Errorf("steps of incident %d (-before +after the change of version):\n%s", opened.ID, diff)
	}
}

func (w *world) onlyOneReplaced(job *real.Training, before map[int]corev1.Pod, lost corev1.Pod) {
	w.t.Helper()
	pods, err := job.Pods(w.ctx)
	w.must(err)
	for rank, pod := range before {
		if replaced := pods[rank].UID != pod.UID; replaced != (pod.UID == lost.UID) {
			w.t.Errorf("the pod of rank %d was replaced: %v; that of node %s was lost", rank, replaced, lost.Spec.NodeName)
		}
	}
}

// incidents are those of a job by their ids.
func (w *world) incidents(job *real.Training) map[int32]v1alpha1.Incident {
	w.t.Helper()
	w.must(job.Refresh(w.ctx))
	all := map[int32]v1alpha1.Incident{}
	for _, incident := range job.Job.Status.Incidents {
		all[incident.ID] = incident
	}
	return all
}

func actions(incident v1alpha1.Incident) (all []v1alpha1.Action) {
	for _, step := range incident.Steps {
		all = append(all, step.Action)
	}
	return all
}

// rankWithoutManager is a rank, not the first, whose node runs no manager: the lease need not be waited for.
func (w *world) rankWithoutManager(pods map[int]corev1.Pod) int {
	w.t.Helper()
	managers := &corev1.PodList{}
	w.must(here.Client().List(w.ctx, managers, client.InNamespace("lockstep-system")))
	for _, rank := range slices.Sorted(maps.Keys(pods)) {
		busy := slices.ContainsFunc(managers.Items, func(m corev1.Pod) bool { return m.Spec.NodeName == pods[rank].Spec.NodeName })
		if rank > 0 && !busy {
			return rank
		}
	}
	w.t.Fatal("managers are on every node")
	return 0
}

// breakLink has a node be put in quarantine.
func (w *world) breakLink() {
	w.t.Helper()
	w.agentsReport()
	// The breaker would not let one of four nodes be put in quarantine.
	w.must(w.shell(`kubectl patch healthpolicy cluster --type merge --patch '{"spec": {"breaker": {"cluster": {"percent": 100}}}}'`))
	name := here.Nodes.NodeNames()[0]
	here.states[name].SetLink(0, 0, dcgmsim.LinkDown)
	w.t.Cleanup(func() { here.states[name].SetLink(0, 0, dcgmsim.LinkUp) })
	w.await(name+" is in quarantine", func() (bool, error) {
		node := &corev1.Node{}
		err := here.Client().Get(w.ctx, client.ObjectKey{Name: name}, node)
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == v1alpha1.TaintQuarantine }), err
	})
}

// nothingIsLeft checks that the cluster has what it had before, and no mark of Lockstep in it.
func (w *world) nothingIsLeft() {
	w.t.Helper()
	after, err := here.objects(w.ctx)
	if apierrors.IsNotFound(err) { // a kind went meanwhile
		after, err = here.objects(w.ctx)
	}
	w.must(err)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(w.before)), slices.Sorted(maps.Keys(after))); diff != "" {
		w.t.Errorf("what the cluster has (-before the installation +after):\n%s", diff)
	}
}
