package controllers

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/fakeapi"
)

// moving is a job whose ranks leave cordoned nodes, except those of the tasks that are given where there are any.
func moving(tasks ...string) *v1alpha1.TrainingJob {
	job := aJob()
	job.Spec.Tasks = append(job.Spec.Tasks, *job.Spec.Tasks[0].DeepCopy())
	job.Spec.Tasks[1].Name = "eval"
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "maintenance", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeCordoned}, Tasks: tasks}, Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
	}}}
	return job
}

// budget is the job's PodDisruptionBudget; nil where there is none.
func (e *env) budget() *policy.PodDisruptionBudget {
	e.T.Helper()
	budget := &policy.PodDisruptionBudget{}
	if err := e.API.Get(e.T.Context(), types.NamespacedName{Namespace: key.Namespace, Name: "llm-lockstep"}, budget); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		e.T.Fatal(err)
	}
	return budget
}

// The budget lets none of the job's ranks be evicted whose tasks have the rule, and goes with it. Spares may go.
func TestTheBudgetFollowsTheRules(t *testing.T) {
	e := newEnv(t, moving("worker"))
	e.settle()
	budget := e.budget()
	check.Equal(t, "owner", e.job().UID, metav1.GetControllerOf(budget).UID)
	check.Equal(t, "least", int32(math.MaxInt32), budget.Spec.MinAvailable.IntVal)
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	e.Must(err)
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"a rank":                    {map[string]string{v1alpha1.LabelUID: string(e.job().UID), v1alpha1.LabelTask: "worker"}, true},
		"one that took over":        {map[string]string{v1alpha1.LabelUID: string(e.job().UID), v1alpha1.LabelTask: "worker", v1alpha1.LabelSpare: "false"}, true},
		"a spare":                   {map[string]string{v1alpha1.LabelUID: string(e.job().UID), v1alpha1.LabelTask: "worker", v1alpha1.LabelSpare: "true"}, false},
		"one that may go":           {map[string]string{v1alpha1.LabelUID: string(e.job().UID), v1alpha1.LabelTask: "worker", v1alpha1.LabelEvictableSince: "1"}, false},
		"of another task":           {map[string]string{v1alpha1.LabelUID: string(e.job().UID), v1alpha1.LabelTask: "eval"}, false},
		"of an earlier TrainingJob": {map[string]string{v1alpha1.LabelUID: "0", v1alpha1.LabelTask: "worker"}, false},
	} {
		check.Equal(t, name, tc.want, selector.Matches(labels.Set(tc.labels)))
	}

	change := func(f func(*v1alpha1.TrainingJob)) {
		job := e.job()
		f(job)
		e.Must(e.API.Update(t.Context(), job))
		e.settle()
	}
	change(func(job *v1alpha1.TrainingJob) { job.Spec.RestartPolicy.Rules[0].Match.Tasks = nil })
	check.Equal(t, "tasks", []string{"eval", "worker"}, e.budget().Spec.Selector.MatchExpressions[0].Values)
	change(func(job *v1alpha1.TrainingJob) { job.Spec.RestartPolicy = nil })
	check.Equal(t, "without the rule", (*policy.PodDisruptionBudget)(nil), e.budget())
}

// The pods that a drain has waited for too long lose the protection. Others of the task keep it.
func TestTheBudgetLeavesOutWhatADrainWaitedForTooLong(t *testing.T) {
	job := moving("worker")
	job.Spec.RestartPolicy.Rules[0].Steps[0].AfterSeconds = 24 * 3600
	e := newEnv(t, job)
	e.settle()
	e.volcano(1)
	e.settle()
	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.changeNode("n1", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: new(metav1.NewTime(t0))}}
	})
	e.settle()
	protected := func() (out []string) {
		selector, err := metav1.LabelSelectorAsSelector(e.budget().Spec.Selector)
		e.Must(err)
		for _, index := range []string{"0", "1"} {
			if selector.Matches(labels.Set{v1alpha1.LabelUID: string(job.UID), v1alpha1.LabelTask: "worker", batch.TaskIndex: index}) {
				out = append(out, index)
			}
		}
		return out
	}
	check.Equal(t, "before", []string{"0", "1"}, protected())
	e.Clock.SetTime(t0.Add(time.Hour))
	e.settle()
	check.Equal(t, "after an hour", []string{"0"}, protected())
	e.changeNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable, n.Spec.Taints = false, nil })
	e.settle()
	check.Equal(t, "when the node takes pods again", []string{"0", "1"}, protected())
}

