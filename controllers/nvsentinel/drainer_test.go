package nvsentinel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// protected is the answer of a budget, and twice that where there are two.
var (
	protected = apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	twice     = apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
)

var key = ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "nvsentinel", Name: "n1-event"}}

// cluster is an API server that has a request for node n1, and pods.
type cluster struct {
	*testing.T
	api     client.Client
	drainer *Drainer
	refused map[string]error // by the pod's name
	evicted []string         // by name and UID
}

func newCluster(t *testing.T, pods ...*corev1.Pod) *cluster {
	c := &cluster{T: t, refused: map[string]error{}}
	request := New()
	request.SetNamespace(key.Namespace)
	request.SetName(key.Name)
	names := []any{}
	objects := []client.Object{request}
	for _, p := range pods {
		objects = append(objects, p)
		names = append(names, p.Name)
	}
	request.Object["spec"] = map[string]any{"nodeName": "n1", "podsToDrain": map[string]any{"research": names}, "recommendedAction": "COMPONENT_RESET"}
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	s.AddKnownTypeWithName(DrainRequests, New())
	c.api = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(request).WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: c.evict}).Build()
	c.drainer = &Drainer{Client: c.api, Live: c.api, Clock: clock.RealClock{}}
	return c
}

func (c *cluster) evict(ctx context.Context, api client.Client, _ string, obj, sub client.Object, _ ...client.SubResourceCreateOption) error {
	if err := c.refused[obj.GetName()]; err != nil {
		return err
	}
	c.evicted = append(c.evicted, obj.GetName()+" "+string(*sub.(*policy.Eviction).DeleteOptions.Preconditions.UID))
	return api.Delete(ctx, obj)
}

