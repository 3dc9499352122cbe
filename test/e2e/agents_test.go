// GPU nodes as their agents see them: the real agent and the real go-dcgm, on a simulated
// libdcgm, beside a kubelet that says who holds which GPU, with the rights of the agent's pod.

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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

// kubelet is a node's PodResources API, over its real protocol. A pod of ours on the node holds
// the first GPU.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	s    *scenario
	node string
}

func (k *kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	list := &corev1.PodList{}
	err := testCluster.Client().List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelJob: k.s.pool.Name})
	response := &podresources.ListPodResourcesResponse{}
	for _, p := range list.Items {
		if p.Spec.NodeName == k.node {
			response.PodResources = append(response.PodResources, &podresources.PodResources{
				Namespace: p.Namespace, Name: p.Name, Containers: []*podresources.ContainerResources{{
					Name: "main", Devices: []*podresources.ContainerDevices{{ResourceName: gpuResource, DeviceIds: []string{gpuOf(k.node, 0)}}},
				}},
			})
		}
	}
	return response, err
}

// gpuOf is the UUID of a node's GPU.
func gpuOf(node string, index int) string { return fmt.Sprintf("GPU-%s-%d", node, index) }

// gpuNode is a node with two GPUs, joined by one NVLink each, and its agent.
type gpuNode struct {
	name    string
	dcgm    *dcgmsim.State
	agent   *cluster.Process
	metrics string // address
}

// agentFiles are made once: the agent, the library that it loads, and a /proc of a machine that
// runs for long, so that no test depends on when this one was booted.
type agentFiles struct{ agent, library, procfs string }

var buildAgent = sync.OnceValues(func() (agentFiles, error) {
	dir, err := os.MkdirTemp(workDir, "agent-")
	if err != nil {
		return agentFiles{}, err
	}
	f := agentFiles{agent: filepath.Join(dir, "health-agent"), procfs: filepath.Join(dir, "proc")}
	if f.library, err = dcgmsim.Build(dir); err != nil {
		return f, err
	}
	build := exec.Command("go", "build", "-o", f.agent, "../../cmd/health-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return f, fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return f, errors.Join(
		os.MkdirAll(filepath.Join(f.procfs, "sys/kernel/random"), 0o700),
		os.WriteFile(filepath.Join(f.procfs, "sys/kernel/random/boot_id"), []byte("a-boot\n"), 0o600),
		os.WriteFile(filepath.Join(f.procfs, "stat"), fmt.Appendf(nil, "btime %d\n", time.Now().Add(-24*time.Hour).Unix()), 0o600),
	)
})

func needsAgent(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("needs a C compiler, for the simulated libdcgm and the agent")
	}
}

// startAgent runs the agent of a node, and waits until it says that it works.
func (s *scenario) startAgent(nodeName string) gpuNode {
	s.t.Helper()
	files, err := buildAgent()
	s.must(err, "build the agent")
	dir := s.t.TempDir()
	state, err := dcgmsim.NewState(filepath.Join(dir, "state"))
	s.must(err, "describe the node's GPUs")
	for i := range 2 {
		state.AddGPU(i, gpuOf(nodeName, i), 1)
		state.SetLink(i, 0, linkUp)
	}
	short, err := os.MkdirTemp("", "") // a socket's name has no room for that of the test
	s.must(err, "make a folder")
	s.t.Cleanup(func() { _ = os.RemoveAll(short) })
	socket := filepath.Join(short, "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	s.must(err, "listen as the kubelet")
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, &kubelet{s: s, node: nodeName})
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(server.Stop)

	kubeconfig, err := testCluster.KubeconfigForPod(s.ctx, s.agentPod(nodeName))
	s.must(err, "give the agent the rights of its pod")
	port, err := testCluster.Port()
	s.must(err, "find a port")
	metrics := fmt.Sprintf("127.0.0.1:%d", port)
	log := "agent-" + nodeName
	agent, err := testCluster.Run(s.ctx, cluster.Command{
		Name: log, Path: files.agent, Env: []string{dcgmsim.StateEnv + "=" + filepath.Join(dir, "state"), "KUBECONFIG=" + kubeconfig},
		Args: []string{
			"--node-name=" + nodeName, "--dcgm-library=" + files.library, "--kubelet=unix://" + socket, "--procfs=" + files.procfs,
			"--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=" + metrics, "--interval=1s",
		},
	})
	s.must(err, "run the agent")
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the agent's log:\n%s", testCluster.Log(log))
		}
		_ = agent.Stop()
		s.forgetHealth(nodeName)
	})
	s.published(nodeName, "the agent says that it works", func(h v1alpha1.NodeHealthStatus) bool {
		return len(h.Sources) == 1 && h.Sources[0].State == v1alpha1.HealthHealthy && h.Sources[0].Version != "" && len(h.Reports) == 0
	})
	return gpuNode{nodeName, state, agent, metrics}
}

// The states of an NVLink, as DCGM has them.
const linkDown, linkUp = 2, 3

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