// A pod whose rank leaves a cordoned node may be evicted, and is deleted where nothing evicts it. A budget that an earlier version of the manager has left opens for it, too.
func TestTheBudgetOpens(t *testing.T) {
	e := runs(t, moving("worker"))
	earlier := e.budget()
	earlier.Spec.Selector.MatchExpressions = slices.DeleteFunc(earlier.Spec.Selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == v1alpha1.LabelEvictableSince
	})
	e.Must(e.API.Update(t.Context(), earlier))
	e.settle()
	e.changeNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	e.settle()
	selector, err := metav1.LabelSelectorAsSelector(e.budget().Spec.Selector)
	e.Must(err)
	check.Equal(t, "whether the rank that stays is protected", true, selector.Matches(labels.Set(e.pod("llm-1-worker-0").Labels)))
	check.Equal(t, "whether the one that leaves is", false, selector.Matches(labels.Set(e.pod("llm-1-worker-1").Labels)))
	e.Clock.SetTime(t0.Add(7 * time.Second))
	e.settle()
	err = e.API.Get(t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: "llm-1-worker-1"}, &corev1.Pod{})
	check.Equal(t, "whether it is gone once a drain would have asked", true, apierrors.IsNotFound(err))
}

// One of somebody else stays as it is, and what has to be done is said.
func TestABudgetOfSomebodyElse(t *testing.T) {
	theirs := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "llm-lockstep"}}
	e := newEnv(t, moving(), theirs)
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "is tried again after", minRetry, result.RequeueAfter)
	has(t, e.Told(), "Warning PodDisruptionBudgetRefused drains may evict ranks before they have moved, since PodDisruptionBudget llm-lockstep cannot be written: it is not this TrainingJob's: delete it")
	check.Equal(t, "owners", 0, len(e.budget().OwnerReferences))
	check.Equal(t, "whether the Volcano Job was made all the same", true, slices.ContainsFunc(e.Calls, func(c string) bool { return strings.Contains(c, "llm-1") }))
}

// One that an earlier TrainingJob of the name has left becomes the job's.
func TestABudgetOfAnEarlierJob(t *testing.T) {
	e := newEnv(t, moving())
	e.settle()
	e.Must(e.API.Delete(t.Context(), e.job()))
	e.Must(e.API.DeleteAllOf(t.Context(), &batch.Job{}, client.InNamespace(key.Namespace)))
	again := moving("worker")
	again.UID = "again"
	e.Must(e.API.Create(t.Context(), again))
	e.settle()
	check.Equal(t, "owner", again.UID, metav1.GetControllerOf(e.budget()).UID)
	check.Equal(t, "tasks", []string{"worker"}, e.budget().Spec.Selector.MatchExpressions[0].Values)
	check.Equal(t, "refusals", 0, len(withReason(e.Told(), "PodDisruptionBudgetRefused")))
}

// A refused budget is no error of the manager. An event reports it every ten minutes, and the manager tries again.
func TestABudgetThatIsRefused(t *testing.T) {
	budgets := schema.GroupResource{Group: policy.GroupName, Resource: "poddisruptionbudgets"}
	for name, answer := range map[string]error{
		"by a quota":   apierrors.NewForbidden(budgets, "llm-lockstep", errors.New("exceeded quota: compute")),
		"by a webhook": apierrors.NewBadRequest(`admission webhook "budgets" denied the request: exceeded quota: compute`),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, moving())
			refuse := true
			e.restart(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
				if _, is := obj.(*policy.PodDisruptionBudget); is && refuse {
					return answer
				}
				return c.Create(ctx, obj, options...)
			}})
			tries := func(n int) (told []string) {
				for range n {
					_, err := e.reconcile()
					e.Must(err)
				}
				return withReason(e.Told(), "PodDisruptionBudgetRefused")
			}
			told := tries(3)
			check.Equal(t, "events", 1, len(told))
			has(t, told, "exceeded quota: compute")
			e.Clock.SetTime(t0.Add(refusalRepeated))
			check.Equal(t, "events later", 1, len(tries(2)))
			refuse = false
			e.settle()
			check.Equal(t, "whether it is there", true, e.budget() != nil)
			check.Equal(t, "events then", 0, len(tries(1)))
		})
	}
}

// What is due sooner than the next try of what is refused is not late for it.
func TestARefusalDelaysNoStep(t *testing.T) {
	e := running(t)
	e.restart(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
		if _, is := obj.(*policy.PodDisruptionBudget); is {
			return apierrors.NewForbidden(schema.GroupResource{}, obj.GetName(), errors.New("exceeded quota"))
		}
		return c.Create(ctx, obj, options...)
	}})
	job := e.job()
	job.Spec.RestartPolicy = moving().Spec.RestartPolicy
	job.Spec.RestartPolicy.Rules[0].Steps[0].AfterSeconds = 10
	e.Must(e.API.Update(t.Context(), job))
	e.changeNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	var waits []time.Duration
	for range 6 {
		result, err := e.reconcile()
		e.Must(err)
		waits = append(waits, result.RequeueAfter)
	}
	check.Equal(t, "is looked at again after", []time.Duration{minRetry, 2 * minRetry, 4 * minRetry, 8 * minRetry, 10 * time.Second, 10 * time.Second}, waits)
	e.Clock.SetTime(t0.Add(10 * time.Second))
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "the step", v1alpha1.MigratePod, e.job().Status.Incidents[0].Steps[0].Action)
}

