package controllers

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

const holdKeyOfJob = "hold.lockstep.dev/llm-0123abcd"

func TestAJobStarts(t *testing.T) {
	e := newEnv(t, aJob())
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm", "create *v1alpha1.Job llm-1"}, e.Calls)
	e.settle()
	e.volcano(1)
	e.settle()
	for _, name := range []string{"llm-1-worker-0", "llm-1-worker-1"} {
		pod := e.pod(name)
		check.Equal(t, "gates", 0, len(pod.Spec.SchedulingGates))
		check.Equal(t, "life", "0", pod.Annotations["lockstep.dev/incarnation"])
	}
	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.settle()
	check.Equal(t, "state", v1alpha1.StateRunning, e.job().Status.State)
	check.Equal(t, "home", "rack-a", e.job().Status.Placement.HyperNode)
	check.Equal(t, "holds", nil, e.taints())
}

func TestAPodIsReplacedOnItsOwnNode(t *testing.T) {
	e := running(t)
	e.crash("llm-1-worker-1")
	e.Clock.SetTime(t0.Add(time.Second))
	e.Calls = nil
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "writes: record, hold, delete", []string{
		"update the status of *v1alpha1.TrainingJob llm", "patch *v1.Node n1", "delete *v1.Pod llm-1-worker-1",
	}, e.Calls)
	check.Equal(t, "held", map[string][]string{"n1": {holdKeyOfJob + "=1767323646-1002"}}, e.taints())
	e.volcano(1)
	e.settle()
	pod := e.pod("llm-1-worker-1")
	check.Equal(t, "gates", 0, len(pod.Spec.SchedulingGates))
	check.Equal(t, "life", "1", pod.Annotations["lockstep.dev/incarnation"])
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	check.Equal(t, "to", []string{"host-n1"}, terms[0].MatchExpressions[0].Values)
	e.run("llm-1-worker-1", "n1")
	e.settle()
	check.Equal(t, "held", nil, e.taints())
	check.Equal(t, "state", v1alpha1.StateRunning, e.job().Status.State)
	check.Equal(t, "the other life", "0", e.pod("llm-1-worker-0").Annotations["lockstep.dev/incarnation"])
}

func TestNothingIsDeletedWhereAHoldIsMissing(t *testing.T) {
	e := running(t)
	e.crash("llm-1-worker-1")
	e.restart(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if _, node := obj.(*corev1.Node); node {
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, obj.GetName(), errors.New("changed"))
		}
		return c.Patch(ctx, obj, patch, opts...)
	}})
	e.Calls = nil
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "looks again", writes.ConflictPause, result.RequeueAfter)
	check.Equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm"}, e.Calls)
}

// A cache that does not show this process's last write is not acted on.
func TestAStaleJobIsNotActedOn(t *testing.T) {
	e := running(t)
	old := e.job()
	stale := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if job, ok := obj.(*v1alpha1.TrainingJob); ok {
			old.DeepCopyInto(job)
			return nil
		}
		return c.Get(ctx, k, obj, opts...)
	}}
	e.crash("llm-1-worker-1")
	e.Clock.SetTime(t0.Add(time.Second))
	_, err := e.reconcile()
	e.Must(err)

	for name, process := range map[string]func(){
		"the same process": func() { e.r.Client = interceptor.NewClient(e.Restart(interceptor.Funcs{}), stale) },
		"a new process":    func() { e.restart(stale) },
	} {
		t.Run(name, func(t *testing.T) {
			process()
			e.r.memoryOf(e.job()).lostNode.Store(true)
			e.Calls = nil
			result, err := e.reconcile()
			e.Must(err)
			check.Equal(t, "writes", nil, e.Calls)
			check.Equal(t, "looks again", 0, result.RequeueAfter)
			check.Equal(t, "as soon as the cache shows it", true, e.r.memoryOf(e.job()).isUrgent())
		})
	}
}

