// What the tests do and see.

package kueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// queue is a LocalQueue of a ClusterQueue of its own, with a quota of so many GPUs of flavors: %[1]s is the name, %[2]s the flavors' quotas.
const queue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:%[2]s
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[1]s, namespace: default}
spec: {clusterQueue: %[1]s}
`

// A quota is one of GPUs of a flavor.
type quota struct {
	flavor string
	gpus   int
}

func makeQueue(t *testing.T, c *cluster.Cluster, name string, quotas ...quota) {
	t.Helper()
	var flavors strings.Builder
	for _, q := range quotas {
		fmt.Fprintf(&flavors, "\n    - name: %s\n      resources: [{name: nvidia.com/gpu, nominalQuota: %d}]", q.flavor, q.gpus)
	}
	apply(t, c, fmt.Sprintf(queue, name, flavors.String()))
}

// apply creates objects, unless they are there.
func apply(t *testing.T, c *cluster.Cluster, documents string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(documents), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		must(t, client.IgnoreAlreadyExists(c.Client().Create(t.Context(), o)))
	}
}

// A flavor of each pool of nodes, and one of none.
func makeFlavors(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	apply(t, c, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h200}
spec: {nodeLabels: {pool: h200}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec:
  nodeLabels: {pool: h100}
  tolerations: [{key: reserved, operator: Exists, effect: NoSchedule}]
`)
}

// gang is a job whose ranks take a whole node each.
func gang(name, queue string, replicas int32) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{kueue.LabelQueue: queue}},
		Spec: v1alpha1.TrainingJobSpec{
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                 corev1.RestartPolicyOnFailure,
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: "main", Image: "trainer",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}},
				}},
			}}}},
		},
	}
}

func create(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob) {
	t.Helper()
	must(t, c.Client().Create(t.Context(), job))
	t.Cleanup(func() { remove(t, c, job) })
}

// remove deletes a job, of which nothing stays: no pod, no Workload.
func remove(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	must(t, client.IgnoreNotFound(c.Client().Delete(ctx, job)))
	awaitIn(ctx, t, c, "nothing of "+job.Name+" is left", func() bool {
		all := &kueue.WorkloadList{}
		must(t, c.Client().List(ctx, all, client.InNamespace(job.Namespace), client.MatchingLabels{kueue.LabelJobUID: string(job.UID)}))
		list := &corev1.PodList{}
		must(t, c.Client().List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: job.Name}))
		return len(all.Items) == 0 && len(list.Items) == 0
	})
}

func read(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob) *v1alpha1.TrainingJob {
	t.Helper()
	out := &v1alpha1.TrainingJob{}
	must(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(job), out))
	return out
}

func awaitState(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob, state v1alpha1.State) {
	t.Helper()
	await(t, c, fmt.Sprintf("%s is %s", job.Name, state), func() bool { return read(t, c, job).Status.State == state })
}

// awaitReason waits until a job is suspended, and says why.
func awaitReason(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob, message string) {
	t.Helper()
	await(t, c, job.Name+" waits, and says: "+message, func() bool {
		is := read(t, c, job).Status
		condition := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionSuspended)
		return is.State == v1alpha1.StateSuspended && condition != nil && condition.Reason == v1alpha1.ReasonNotAdmitted && strings.Contains(is.Message, message)
	})
}

// workload is that of a job; nil where there is none.
func workload(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob) *kueue.Workload {
	t.Helper()
	w := &kueue.Workload{}
	err := c.Client().Get(t.Context(), types.NamespacedName{Namespace: job.Namespace, Name: kueue.NameFor(job)}, w)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return w
}

func is(w *kueue.Workload, condition string) bool {
	return w != nil && meta.IsStatusConditionTrue(w.Status.Conditions, condition)
}

func reasonOf(w *kueue.Workload, condition string) string {
	if w != nil {
		if is := meta.FindStatusCondition(w.Status.Conditions, condition); is != nil {
			return is.Reason
		}
	}
	return ""
}

// pods are those of a job, by name.
func pods(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	must(t, c.Client().List(t.Context(), list, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: job.Name}))
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func nodesOf(t *testing.T, c *cluster.Cluster, job *v1alpha1.TrainingJob) (out []string) {
	t.Helper()
	for _, p := range pods(t, c, job) {
		out = append(out, p.Spec.NodeName)
	}
	return out
}

func patch(t *testing.T, c *cluster.Cluster, o client.Object, merge string) {
	t.Helper()
	must(t, c.Client().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(merge))))
}

func await(t *testing.T, c *cluster.Cluster, what string, holds func() bool) {
	t.Helper()
	awaitIn(t.Context(), t, c, what, holds)
}

func awaitIn(ctx context.Context, t *testing.T, c *cluster.Cluster, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, awaitTimeout, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v\nthe manager:\n%s\nKueue:\n%s", what, err, c.Log(operator.Name), c.Log("kueue"))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tasks are those of a job with so many replicas, as JSON.
func tasks(t *testing.T, job *v1alpha1.TrainingJob, replicas int32) string {
	t.Helper()
	now := read(t, home, job)
	now.Spec.Tasks[0].Replicas = replicas
	raw, err := json.Marshal(now.Spec.Tasks)
	must(t, err)
	return string(raw)
}
