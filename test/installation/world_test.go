package installation

import (
	"context"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

type ctxT = context.Context

// pollEvery is how often a test looks again.
const pollEvery = 200 * time.Millisecond

// world is the cluster, as tests change it.
type world struct{ t *testing.T }

func (w world) must(err error, what string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// create creates an object; undo deletes it and waits until it is gone.
func (w world) create(object client.Object) (undo func()) {
	w.t.Helper()
	object = object.DeepCopyObject().(client.Object)
	w.must(testCluster.Client().Create(w.t.Context(), object), "create "+object.GetName())
	return func() {
		w.t.Helper()
		w.must(testCluster.Client().Delete(w.t.Context(), object), "delete "+object.GetName())
		w.await(object.GetName()+" is gone", func(ctx ctxT) (bool, error) {
			err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(object), object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
}

// update changes an object; undo makes it what it was.
func update[T client.Object](w world, named T, change func(T)) (undo func()) {
	w.t.Helper()
	key := client.ObjectKeyFromObject(named)
	write := func(desired func(now T) T) {
		w.t.Helper()
		w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now := named.DeepCopyObject().(T)
			if err := testCluster.Client().Get(w.t.Context(), key, now); err != nil {
				return err
			}
			return testCluster.Client().Update(w.t.Context(), desired(now))
		}), "change "+named.GetName())
	}
	var before T
	write(func(now T) T {
		before = now.DeepCopyObject().(T)
		change(now)
		return now
	})
	return func() {
		w.t.Helper()
		write(func(now T) T {
			before.SetResourceVersion(now.GetResourceVersion())
			return before
		})
	}
}

// setMembers gives a HyperNode other nodes.
func (w world) setMembers(name string, nodes []string, more ...string) (undo func()) {
	w.t.Helper()
	return update(w, &topology.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(h *topology.HyperNode) {
		h.Spec.Members = nil
		for _, node := range append(nodes, more...) {
			h.Spec.Members = append(h.Spec.Members, member(topology.MemberTypeNode, node))
		}
	})
}

// says has the health agent of a node say something; undo has it say that all is well.
func (w world) says(node string, source v1alpha1.HealthSource) (undo func()) {
	w.t.Helper()
	w.must(say(w.t.Context(), node, source), "report")
	return func() {
		w.t.Helper()
		w.must(say(w.t.Context(), node, v1alpha1.HealthSource{State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.Now())}), "report")
	}
}

// closeQueue has Volcano's controller see a queue as closed.
func (w world) closeQueue(name string) {
	w.t.Helper()
	w.await("the queue is closed", func(ctx ctxT) (bool, error) {
		q := &scheduling.Queue{}
		if err := testCluster.Client().Get(ctx, client.ObjectKey{Name: name}, q); err != nil {
			return false, err
		}
		if q.Status.State == scheduling.QueueStateClosed {
			return true, nil
		}
		q.Status.State = scheduling.QueueStateClosed
		if err := testCluster.Client().Status().Update(ctx, q); !apierrors.IsConflict(err) { // Volcano writes it, too
			return false, err
		}
		return false, nil
	})
}

func (w world) await(what string, condition wait.ConditionWithContextFunc) {
	w.t.Helper()
	if err := wait.PollUntilContextTimeout(w.t.Context(), pollEvery, awaitTimeout, true, condition); err != nil {
		w.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// awaitRights waits until the API server knows of a user's new binding to a role.
func (w world) awaitRights(user, role string) {
	w.t.Helper()
	given := &rbacv1.ClusterRole{}
	w.must(testCluster.Client().Get(w.t.Context(), client.ObjectKey{Name: role}, given), "get the role")
	first := given.Rules[0]
	w.await("user "+user+" has its rights", func(ctx ctxT) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Group: first.APIGroups[0], Resource: first.Resources[0], Verb: first.Verbs[0],
			},
		}}
		err := testCluster.Client().Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// userWith makes a user with a ClusterRole, or with none, and returns its kubeconfig.
func (w world) userWith(name, role string) string {
	w.t.Helper()
	kubeconfig, err := testCluster.KubeconfigFor(name)
	w.must(err, "make a user")
	if role != "" {
		undo := w.create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
		_ = undo // the cluster ends with the tests
		w.awaitRights(name, role)
	}
	return kubeconfig
}