func TestAConflictOnRecordEndsThePass(t *testing.T) {
	e := running(t)
	e.crash("llm-1-worker-1")
	before := []float64{counted(t, "lockstep_incidents_total"), counted(t, "lockstep_steps_total")}
	fail := true
	e.restart(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		if fail {
			return apierrors.NewConflict(schema.GroupResource{Resource: "trainingjobs"}, obj.GetName(), errors.New("changed"))
		}
		return c.SubResource(sub).Update(ctx, obj, opts...)
	}})
	for range 3 {
		e.Calls = nil
		result, err := e.reconcile()
		e.Must(err)
		check.Equal(t, "looks again", writes.ConflictPause, result.RequeueAfter)
		check.Equal(t, "writes", nil, e.Calls)
		check.Equal(t, "events", nil, e.Told())
	}
	fail = false
	e.settle()
	check.Equal(t, "incidents counted", before[0]+1, counted(t, "lockstep_incidents_total"))
	check.Equal(t, "steps counted", before[1]+1, counted(t, "lockstep_steps_total"))
}

func TestReport(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	has(t, e.Told(), "attempt 1")
	e.volcano(1)
	e.settle()
	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.settle()
	told := e.Told()
	has(t, told, "Normal PodsScheduled")
	has(t, told, "Normal PodsReady")
	has(t, told, "home is HyperNode rack-a")

	e.settle()
	e.Clock.SetTime(t0.Add(5 * time.Second))
	e.settle()
	check.Equal(t, "events while nothing happens", nil, e.Told())

	before := counted(t, "lockstep_incident_duration_seconds")
	e.crash("llm-1-worker-1")
	e.settle()
	told = e.Told()
	has(t, told, "Warning PodFailed incident 1, PodFailed of pod llm-1-worker-1 on node n1")
	has(t, told, "Normal RestartPod")
	e.volcano(1)
	e.settle()
	e.Clock.SetTime(t0.Add(8 * time.Second))
	e.run("llm-1-worker-1", "n1")
	e.settle()
	told = e.Told()
	check.Equal(t, "a step is told again", false, slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "Normal RestartPod") }))
	has(t, told, "Normal IncidentRecovered incident 1, PodFailed of pod llm-1-worker-1 on node n1, container train exited with 1 (Error): RestartPod. Recovered after 3s")
	check.Equal(t, "durations counted", before+1, counted(t, "lockstep_incident_duration_seconds"))
}

func TestARefusalBecomesACondition(t *testing.T) {
	e := newEnv(t, aJob())
	refuse := true
	e.restart(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if _, ok := obj.(*batch.Job); ok && refuse {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, obj.GetName(), errors.New("queue research is closed"))
		}
		return c.Create(ctx, obj, opts...)
	}})
	var waits []time.Duration
	for range 3 {
		result, err := e.reconcile() // what the job asks for is no error of the manager
		e.Must(err)
		waits = append(waits, result.RequeueAfter)
	}
	check.Equal(t, "is tried again after", []time.Duration{minRetry, 2 * minRetry, 4 * minRetry}, waits)
	check.Equal(t, "is tried again after at most", maxRetry, retryAfter(100))
	c := meta.FindStatusCondition(e.job().Status.Conditions, v1alpha1.ConditionScheduled)
	check.Equal(t, "reason", v1alpha1.ReasonVolcanoJobRefused, c.Reason)
	has(t, []string{c.Message}, "queue research is closed")
	told := e.Told()
	has(t, told, "Warning VolcanoJobRefused")
	check.Equal(t, "said so often", 3, len(told)) // the attempt, that it waits, and why

	refuse = false
	e.settle()
	c = meta.FindStatusCondition(e.job().Status.Conditions, v1alpha1.ConditionScheduled)
	check.Equal(t, "reason", v1alpha1.ReasonQueued, c.Reason)
}

func TestAVolcanoJobOfSomebodyElseIsLeftAlone(t *testing.T) {
	other := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llm-1", Labels: map[string]string{v1alpha1.LabelJob: "llm", v1alpha1.LabelAttempt: "1"}}}
	e := newEnv(t, aJob(), other)
	for range 3 {
		result, err := e.reconcile()
		e.Must(err)
		check.Equal(t, "is tried again", true, result.RequeueAfter > 0)
	}
	c := meta.FindStatusCondition(e.job().Status.Conditions, v1alpha1.ConditionScheduled)
	has(t, []string{c.Message}, "is not this TrainingJob's")
	e.Must(e.API.Get(t.Context(), client.ObjectKeyFromObject(other), other))
}