// reconciles reconciles the request, and returns its condition and whether it is looked at again.
func (c *cluster) reconciles() (metav1.Condition, bool) {
	c.Helper()
	result, err := c.drainer.Reconcile(c.Context(), key)
	if err != nil {
		c.Fatal(err)
	}
	u, r := New(), &drainRequest{}
	if err := c.api.Get(c.Context(), key.NamespacedName, u); err != nil {
		c.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil {
		c.Fatal(err)
	}
	condition := meta.FindStatusCondition(r.Status.Conditions, ConditionDrainComplete)
	if condition == nil {
		c.Fatal("no condition")
	}
	return *condition, result.RequeueAfter > 0
}

func podOn(node, name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: name, UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// A request is complete once no pod of it is on the node. A rank that may not be evicted yet is asked for again, and the next pod of its name, on another node, is not.
func TestADrainRequestWaitsForRanks(t *testing.T) {
	c := newCluster(t, podOn("n1", "llm-1-worker-3", "1"), podOn("n1", "notebook", "2"), podOn("n2", "llm-1-worker-4", "3"))
	c.refused["llm-1-worker-3"] = protected
	condition, again := c.reconciles()
	check.Equal(t, "evicted", []string{"notebook 2"}, c.evicted)
	check.Equal(t, "status", metav1.ConditionFalse, condition.Status)
	check.Equal(t, "message", "evicts, or waits for the ranks to move: research/llm-1-worker-3, research/notebook", condition.Message)
	check.Equal(t, "looks again", true, again)

	condition, _ = c.reconciles()
	check.Equal(t, "message", "evicts, or waits for the ranks to move: research/llm-1-worker-3", condition.Message)

	moved := podOn("n1", "llm-1-worker-3", "1")
	if err := c.api.Delete(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if err := c.api.Create(t.Context(), podOn("n3", "llm-1-worker-3", "9")); err != nil {
		t.Fatal(err)
	}
	c.refused = nil
	condition, again = c.reconciles()
	check.Equal(t, "status", metav1.ConditionTrue, condition.Status)
	check.Equal(t, "looks again", false, again)
	check.Equal(t, "evicted", []string{"notebook 2"}, c.evicted)
}

// What is wrong with one pod is said, and keeps no other one from being evicted.
func TestADrainRequestSaysWhatIsWrong(t *testing.T) {
	c := newCluster(t, podOn("n1", "a", "1"), podOn("n1", "b", "2"))
	c.refused["a"] = twice
	condition, again := c.reconciles()
	check.Equal(t, "evicted", []string{"b 2"}, c.evicted)
	check.Equal(t, "reason", "EvictionFailed", condition.Reason)
	if !strings.Contains(condition.Message, "evict pod research/a: ") || !strings.Contains(condition.Message, "more than one PodDisruptionBudget") {
		t.Error(condition.Message)
	}
	check.Equal(t, "looks again", true, again)
}

// A request that is complete evicts nothing more.
func TestADrainRequestThatIsComplete(t *testing.T) {
	c := newCluster(t, podOn("n2", "a", "1"))
	condition, _ := c.reconciles()
	check.Equal(t, "status", metav1.ConditionTrue, condition.Status)
	if err := errors.Join(c.api.Delete(t.Context(), podOn("n2", "a", "1")), c.api.Create(t.Context(), podOn("n1", "a", "2"))); err != nil {
		t.Fatal(err)
	}
	c.reconciles()
	check.Equal(t, "evicted", 0, len(c.evicted))
}

// The manager has time to protect the ranks that a request names: they are asked for a moment later than other pods.
func TestADrainRequestLetsRanksBeProtected(t *testing.T) {
	rank := podOn("n1", "llm-1-worker-3", "1")
	rank.Labels = map[string]string{v1alpha1.LabelJob: "llm"}
	c := newCluster(t, rank, podOn("n1", "notebook", "2"))
	now := clocktesting.NewFakePassiveClock(time.Time{}.Add(protectsWithin - 1)) // the request was created at the beginning of time
	c.drainer.Clock = now
	_, again := c.reconciles()
	check.Equal(t, "evicted", []string{"notebook 2"}, c.evicted)
	check.Equal(t, "looks again", true, again)
	now.SetTime(time.Time{}.Add(protectsWithin))
	c.reconciles()
	check.Equal(t, "evicted later", []string{"notebook 2", "llm-1-worker-3 1"}, c.evicted)
}

// A request without pods is complete.
func TestAnEmptyDrainRequest(t *testing.T) {
	condition, _ := newCluster(t).reconciles()
	check.Equal(t, "status", metav1.ConditionTrue, condition.Status)
}

// A pod is waited for until it has left the node, or is stuck there. A later pod of its name is another one.
func TestWhatHasLeft(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := asked.Add(time.Hour)
	r := &drainRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(asked)}}
	r.Spec.NodeName = "n1"
	ends := func(ago time.Duration, ready corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp = new(metav1.NewTime(now.Add(-ago)))
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		left   bool
	}{
		"it runs":                          {func(*corev1.Pod) {}, false},
		"on another node":                  {func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, true},
		"it has ended":                     {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"it was made when it was asked":    {func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(asked) }, false},
		"it was made later":                {func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(asked.Add(time.Second)) }, true},
		"it ends":                          {ends(4*time.Minute, corev1.ConditionFalse), false},
		"it is stuck":                      {ends(6*time.Minute, corev1.ConditionUnknown), true},
		"it does not end, and still works": {ends(6*time.Minute, corev1.ConditionTrue), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOn("n1", "a", "1")
			tc.change(pod)
			check.Equal(t, "has left", tc.left, hasLeft(pod, r, now))
		})
	}
}

// A report that does not arrive is made again, also where the API server knows no status of requests.
func TestAReportThatDoesNotArrive(t *testing.T) {
	c := newCluster(t)
	c.drainer.Client = interceptor.NewClient(c.api.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "drainrequests"}, key.Name)
		},
	})
	if _, err := c.drainer.Reconcile(t.Context(), key); err == nil {
		t.Error("no error")
	}
}
