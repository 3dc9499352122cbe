// The drainer, which carries out NVSentinel's DrainRequests beside the manager.

package operator

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	// SentinelNamespace is that of NVSentinel, in which its node-drainer creates DrainRequests.
	SentinelNamespace = "nvsentinel"
	// drainer is the name of its process, and of its account.
	drainer = "lockstep-drainer"
	// FollowsDrainRequests has a manager follow DrainRequests, or a drainer carry them out.
	FollowsDrainRequests = "--drain-requests-namespace=" + SentinelNamespace
	// DrainerUser is the account that the shipped drainer runs as.
	DrainerUser = "system:serviceaccount:" + Namespace + ":" + drainer
)

// InstallDrainRequests gives a cluster NVSentinel's namespace, and the CRD, the accounts and the roles that are shipped for its DrainRequests. A manager that follows them, and has
// its own, may run before.
func InstallDrainRequests(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := c.InstallCRDs(filepath.Join(root, "config", "nvsentinel", "drainer", "crd.yaml")); err != nil {
		return err
	}
	if err := c.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SentinelNamespace}}); err != nil {
		return fmt.Errorf("create NVSentinel's namespace: %w", err)
	}
	objects, err := cluster.Kustomize(ctx, filepath.Join(root, "config", "nvsentinel"))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if !strings.HasPrefix(o.GetName(), "lockstep-drain") || o.GetKind() == "Deployment" {
			continue
		}
		if err := c.Client().Create(ctx, o); err != nil {
			return fmt.Errorf("create the %s %s of DrainRequests: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// RunDrainer runs the drainer, by the manager's program, in a cluster that has DrainRequests.
func RunDrainer(ctx context.Context, c *cluster.Cluster, binary string) (*cluster.Process, error) {
	kubeconfig, err := c.KubeconfigFor(DrainerUser, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
	if err != nil {
		return nil, err
	}
	return c.Run(ctx, cluster.Command{Name: drainer, Path: binary, Args: []string{
		"--leader-elect", "--leader-election-namespace=" + Namespace, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		FollowsDrainRequests, "--drainer", "--kubeconfig=" + kubeconfig,
	}})
}

// Quarantine cordons a node as NVSentinel's fault-quarantine does, by one update.
func Quarantine(ctx context.Context, c client.Client, node string) error {
	return patchNode(ctx, c, node, fmt.Sprintf(`{"metadata": {"annotations": {%q: "True"}}, "spec": {"unschedulable": true}}`, nvsentinel.AnnotationCordoned))
}

// Release ends the quarantine of a node, as fault-quarantine does.
func Release(ctx context.Context, c *cluster.Cluster, node string) error {
	if err := patchNode(ctx, c.Client(), node, fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}, "spec": {"unschedulable": false}}`, nvsentinel.AnnotationCordoned)); err != nil {
		return err
	}
	return c.Uncordon(ctx, node) // which waits for its taint to go
}

func patchNode(ctx context.Context, c client.Client, node, patch string) error {
	err := c.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node, err)
	}
	return nil
}

// NewDrainRequest has pods of a namespace drained from a node, as node-drainer does.
func NewDrainRequest(inNamespace, node, namespace string, pods ...string) *unstructured.Unstructured {
	names := make([]any, 0, len(pods))
	for _, p := range pods {
		names = append(names, p)
	}
	r := nvsentinel.New()
	r.SetNamespace(inNamespace)
	r.SetName("drain-" + node + "-event")
	r.Object["spec"] = map[string]any{
		"nodeName": node, "podsToDrain": map[string]any{namespace: names}, "recommendedAction": "RESTART_VM",
	}
	return r
}

// IsDrained reports whether a DrainRequest is complete.
func IsDrained(ctx context.Context, c client.Reader, r *unstructured.Unstructured) (bool, error) {
	if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
		return false, err
	}
	var is struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, &is)
	return meta.IsStatusConditionTrue(is.Status.Conditions, nvsentinel.ConditionDrainComplete), err
}
