package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet is a kubelet's PodResources API, over its real protocol.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	answer *podresources.ListPodResourcesResponse
}

func (k *kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("asked without a time limit: the agent would wait for a kubelet that never answers")
	}
	return k.answer, nil
}

// shortDir is a folder whose name leaves room for a socket's: t.TempDir has the test's in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve starts a kubelet on a socket of its own, and returns its address.
func serve(t *testing.T, answer *podresources.ListPodResourcesResponse) string {
	t.Helper()
	socket := filepath.Join(shortDir(t), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, &kubelet{answer: answer})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + socket
}

func holds(namespace, name string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: namespace, Name: name, Containers: []*podresources.ContainerResources{
		{Name: "sidecar"},
		{Name: "train", Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: ids}}},
	}}
}

func TestHolders(t *testing.T) {
	address := serve(t, &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		holds("research", "llm-1-worker-0", "GPU-a", "GPU-b"),
		holds("research", "llm-1-worker-1", "GPU-c"),
		holds("debug", "shared", "GPU-c", "GPU-c"),
	}})
	k, err := DialKubelet(address)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	got, err := k.Holders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"GPU-a": {"research/llm-1-worker-0"},
		"GPU-b": {"research/llm-1-worker-0"},
		"GPU-c": {"debug/shared", "research/llm-1-worker-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

func TestHoldersOfAKubeletThatIsNotThere(t *testing.T) {
	k, err := DialKubelet("unix://" + filepath.Join(t.TempDir(), "none.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Holders(t.Context()); err == nil {
		t.Error("no error")
	}
}