func TestAFinishedJobStopsItsVolcanoJobOnce(t *testing.T) {
	e := running(t)
	job := e.job()
	job.Spec.ActiveDeadlineSeconds = new(int64)
	e.Must(e.API.Update(t.Context(), job))
	for range 3 {
		_, err := e.reconcile()
		e.Must(err)
	}
	commands := &bus.CommandList{}
	e.Must(e.API.List(t.Context(), commands))
	check.Equal(t, "commands", 1, len(commands.Items))
	check.Equal(t, "action", string(bus.TerminateJobAction), commands.Items[0].Action)
}

func TestAJobThatIsGoneIsForgotten(t *testing.T) {
	e := running(t)
	e.Must(e.API.Delete(t.Context(), e.job()))
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "known", 0, len(e.r.memories.jobs))
}

// A pod of the name is there, and it is another one: neither deleted nor lifted.
func TestActionsNameAPodByUID(t *testing.T) {
	e := running(t)
	var asked client.DeleteOptions
	e.restart(interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		asked = *(&client.DeleteOptions{}).ApplyOptions(opts)
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, obj.GetName(), errors.New("the UID is another"))
	}})
	a := actor{TrainingJobReconciler: e.r, job: e.job(), attempt: 1, seen: &gang.Observation{}}
	e.Must(a.deletePod(t.Context(), policies.PodDeletion{Name: "llm-1-worker-1", UID: "another"}))
	check.Equal(t, "of UID", types.UID("another"), *asked.Preconditions.UID)
	check.Equal(t, "grace", nil, asked.GracePeriodSeconds)
	e.Must(a.deletePod(t.Context(), policies.PodDeletion{Name: "llm-1-worker-1", UID: "another", Force: true}))
	check.Equal(t, "grace", 0, *asked.GracePeriodSeconds)
	check.Equal(t, "by force, of any version", nil, asked.Preconditions.ResourceVersion)
	check.Equal(t, "of UID", types.UID("another"), *asked.Preconditions.UID)

	e.Calls = nil
	e.Must(a.lift(t.Context(), policies.Lift{Pod: "llm-1-worker-1", UID: "another", Target: placement.Target{In: []string{"x"}}}))
	e.Must(a.lift(t.Context(), policies.Lift{Pod: "ghost", UID: "another"}))
	check.Equal(t, "writes", nil, e.Calls)
}

// A pod that has ended by itself since it was seen is deleted, and may have left its node free before that was held.
func TestADeletionFindsAPodThatHasChanged(t *testing.T) {
	e := running(t)
	held := []v1alpha1.NodeHold{{Node: "n1", ID: "7"}}
	a := actor{TrainingJobReconciler: e.r, job: e.job(), attempt: 1, seen: &gang.Observation{}, held: held}
	seen := e.pod("llm-1-worker-1")
	ended := seen.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	e.Must(e.API.Status().Update(t.Context(), ended))
	e.Must(a.deletePod(t.Context(), policies.PodDeletion{Name: seen.Name, UID: string(seen.UID), Version: seen.ResourceVersion, Node: "n1"}))
	check.Equal(t, "gone", true, apierrors.IsNotFound(e.API.Get(t.Context(), client.ObjectKeyFromObject(seen), &corev1.Pod{})))
	job := e.job()
	job.Status.Holds = held
	o, err := e.r.observe(t.Context(), job)
	e.Must(err)
	check.Equal(t, "vacated", map[string]string{"n1": "7"}, o.Vacated)
}

// A deletion that is refused may come when the pod has ended: nothing is known of it until then.
func TestARefusedDeletionLeavesTheHoldLate(t *testing.T) {
	e := running(t)
	e.restart(interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return apierrors.NewTooManyRequestsError("later")
	}})
	held := []v1alpha1.NodeHold{{Node: "n1", ID: "7"}}
	a := actor{TrainingJobReconciler: e.r, job: e.job(), attempt: 1, seen: &gang.Observation{}, held: held}
	pod := e.pod("llm-1-worker-1")
	err := a.deletePod(t.Context(), policies.PodDeletion{Name: pod.Name, UID: string(pod.UID), Version: pod.ResourceVersion, Node: "n1"})
	check.Equal(t, "refused", true, apierrors.IsTooManyRequests(err))
	check.Equal(t, "vacated", map[string]string{"n1": "7"}, e.r.memoryOf(a.job).vacated.of(held))
}

