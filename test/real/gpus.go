package real

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// AgentImage is the health agent's, with a simulated DCGM in place of NVIDIA's.
const AgentImage = "lockstep-health-agent:dev"

const dcgmFolder = "dcgm"

// GPU is the UUID of a node's GPU, as the device plugin of real nodes names it.
func GPU(node string, index int) string { return fmt.Sprintf("GPU-%s-%d", node, index) }

// GPUOf is the index of a GPU of its node that a pod has, as the environment of its container says that the kubelet gave it.
func (g *Ground) GPUOf(ctx context.Context, pod corev1.Pod) (index int, err error) {
	environment, err := g.ContainerEnvironment(ctx, client.ObjectKeyFromObject(&pod), "")
	if err != nil {
		return 0, err
	}
	given := strings.Split(environment["NVIDIA_VISIBLE_DEVICES"], ",")
	for index := range g.Nodes.GPUsPerNode {
		if slices.Contains(given, GPU(pod.Spec.NodeName, index)) {
			return index, nil
		}
	}
	return 0, fmt.Errorf("pod %s has GPUs %v, none of its node", pod.Name, given)
}

// AwaitGPUs waits until nodes have their GPUs back: a kubelet learns of them after it is ready.
func (g *Ground) AwaitGPUs(ctx context.Context, nodes ...string) error {
	return await(ctx, fmt.Sprintf("nodes %v have their GPUs", nodes), func(ctx context.Context) (bool, error) {
		for _, name := range nodes {
			node := &corev1.Node{}
			if err := g.Client().Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
				return false, err
			}
			if gpus := node.Status.Allocatable[gpuResource]; gpus.Value() < int64(g.Nodes.GPUsPerNode) {
				return false, nil
			}
		}
		return true, nil
	})
}

// InstallAgent installs the health agent as it is shipped, on every node. It returns what plays DCGM
// on each, and a function that takes the agent and what it has reported away again.
func (g *Ground) InstallAgent(ctx context.Context) (states map[string]*dcgmsim.State, remove func(context.Context) error, err error) {
	if states, err = g.SimulateGPUs(); err != nil {
		return nil, nil, err
	}
	if err := g.buildAgentImage(ctx); err != nil {
		return nil, nil, err
	}
	created, err := g.install(ctx, "agent", func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if object.GetKind() == "DaemonSet" {
			return withSimulator(object)
		}
		return object, nil
	})
	return states, func(ctx context.Context) error { return g.removeAgent(ctx, created) }, err
}

// removeAgent deletes the agent, then its reports, and waits until no node is kept from jobs for them.
func (g *Ground) removeAgent(ctx context.Context, objects []*unstructured.Unstructured) error {
	if err := g.uninstall(ctx, objects); err != nil {
		return err
	}
	if err := g.Client().DeleteAllOf(ctx, &v1alpha1.NodeHealth{}); err != nil {
		return fmt.Errorf("deleting the reports: %w", err)
	}
	return await(ctx, "no node is tainted", func(ctx context.Context) (bool, error) {
		nodes := &corev1.NodeList{}
		if err := g.Client().List(ctx, nodes, client.MatchingLabels(g.Nodes.NodeSelector())); err != nil {
			return false, err
		}
		return !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return len(n.Spec.Taints) > 0 }), nil
	})
}

// DCGMFolder is where real nodes find what plays DCGM: a file for each node, by its name.
var DCGMFolder = filepath.Join(cluster.SharedPath, dcgmFolder)

// SimulateGPUs returns what plays DCGM on each node: its GPUs and a link of each, all well.
func (g *Ground) SimulateGPUs() (map[string]*dcgmsim.State, error) {
	folder := filepath.Join(g.SharedFolder(), dcgmFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	states := map[string]*dcgmsim.State{}
	for _, node := range g.Nodes.NodeNames() {
		state, err := dcgmsim.NewState(filepath.Join(folder, node))
		if err != nil {
			return nil, err
		}
		for gpu := range g.Nodes.GPUsPerNode {
			state.AddGPU(gpu, GPU(node, gpu), dcgmsim.StatusOK)
			state.SetLink(gpu, 0, dcgmsim.LinkUp)
		}
		states[node] = state
	}
	return states, nil
}

// buildAgentImage builds the agent with cgo, and puts it into an image with the libraries of this
// host that it needs and with the simulator as libdcgm.so.4.
func (g *Ground) buildAgentImage(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	library, err := dcgmsim.Build(g.dir)
	if err != nil {
		return err
	}
	binary := filepath.Join(g.dir, "health-agent")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/health-agent")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the health agent: %w\n%s", err, out)
	}
	files := map[string]string{"/health-agent": binary, "/lib/libdcgm.so.4": library}
	for _, program := range []string{binary, library} {
		libraries, err := images.Libraries(program)
		if err != nil {
			return err
		}
		maps.Copy(files, libraries)
	}
	archive := binary + ".tar"
	image := images.Image{Files: files, Entrypoint: []string{"/health-agent"}, Env: []string{"LD_LIBRARY_PATH=/lib"}}
	if err := images.WriteArchive(archive, AgentImage, image); err != nil {
		return err
	}
	return g.LoadImage(ctx, archive)
}

// withSimulator gives the shipped DaemonSet the file that plays its node's DCGM, and has it look every
// second.
func withSimulator(shipped *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	agent := &appsv1.DaemonSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(shipped.Object, agent); err != nil {
		return nil, err
	}
	pod := &agent.Spec.Template.Spec
	container := &pod.Containers[0]
	container.Args = append(container.Args, "--interval=1s")
	container.Env = append(container.Env, corev1.EnvVar{Name: dcgmsim.StateEnv, Value: DCGMFolder + "/$(NODE_NAME)"})
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: dcgmFolder, MountPath: DCGMFolder})
	pod.Volumes = append(pod.Volumes, hostFolder(dcgmFolder, DCGMFolder))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(agent)
	return &unstructured.Unstructured{Object: object}, err
}