// A budget that could not be written is written by a later pass, and nothing else of the job waits for it.
func TestABudgetIsTriedAgain(t *testing.T) {
	e := newEnv(t, moving())
	failed := 0
	e.restart(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
		if _, is := obj.(*policy.PodDisruptionBudget); is && failed < 2 {
			failed++
			return errors.New("not now")
		}
		return c.Create(ctx, obj, options...)
	}})
	for range 2 {
		if _, err := e.reconcile(); err == nil {
			t.Error("the failure is not told")
		}
	}
	check.Equal(t, "attempt meanwhile", int32(1), e.job().Status.Attempt)
	e.settle()
	check.Equal(t, "whether it is there", true, e.budget() != nil)
}

// Of a node that NVSentinel has cordoned, the pods that its DrainRequests name are to leave, and no later ones of their names. Without DrainRequests, or where something else
// empties the node, all are.
func TestObservesWhichPodsLeaveACordonedNode(t *testing.T) {
	e := running(t)
	e.cordon("n0", nvsentinel.AnnotationCordoned)
	leaving := func() map[string]time.Time {
		o, err := e.r.observe(t.Context(), e.job())
		e.Must(err)
		return o.Nodes["n0"].Leaving
	}
	check.Equal(t, "without DrainRequests", map[string]time.Time(nil), leaving())

	e.r.DrainRequests = &nvsentinel.Requests{Reader: e.API}
	check.Equal(t, "without a request", map[string]time.Time{}, leaving())
	named := e.pod("llm-1-worker-0")
	named.CreationTimestamp = metav1.NewTime(t0)
	e.Must(e.API.Update(t.Context(), named))
	e.request("n0", named.Name, t0.Add(-time.Second))
	check.Equal(t, "by a request for an earlier pod of the name", map[string]time.Time{}, leaving())
	e.request("n0", named.Name, t0.Add(time.Second))
	check.Equal(t, "by a request", []string{string(named.UID)}, slices.Collect(maps.Keys(leaving())))
	e.request("n0", named.Name, t0.Add(time.Minute))
	check.Equal(t, "since the first one", true, t0.Add(time.Second).Equal(leaving()[string(named.UID)]))

	node := &corev1.Node{}
	e.Must(e.API.Get(t.Context(), types.NamespacedName{Name: "n0"}, node))
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
	e.Must(e.API.Update(t.Context(), node))
	check.Equal(t, "where Karpenter removes the node", map[string]time.Time(nil), leaving())
}

// A request wakes the jobs with pods on its node, and NVSentinel's annotation alone matters.
func TestARequestWakesTheJobsOnItsNode(t *testing.T) {
	e := running(t)
	check.Equal(t, "of the node", []reconcile.Request{{NamespacedName: key}}, e.r.jobsDrained(t.Context(), e.request("n0", "other", t0)))
	check.Equal(t, "of another node", 0, len(e.r.jobsDrained(t.Context(), e.request("n5", "other", t0))))
	before := fakeapi.Node("n0")
	before.Spec.Unschedulable = true
	after := before.DeepCopy()
	after.Annotations = map[string]string{nvsentinel.AnnotationCordoned: "True"}
	check.Equal(t, "matters", true, nodeMatters(before, after))
}

// cordon cordons a node, and has annotations say why.
func (e *env) cordon(name string, annotations ...string) {
	e.T.Helper()
	node := &corev1.Node{}
	e.Must(e.API.Get(e.T.Context(), types.NamespacedName{Name: name}, node))
	node.Spec.Unschedulable = true
	for _, a := range annotations {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, a, "True")
	}
	e.Must(e.API.Update(e.T.Context(), node))
}

// request creates a DrainRequest for a pod on a node.
func (e *env) request(node, pod string, created time.Time) client.Object {
	e.T.Helper()
	r := nvsentinel.New()
	r.SetNamespace("nvsentinel")
	r.SetName(node + "-" + strconv.FormatInt(created.Unix(), 10))
	r.SetCreationTimestamp(metav1.NewTime(created))
	r.Object["spec"] = map[string]any{"nodeName": node, "podsToDrain": map[string]any{key.Namespace: []any{pod}}}
	e.Must(e.API.Create(e.T.Context(), r))
	return r
}
