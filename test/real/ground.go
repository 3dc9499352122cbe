// Package real runs real training on real kubelets: what tests and the demonstration stand on. The
// control plane, the kubelets, containerd and the training program are real; GPUs are invented.
package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/history"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// TrainerImage is the training program's.
const TrainerImage = "lockstep-trainer:dev"

// SupervisorImage is lockstep-run's.
const SupervisorImage = "lockstep-run:dev"

// supervisorsPort is where supervisors find the manager on the host.
const supervisorsPort = 9444

// GPUsPerNode is what each node of Start has, and each rank takes.
const GPUsPerNode = 2

// Ground is a cluster with real nodes, the manager, and the training program's image on every node.
type Ground struct {
	*cluster.Cluster
	Nodes   cluster.Topology
	Manager *cluster.Process
	// History is the API server's audit log of all that was written.
	History history.Log

	dir  string
	logs *podLogs
	// trainings is how many were described.
	trainings int
}

// Start brings up a ground of two racks under one spine, with the manager on the host, whose nodes are NotReady after so long a silence; the
// default of test/cluster where that is 0. Stop ends it.
func Start(ctx context.Context, nodesPerRack int, silence time.Duration, progress io.Writer) (*Ground, error) {
	return managed(ctx, nodesPerRack, GPUsPerNode, silence, progress)
}

// StartWithGPUs is Start with so many GPUs in each node, and the default of silence.
func StartWithGPUs(ctx context.Context, nodesPerRack, gpusPerNode int, progress io.Writer) (*Ground, error) {
	return managed(ctx, nodesPerRack, gpusPerNode, 0, progress)
}

func managed(ctx context.Context, nodesPerRack, gpusPerNode int, silence time.Duration, progress io.Writer) (*Ground, error) {
	g, err := startBare(ctx, nodesPerRack, gpusPerNode, silence, progress)
	if err != nil {
		return nil, err
	}
	if err := g.startManager(ctx); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

// StartBare is Start without Lockstep.
func StartBare(ctx context.Context, nodesPerRack int, silence time.Duration, progress io.Writer) (*Ground, error) {
	return startBare(ctx, nodesPerRack, GPUsPerNode, silence, progress)
}

func startBare(ctx context.Context, nodesPerRack, gpusPerNode int, silence time.Duration, progress io.Writer) (g *Ground, err error) {
	g = &Ground{Nodes: cluster.Topology{
		Name: "gpu", Racks: 2, NodesPerRack: nodesPerRack, GPUsPerNode: gpusPerNode, Tiers: []int{2}, Real: true,
		Labels: map[string]string{"nvidia.com/gpu.present": "true"},
	}}
	if g.dir, err = os.MkdirTemp("", "lockstep-real-"); err != nil {
		return nil, err
	}
	if err := g.start(ctx, silence, progress); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

func (g *Ground) start(ctx context.Context, silence time.Duration, progress io.Writer) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	options := cluster.Options{Name: "real", Scheme: scheme, NodeMonitorGracePeriod: silence, Progress: progress}
	if g.History, err = history.Of(&options, g.dir, ""); err != nil {
		return err
	}
	if g.Cluster, err = cluster.Start(ctx, options); err != nil {
		return err
	}
	if err := g.AddTopology(ctx, g.Nodes); err != nil {
		return err
	}
	for pkg, image := range map[string]string{"./test/workloads/trainer": TrainerImage, "./cmd/lockstep-run": SupervisorImage} {
		archive, err := images.BuildProgram(ctx, root, g.dir, pkg, image, images.Image{})
		if err != nil {
			return err
		}
		if err := g.LoadImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// startManager runs the manager on the host, from where it reaches every pod.
func (g *Ground) startManager(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := g.InstallCRDs(filepath.Join(root, "config", "crd")); err != nil {
		return err
	}
	binary, err := operator.Build(ctx, g.dir)
	if err != nil {
		return err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, g.Cluster)
	if err != nil {
		return err
	}
	// A rack is small here, and a test breaks a good part of it.
	policy := &v1alpha1.HealthPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName},
		Spec:       v1alpha1.HealthPolicySpec{Breaker: v1alpha1.Breaker{Cluster: &v1alpha1.BreakerLimit{Percent: 100}}},
	}
	if err := g.Client().Create(ctx, policy); err != nil {
		return fmt.Errorf("creating the health policy: %w", err)
	}
	if err := operator.InstallDrainRequests(ctx, g.Cluster); err != nil {
		return err
	}
	supervisors := net.JoinHostPort(g.HostAddress(), strconv.Itoa(supervisorsPort))
	g.Manager, err = g.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--kubeconfig=" + kubeconfig,
		"--leader-election-namespace=" + operator.Namespace, "--supervisor-image=" + SupervisorImage,
		"--supervisors-bind-address=" + supervisors, "--supervisors-address=" + supervisors, operator.FollowsDrainRequests,
	}})
	return err
}

// RunDrainer runs the drainer beside the manager.
func (g *Ground) RunDrainer(ctx context.Context) error {
	_, err := operator.RunDrainer(ctx, g.Cluster, filepath.Join(g.dir, "manager"))
	return err
}

// DrainByRequest has NVSentinel's DrainRequest empty a node of pods of a namespace, of all that are there where none are named, as its fault-quarantine and node-drainer do, and
// returns once that is complete.
func (g *Ground) DrainByRequest(ctx context.Context, node, namespace string, names ...string) error {
	if err := operator.Quarantine(ctx, g.Client(), node); err != nil {
		return err
	}
	if len(names) == 0 {
		var err error
		if names, err = g.podsOn(ctx, node, namespace); err != nil {
			return err
		}
	}
	request := operator.NewDrainRequest(operator.SentinelNamespace, node, namespace, names...)
	if err := g.Client().Create(ctx, request); err != nil {
		return fmt.Errorf("create a DrainRequest: %w", err)
	}
	err := await(ctx, "the DrainRequest is complete", func(ctx context.Context) (bool, error) { return operator.IsDrained(ctx, g.Client(), request) })
	return errors.Join(err, g.Client().Delete(ctx, request)) // as node-drainer does
}

// ReleaseFromQuarantine has NVSentinel let pods on a node again.
func (g *Ground) ReleaseFromQuarantine(ctx context.Context, node string) error {
	return operator.Release(ctx, g.Cluster, node)
}

func (g *Ground) podsOn(ctx context.Context, node, namespace string) (names []string, err error) {
	pods := &corev1.PodList{}
	if err := g.Client().List(ctx, pods, client.InNamespace(namespace), client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names, nil
}

// Trainer is the training program's binary, which runs on this host too.
func (g *Ground) Trainer() string { return filepath.Join(g.dir, "trainer") }

// TrainerArchive is its image's archive.
func (g *Ground) TrainerArchive() string { return g.Trainer() + ".tar" }

// Stop ends everything and leaves nothing behind.
func (g *Ground) Stop() error {
	var err error
	if g.Cluster != nil {
		err = g.Cluster.Stop()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}
