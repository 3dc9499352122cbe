// What `make install` applies: all of it is taken by an API server, and the health agents of
// these tests have the rights that it gives them, and no others.

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

const (
	agentName      = "lockstep-health-agent"
	agentNamespace = "lockstep-health"
)

func apply(ctx context.Context, object *unstructured.Unstructured, opts ...client.ApplyOption) error {
	opts = append(opts, client.FieldOwner("kubectl"), client.ForceOwnership)
	if err := testCluster.Client().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), opts...); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// installAgent applies the namespaces, and the agent's account, role and policy.
func installAgent(ctx context.Context) error {
	objects, err := cluster.Kustomize(ctx, "../../config/default")
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetKind() == "Namespace" || o.GetName() == agentName && o.GetKind() != "DaemonSet" {
			if err := apply(ctx, o); err != nil {
				return err
			}
		}
	}
	// The token names no node.
	return policyInForce(ctx, agentUser, &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, "needs a token that is bound to its pod")
}

// managerPolicyInForce waits until the manager may create no Volcano Job but those of TrainingJobs.
func managerPolicyInForce(ctx context.Context) error {
	foreign := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foreign"}}
	return policyInForce(ctx, operator.User, foreign, "may change and delete what belongs to TrainingJobs")
}

// policyInForce waits until the API server enforces a policy, which it does a second or so after the policy was created: until it refuses
// a user an object for a reason of the policy.
func policyInForce(ctx context.Context, user string, forbidden client.Object, why string) error {
	config := testCluster.RESTConfig()
	config.Impersonate.UserName = user
	as, err := client.New(config, client.Options{Scheme: testCluster.Client().Scheme()})
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, awaitTimeout, true, func(ctx context.Context) (bool, error) {
		last = as.Create(ctx, forbidden.DeepCopyObject().(client.Object), client.DryRunAll)
		return last != nil && strings.Contains(last.Error(), why), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the policy for %s is in force: %w; the last answer was: %w", user, err, last)
	}
	return nil
}

// agentPod makes a pod of the health agent on a node, as its DaemonSet would.
func (s *scenario) agentPod(node string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "agent-" + node},
		Spec: corev1.PodSpec{
			ServiceAccountName: agentName, NodeName: node,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "agent", Image: "lockstep-health-agent:dev"}},
		},
	}
	s.must(testCluster.Client().Create(s.ctx, pod), "create the agent's pod")
	s.t.Cleanup(func() {
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, pod, client.GracePeriodSeconds(0))), "delete the agent's pod")
	})
	return pod
}

// Everything that can be installed is valid, also what these tests do not run.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"default", "alerts", "supervisors", "samples/dcgm-gpu-operator", "samples/dcgm-unix-socket", "samples/dcgm-node-library"} {
		objects, err := cluster.Kustomize(t.Context(), "../../config/"+config)
		if err != nil {
			t.Fatal(err)
		}
		var images []string
		for _, o := range objects {
			if err := apply(t.Context(), o, client.DryRunAll); err != nil {
				t.Errorf("%s: %v", config, err)
			}
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			for _, c := range containers {
				images = append(images, fmt.Sprint(c.(map[string]any)["image"]))
			}
		}
		slices.Sort(images)
		if diff := cmp.Diff([]string{"lockstep-health-agent:dev", "lockstep-manager:dev"}, images); diff != "" {
			t.Errorf("%s: the images that `make install` replaces (-want +got):\n%s", config, diff)
		}
	}
}

// The policies compile against the types that they are about, and do not only pass as text.
func TestPoliciesHaveNoWarnings(t *testing.T) {
	t.Parallel()
	s := &scenario{t: t, ctx: t.Context()}
	for _, name := range []string{agentName, "lockstep-manager"} {
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("admissionregistration.k8s.io/v1")
		policy.SetKind("ValidatingAdmissionPolicy")
		s.awaitAny("the policy has been looked at", func(ctx context.Context) (bool, error) {
			err := testCluster.Client().Get(ctx, types.NamespacedName{Name: name}, policy)
			observed, found, _ := unstructured.NestedInt64(policy.Object, "status", "observedGeneration")
			return found && observed == policy.GetGeneration(), err
		})
		if warnings, found, _ := unstructured.NestedSlice(policy.Object, "status", "typeChecking", "expressionWarnings"); found {
			t.Errorf("%s: warnings: %v", name, warnings)
		}
	}
}
