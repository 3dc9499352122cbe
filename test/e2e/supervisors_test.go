// Supervisors before a real API server: its tokens, its keys, its owner references, and the manager's rights.

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// supervision is a server with the rights of the manager.
type supervision struct {
	address      string
	hub          *supervisors.Hub
	certificates *supervisors.Certificates
}

// startSupervision runs the server until the test ends.
func (s *scenario) startSupervision() *supervision {
	s.t.Helper()
	kubeconfig, err := testCluster.KubeconfigFor(operator.User, "system:serviceaccounts", "system:serviceaccounts:"+operator.Namespace)
	s.must(err, "make the manager's kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	s.must(err, "read it")
	mgr, err := ctrl.NewManager(config, ctrlmanager.Options{
		Scheme: testCluster.Client().Scheme(), Cache: controllers.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	s.must(err, "create a manager")
	port, err := testCluster.Port()
	s.must(err, "find a port")
	v := &supervision{address: fmt.Sprintf("127.0.0.1:%d", port)}
	v.hub, v.certificates, err = supervisors.SetupWithManager(mgr, supervisors.Options{BindAddress: v.address, Address: v.address, Namespace: operator.Namespace})
	s.must(err, "set the server up")
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.t.Cleanup(func() { cancel(); s.must(<-ended, "run the server") })
	s.awaitAny("the server has an authority", func(ctxT) (bool, error) { return v.certificates.Bundle() != nil, nil })
	return v
}

// podToken is a token of a pod, as its kubelet would project it; for a pod without a name it is bound to none.
func (s *scenario) podToken(pod *corev1.Pod, audience string) string {
	s.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if pod.Name != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	s.must(testCluster.Client().SubResource("token").Create(s.ctx, account, request), "ask for a token of "+pod.Name)
	return request.Status.Token
}

type supervisorStream = grpc.BidiStreamingClient[wire.Report, wire.Order]

// supervise opens a stream. The server may begin to listen a moment after it has an authority.
func (s *scenario) supervise(v *supervision, token string) supervisorStream {
	s.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(v.certificates.Bundle())
	connection, err := grpc.NewClient(v.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})))
	s.must(err, "make a client")
	ctx, cancel := context.WithTimeout(s.ctx, awaitTimeout)
	s.t.Cleanup(func() { cancel(); connection.Close() })
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	stream, err := wire.NewSupervisionClient(connection).Supervise(ctx, grpc.WaitForReady(true))
	s.must(err, "open a stream")
	return stream
}

func TestSupervisorsOnARealAPIServer(t *testing.T) {
	s := newScenario(t, "supervised", 1, 2)
	v := s.startSupervision()
	s.run(s.trainingJob(2))
	pod, other := s.pod(0), s.pod(1)
	job := supervisors.JobOf(s.job)

	first := s.supervise(v, s.podToken(&pod, supervisors.Audience))
	s.must(first.Send(&wire.Report{Epoch: 2, State: wire.State_STATE_RUNNING}), "report")
	v.hub.Order(job, supervisors.Order{Epoch: 3}, nil)
	order, err := first.Recv()
	s.must(err, "receive an order")
	if order.GetEpoch() != 3 {
		t.Errorf("order %v, want epoch 3", order)
	}

	s.awaitAny("the report is there", func(ctxT) (bool, error) { return v.hub.Reports(job)[pod.UID].Epoch == 2, nil })

	_, err = s.supervise(v, s.podToken(&pod, "another")).Recv()
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "expected audience") {
		t.Errorf("a token for another audience: %v", err)
	}

	stranger := s.labelledPod(job)
	_, err = s.supervise(v, s.podToken(stranger, supervisors.Audience)).Recv()
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a pod that only has the labels of the job: %v", err)
	}

	token := s.podToken(&other, supervisors.Audience)
	s.must(testCluster.Client().Delete(s.ctx, &other, client.GracePeriodSeconds(0)), "delete a pod")
	s.awaitAny("its supervisor is refused, once the server's cache knows", func(ctxT) (bool, error) {
		order, err := s.supervise(v, token).Recv()
		return strings.Contains(order.GetRefused(), string(other.UID)), err
	})
}

// labelledPod is a pod with the labels of a job's, which it is not one of.
func (s *scenario) labelledPod(job supervisors.Job) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.pool.Name + "-stranger", Labels: map[string]string{
			v1alpha1.LabelJob: job.Name, v1alpha1.LabelUID: string(job.UID),
		}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"none": "none"},
			Containers:   []corev1.Container{{Name: "main", Image: "trainer"}},
		},
	}
	s.must(testCluster.Client().Create(s.ctx, pod), "create a pod")
	s.t.Cleanup(func() {
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, pod, client.GracePeriodSeconds(0))), "delete the pod")
	})
	return pod
}
