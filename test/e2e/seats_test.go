package e2e

import (
	"context"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// headerTaker notes by which FlowSchema the API server has taken the last request.
type headerTaker struct {
	http.RoundTripper
	schema string
}

func (h *headerTaker) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		h.schema = answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	}
	return answer, err
}

// The API server takes the manager's requests apart from those of tenants' accounts, and its leases apart from both.
func TestTheManagersRequestsHaveSeatsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := &scenario{t: t, ctx: t.Context()}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "manager.lockstep.dev"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nobody"}}
	for _, c := range []struct {
		name, user string
		object     client.Object
		schema     string
	}{
		{"a pod that the manager reads", operator.User, pod, "lockstep-manager"},
		{"the manager's lease", operator.User, lease, "lockstep-leader-election"},
		{"a pod that a tenant reads", "system:serviceaccount:tenant:default", pod, "service-accounts"},
	} {
		taker := &headerTaker{}
		config := testCluster.RESTConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: c.user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			taker.RoundTripper = next
			return taker
		})
		as, err := client.New(config, client.Options{Scheme: testCluster.Client().Scheme()})
		s.must(err, "make a client")
		s.awaitAny(c.name+" is taken by "+c.schema, func(ctx context.Context) (bool, error) {
			schema := &flowcontrolv1.FlowSchema{}
			if err := testCluster.Client().Get(ctx, client.ObjectKey{Name: c.schema}, schema); err != nil {
				return false, err
			}
			_ = as.Get(ctx, client.ObjectKeyFromObject(c.object), c.object) // refused or not: it was taken
			return taker.schema == string(schema.UID), nil
		})
	}
}
