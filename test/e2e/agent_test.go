// From a fault that DCGM reports to the right pod moved: the real agent and the real go-dcgm,
// on a simulated libdcgm, beside a kubelet that says who holds which GPU.

package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

const (
	gpuOfVictim = "GPU-11111111-0000-0000-0000-000000000000"
	idleGPU     = "GPU-22222222-0000-0000-0000-000000000000"
)

// kubelet is a node's PodResources API, over its real protocol.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	pod corev1.Pod
}

func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{
		Namespace: k.pod.Namespace, Name: k.pod.Name, Containers: []*podresources.ContainerResources{{
			Name: "main", Devices: []*podresources.ContainerDevices{{ResourceName: gpuResource, DeviceIds: []string{gpuOfVictim}}},
		}},
	}}}, nil
}

// node is a GPU node, as its agent sees it.
type node struct {
	dcgm  *dcgmsim.State
	agent *cluster.Process
}

// startAgent runs the agent of a pod's node.
func (s *scenario) startAgent(pod corev1.Pod) node {
	s.t.Helper()
	dir := s.t.TempDir()
	library, err := dcgmsim.Build(dir)
	s.must(err, "build the simulated libdcgm")
	state, err := dcgmsim.NewState(filepath.Join(dir, "state"))
	s.must(err, "describe the node's GPUs")
	state.AddGPU(0, gpuOfVictim, 1)
	state.AddGPU(1, idleGPU, 1)

	socket := filepath.Join(dir, "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	s.must(err, "listen as the kubelet")
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, &kubelet{pod: pod})
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(server.Stop)

	binary := filepath.Join(dir, "health-agent")
	build := exec.CommandContext(s.ctx, "go", "build", "-o", binary, "../../cmd/health-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("build the agent: %v\n%s", err, out)
	}
	kubeconfig, err := testCluster.KubeconfigForPod(s.ctx, s.agentPod(pod.Spec.NodeName))
	s.must(err, "give the agent the rights of its pod")
	name := "agent-" + pod.Spec.NodeName
	agent, err := testCluster.Run(s.ctx, cluster.Command{
		Name: name, Path: binary, Env: []string{dcgmsim.StateEnv + "=" + filepath.Join(dir, "state"), "KUBECONFIG=" + kubeconfig},
		Args: []string{
			"--node-name=" + pod.Spec.NodeName, "--dcgm-library=" + library, "--kubelet=unix://" + socket,
			"--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0", "--interval=1s",
		},
	})
	s.must(err, "run the agent")
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the agent's log:\n%s", testCluster.Log(name))
		}
		_ = agent.Stop()
	})
	return node{state, agent}
}

// forgetHealth takes a NodeHealth away again, before the node that another test may name so.
func (s *scenario) forgetHealth(node string) {
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, health)), "delete the NodeHealth")
}

// published waits until the node's NodeHealth is as it should be.
func (s *scenario) published(node, what string, holds func(v1alpha1.NodeHealthStatus) bool) {
	s.t.Helper()
	s.awaitAny(what, func(ctx ctxT) (bool, error) {
		health := &v1alpha1.NodeHealth{}
		err := testCluster.Client().Get(ctx, client.ObjectKey{Name: node}, health)
		return err == nil && holds(health.Status), client.IgnoreNotFound(err)
	})
}

func TestFaultThatDCGMReportsMovesThePodThatHoldsTheGPU(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("needs a C compiler, for the simulated libdcgm and the agent")
	}
	s := newScenario(t, "dcgm", 1, 6)
	s.run(s.trainingJob(4))
	before, victim := s.pods(), s.pod(1)
	name := victim.Spec.NodeName
	gpus := s.startAgent(victim)
	t.Cleanup(func() { s.forgetHealth(name) })
	s.published(name, "the agent says that it works", func(h v1alpha1.NodeHealthStatus) bool {
		return len(h.Sources) == 1 && h.Sources[0].State == v1alpha1.HealthHealthy && len(h.Reports) == 0
	})

	gpus.dcgm.XID(1, 79, time.Now())
	s.published(name, "the fault of the idle GPU is known", func(h v1alpha1.NodeHealthStatus) bool {
		return len(h.Reports) > 0 && h.Reports[0].Unused
	})
	s.settled()
	s.untouched(before) // nobody holds that GPU

	gpus.dcgm.EngineDown()
	s.published(name, "the engine is missed", func(h v1alpha1.NodeHealthStatus) bool {
		return len(h.Sources) == 1 && h.Sources[0].State == v1alpha1.HealthUnknown && len(h.Reports) > 0
	})
	s.settled()
	s.untouched(before) // nobody can tell

	gpus.dcgm.EngineUp()
	gpus.dcgm.XID(0, 79, time.Now())
	s.await("the incident opens", func() bool { return len(s.job.Status.Incidents) == 1 })
	s.recovered(1)
	s.untouched(before, victim.Name)
	if inc := s.job.Status.Incidents[0]; inc.Trigger != v1alpha1.HealthFailed || inc.Cause.Signal != "XID79" {
		t.Errorf("trigger %s, signal %s", inc.Trigger, inc.Cause.Signal)
	}
	if s.pod(1).Spec.NodeName == name {
		t.Error("the pod is back on the node of its failed GPU")
	}

	s.must(gpus.agent.Kill(), "kill the agent")
	s.must(gpus.agent.Start(s.ctx), "start it again")
	s.settled()
	s.published(name, "a new agent heals nothing", func(h v1alpha1.NodeHealthStatus) bool { return len(h.Reports) >= 2 })
}