// A pod that is gone, or another one, when it is to be deleted has left its node free: for as long as the node is held as it is now.
func TestDeletionsFindVacatedNodes(t *testing.T) {
	e := running(t)
	held := []v1alpha1.NodeHold{{Node: "n1", ID: "7"}, {Node: "n2", ID: "7"}}
	a := actor{TrainingJobReconciler: e.r, job: e.job(), attempt: 1, seen: &gang.Observation{}, held: held}
	there := e.pod("llm-1-worker-1")
	e.Must(a.deletePod(t.Context(), policies.PodDeletion{Name: there.Name, UID: string(there.UID), Version: there.ResourceVersion, Node: "n1"}))
	vacated := func(held ...v1alpha1.NodeHold) map[string]string {
		job := e.job()
		job.Status.Holds = held
		o, err := e.r.observe(t.Context(), job)
		e.Must(err)
		return o.Vacated
	}
	check.Equal(t, "vacated, where the pod was there", 0, len(vacated(held...)))
	for _, node := range []string{"n2", "n3", ""} {
		e.Must(a.deletePod(t.Context(), policies.PodDeletion{Name: "ghost", UID: "ghost", Node: node}))
	}
	node := &corev1.Node{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, node))
	a.seen.Nodes = map[string]gang.Node{"n1": nodeOf(node, "")}
	e.Must(a.deletePod(t.Context(), policies.PodDeletion{Name: "ghost", UID: "ghost", Node: "n1", Force: true}))
	check.Equal(t, "vacated", map[string]string{"n2": "7"}, vacated(held...))
	check.Equal(t, "vacated, as held again", 0, len(vacated(v1alpha1.NodeHold{Node: "n2", ID: "8"})))
	check.Equal(t, "vacated, once that is seen", 0, len(vacated(held...)))
}

// A lift is one patch, which says what the pod has to be for it.
func TestALiftIsOnePatch(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	var patches []string
	e.restart(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		raw, err := patch.Data(obj)
		e.Must(err)
		patches = append(patches, string(raw))
		return c.Patch(ctx, obj, patch, opts...)
	}})
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "patches", 2, len(patches))
	has(t, patches, `{"op":"test","path":"/metadata/uid","value":"llm-1-worker-1-0"}`)
	has(t, patches, `{"op":"test","path":"/spec/schedulingGates","value":[{"name":"lockstep.dev/placement"}]}`)
	has(t, patches, `{"op":"remove","path":"/spec/schedulingGates"}`)
	has(t, patches, `{"op":"add","path":"/metadata/annotations/lockstep.dev~1incarnation","value":"0"}`)
}

// A user deletes a job and creates it again before this process looks at it.
func TestNothingIsKeptOfAnEarlierJobOfTheName(t *testing.T) {
	e := running(t)
	e.r.memories.of(key).refused = "refused"
	e.Must(e.API.Delete(t.Context(), e.job()))
	again := aJob()
	again.UID, again.Spec.Suspend = "again", true
	e.Must(e.API.Create(t.Context(), again))
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "known", "again", string(e.r.memories.of(key).written.uid))
	check.Equal(t, "refusal", "", e.r.memories.of(key).refused)
}

// A pass that has yet to look at the nodes sees also the loss that is said meanwhile. One that has looked does not.
func TestALossIsUrgentUntilAPassHasLooked(t *testing.T) {
	for name, tc := range map[string]struct {
		reads  any
		urgent bool
	}{
		"before the nodes are read": {&corev1.PodList{}, false},
		"after":                     {&policy.PodDisruptionBudget{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := running(t)
			m, said := e.r.memoryOf(e.job()), false
			say := func(read any) {
				if reflect.TypeOf(read) == reflect.TypeOf(tc.reads) {
					m.lostNode.Store(true)
					said = true
				}
			}
			e.r.Client = interceptor.NewClient(e.Restart(interceptor.Funcs{}), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					say(obj)
					return c.Get(ctx, k, obj, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					say(list)
					return c.List(ctx, list, opts...)
				},
			})
			_, err := e.reconcile()
			e.Must(err)
			check.Equal(t, "was said", true, said)
			check.Equal(t, "urgent", tc.urgent, m.isUrgent())
		})
	}
}
