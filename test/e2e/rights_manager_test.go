// What the manager may write beyond what RBAC says: the policy that is shipped with it is in force in all of these tests.

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// asManager is a client with the rights of the manager.
func (s *scenario) asManager() client.Client {
	s.t.Helper()
	kubeconfig, err := operator.Kubeconfig(s.ctx, testCluster)
	s.must(err, "make the manager's kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	s.must(err, "read the manager's kubeconfig")
	c, err := client.New(config, client.Options{Scheme: testCluster.Client().Scheme()})
	s.must(err, "make the manager's client")
	return c
}

func TestTheManagerWritesWhatIsLockstepsOnly(t *testing.T) {
	s := newScenario(t, "manager-rights", 1, 2)
	c := s.asManager()
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: s.pool.Name + "-foreign"},
		Spec:       corev1.PodSpec{NodeName: s.pool.Node(0, 0), Containers: []corev1.Container{{Name: "main", Image: "other"}}},
	}
	s.must(testCluster.Client().Create(s.ctx, foreign), "create a pod that is not Lockstep's")
	t.Cleanup(func() {
		s.must(testCluster.Client().Delete(context.WithoutCancel(s.ctx), foreign, client.GracePeriodSeconds(0)), "delete it")
	})
	node := &corev1.Node{}
	s.must(c.Get(s.ctx, client.ObjectKey{Name: s.pool.Node(0, 1)}, node), "get a node")
	changed := func(change func(*corev1.Node)) *corev1.Node {
		n := node.DeepCopy()
		change(n)
		return n
	}
	patch := func(change func(*corev1.Node)) error {
		return c.Patch(s.ctx, changed(change), client.MergeFrom(node), client.DryRunAll)
	}
	patchStatus := func(change func(*corev1.Node)) error {
		return c.Status().Patch(s.ctx, changed(change), client.StrategicMergeFrom(node), client.DryRunAll)
	}
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	condition := func(kind corev1.NodeConditionType) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse})
		}
	}
	s.must(patch(taint(v1alpha1.TaintQuarantine)), "taint a node with Lockstep's quarantine")
	s.must(patchStatus(condition(v1alpha1.ConditionHealthy)), "set Lockstep's condition")

	of := "may change and delete what belongs to TrainingJobs"
	for what, tc := range map[string]struct {
		err error
		why string
	}{
		"delete another's pod": {c.Delete(s.ctx, foreign, client.DryRunAll), of},
		"change another's pod": {c.Patch(s.ctx, foreign.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll), of},
		"create another's Volcano Job": {c.Create(s.ctx, &batch.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: s.pool.Name + "-foreign"},
		}, client.DryRunAll), of},
		"another's taint":     {patch(taint("example.com/mine")), "may change taints of lockstep.dev and hold.lockstep.dev, and no others"},
		"a label":             {patch(func(n *corev1.Node) { n.Labels["a"] = "b" }), "may not change labels"},
		"a cordon":            {patch(func(n *corev1.Node) { n.Spec.Unschedulable = true }), "may change taints, and nothing else"},
		"another's condition": {patchStatus(condition("Ready-ish")), "may change conditions of lockstep.dev, and no others"},
		"the node's capacity": {patchStatus(func(n *corev1.Node) { delete(n.Status.Capacity, gpuResource) }), "may change conditions, and nothing else"},
	} {
		if !apierrors.IsForbidden(tc.err) || !strings.Contains(tc.err.Error(), tc.why) {
			t.Errorf("%s: no %q in: %v", what, tc.why, tc.err)
		}
	}
}

// What runs pods for the manager is controlled by a TrainingJob, and is not where the control plane or the manager itself runs. Its
// pods keep their containers, and its one Secret is no token.
func TestTheManagerRunsTrainingJobsOnly(t *testing.T) {
	s := newScenario(t, "manager-runs", 1, 1)
	c := s.asManager()
	s.run(s.trainingJob(1))
	v, pod := &batch.Job{}, s.pod(0)
	s.must(c.Get(s.ctx, s.volcanoJobKey(), v), "get the Volcano Job")
	create := func(change func(*batch.Job)) error {
		another := &batch.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name + "-x", Labels: v.Labels, OwnerReferences: slices.Clone(v.OwnerReferences)},
			Spec:       v.Spec,
		}
		change(another)
		return c.Create(s.ctx, another, client.DryRunAll)
	}
	patch := func(o client.Object, kind types.PatchType, body string) error {
		return c.Patch(s.ctx, o, client.RawPatch(kind, []byte(body)), client.DryRunAll)
	}
	secret := func(name string, kind corev1.SecretType) error {
		return c.Create(s.ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "lockstep-manager"}},
			Type:       kind, Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
		}, client.DryRunAll)
	}
	s.must(create(func(*batch.Job) {}), "create a Volcano Job of the TrainingJob")
	s.must(patch(pod.DeepCopy(), types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`), "annotate its pod")
	s.must(client.IgnoreAlreadyExists(secret("lockstep-supervisor-ca", corev1.SecretTypeTLS)), "create the Secret of the authority") // other tests make it

	controlled, elsewhere := "has to be controlled by the TrainingJob", "may create no Volcano Jobs in its own namespace"
	authority := "may write no Secrets but lockstep-supervisor-ca"
	for what, tc := range map[string]struct {
		err error
		why string
	}{
		"a Volcano Job of nobody":            {create(func(v *batch.Job) { v.OwnerReferences = nil }), controlled},
		"one of another kind":                {create(func(v *batch.Job) { v.OwnerReferences[0].Kind = "ConfigMap" }), controlled},
		"one of another group":               {create(func(v *batch.Job) { v.OwnerReferences[0].APIVersion = "example.com/v1" }), controlled},
		"one that is owned, not controlled":  {create(func(v *batch.Job) { v.OwnerReferences[0].Controller = nil }), controlled},
		"one of another TrainingJob":         {create(func(v *batch.Job) { v.OwnerReferences[0].UID = "another" }), controlled},
		"one that is taken from its owner":   {patch(v.DeepCopy(), types.MergePatchType, `{"metadata":{"ownerReferences":null}}`), controlled},
		"one in kube-system":                 {create(func(v *batch.Job) { v.Namespace = metav1.NamespaceSystem }), elsewhere},
		"one in the manager's own namespace": {create(func(v *batch.Job) { v.Namespace = operator.Namespace }), elsewhere},
		"another image of a pod":             {patch(pod.DeepCopy(), types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"main","image":"other"}]}}`), "may not change containers of pods"},
		"a token of the manager's account":   {secret("lockstep-supervisor-ca", corev1.SecretTypeServiceAccountToken), authority},
		"another Secret":                     {secret("other", corev1.SecretTypeTLS), authority},
		"a Secret of the authority, untyped": {secret("lockstep-supervisor-ca", corev1.SecretTypeOpaque), authority},
	} {
		if !apierrors.IsForbidden(tc.err) || !strings.Contains(tc.err.Error(), tc.why) {
			t.Errorf("%s: no %q in: %v", what, tc.why, tc.err)
		}
	}
}
