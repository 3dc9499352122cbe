// What is read of a cluster, and written there.

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/api/extensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// cluster is a client of the cluster, and of the namespace, that the flags name.
type cluster struct {
	client.Client
	clock     *clock
	namespace string
}

// newScheme has the kinds of Kubernetes, Volcano and Lockstep that verbs read and write.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	add := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, scheduling.AddToScheme, topologyv1alpha1.AddToScheme, v1alpha1.AddToScheme)
	utilruntime.Must(add.AddToScheme(scheme))
	return scheme
}

// newCluster makes a client.
func newCluster(flags *genericclioptions.ConfigFlags) (*cluster, error) {
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // a verb asks a few questions, and ends
	c := &cluster{clock: &clock{}, namespace: namespace}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.clock.RoundTripper = next
		return c.clock
	})
	if c.Client, err = client.New(config, client.Options{Scheme: newScheme()}); err != nil {
		return nil, err
	}
	return c, nil
}

// app is what all verbs share: the streams, and the flags that name the cluster.
type app struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
}

// on makes a verb of what it does on the cluster with its arguments.
func (a app) on(run func(context.Context, *cluster, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cluster, err := newCluster(a.flags)
		if err != nil {
			return err
		}
		return run(c.Context(), cluster, args)
	}
}

// clock is the clock of an API server, by which its objects are dated. It reads the time from each answer. It is safe for use by many
// requests at once.
type clock struct {
	http.RoundTripper
	now atomic.Pointer[time.Time]
}

// Now is the time of the last answer, to the second; zero before the first.
func (c *clock) Now() time.Time { return ptr.Deref(c.now.Load(), time.Time{}) }

// RoundTrip implements http.RoundTripper.
func (c *clock) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(request)
	if err == nil {
		if at, wrong := http.ParseTime(response.Header.Get("Date")); wrong == nil {
			c.now.Store(&at)
		}
	}
	return response, err
}

// Each calls a function with every object of a list, which it reads in pages. The list only says of which kind it is.
func (c *cluster) Each(ctx context.Context, kind client.ObjectList, visit func(runtime.Object) error, options ...client.ListOption) error {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := kind.DeepCopyObject().(client.ObjectList)
		return list, c.List(ctx, list, append([]client.ListOption{client.Limit(page.Limit), client.Continue(page.Continue)}, options...)...)
	})
	return pages.EachListItem(ctx, metav1.ListOptions{}, visit)
}

// fieldOwner is the manager of the fields that the plugin writes.
const fieldOwner = client.FieldOwner("kubectl-lockstep")

// patch sends a merge patch of an object, unless nothing is to be sent.
func (c *cluster) patch(ctx context.Context, object client.Object, merge string, d dryRun) error {
	options := []client.PatchOption{fieldOwner}
	switch d {
	case dryRunClient:
		return nil
	case dryRunServer:
		options = append(options, client.DryRunAll)
	}
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(merge)), options...)
}

// jobs reads the TrainingJobs of these names, or without names those that a selector selects, in the namespace or in all of them.
func (c *cluster) jobs(ctx context.Context, names []string, all bool, selector labels.Selector) ([]v1alpha1.TrainingJob, error) {
	found, namespace := &v1alpha1.TrainingJobList{}, c.namespace
	if all {
		namespace = ""
	}
	for _, name := range names {
		job, err := c.job(ctx, name)
		if err != nil {
			return nil, err
		}
		found.Items = append(found.Items, *job)
	}
	if len(names) > 0 {
		return found.Items, nil
	}
	err := c.List(ctx, found, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	return found.Items, err
}

// job reads a TrainingJob by its name, which may be written as kubectl get -o name prints it.
func (c *cluster) job(ctx context.Context, name string) (*v1alpha1.TrainingJob, error) {
	for _, kind := range []string{"tj/", "trainingjob/", "trainingjobs/", "trainingjob.lockstep.dev/"} {
		name = strings.TrimPrefix(name, kind)
	}
	job := &v1alpha1.TrainingJob{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, job)
	if apierrors.IsNotFound(err) {
		if missing := c.namespaceExists(ctx); missing != nil {
			return nil, missing
		}
		err = fmt.Errorf("%w in namespace %s: `kubectl get trainingjobs -A` lists those of all namespaces", err, c.namespace)
	}
	return job, err
}

// isOurs is an error for a job of which Lockstep in this cluster does nothing.
func isOurs(job *v1alpha1.TrainingJob) error {
	if by := job.Spec.ManagedBy; by != "" {
		return fmt.Errorf("%s manages TrainingJob %s, and Lockstep in this cluster does not answer for it: ask in the cluster where its pods run", by, job.Name)
	}
	return nil
}

// namespaceExists returns an error where the namespace does not exist. It returns none where namespaces may not be read.
func (c *cluster) namespaceExists(ctx context.Context) error {
	names, err := namespaceNames(ctx, c, nil)
	if err != nil || slices.Contains(names, c.namespace) {
		return nil //nolint:nilerr // what was not found is the answer
	}
	return fmt.Errorf("namespace %s does not exist: `kubectl get namespaces` lists those that do", c.namespace)
}

// pods reads the pods of a job.
func (c *cluster) pods(ctx context.Context, job *v1alpha1.TrainingJob) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(job.Namespace), ofJob(job)); err != nil {
		return nil, fmt.Errorf("list the pods of TrainingJob %s: %w", job.Name, err)
	}
	return pods.Items, nil
}

// fleet reads the nodes and HyperNodes. The fleet names what else could not be read.
func (c *cluster) fleet(ctx context.Context) (*fleetmap.Fleet, error) {
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	tree, err := c.hyperNodes(ctx, nodes.Items)
	f := fleetmap.New(nodes.Items, tree)
	noteUnread(f, "HyperNodes could not be read", err)
	return f, nil
}

// hyperNodes reads the tree of HyperNodes above nodes; nil where it cannot be read.
func (c *cluster) hyperNodes(ctx context.Context, nodes []corev1.Node) (*topology.Topology, error) {
	list := &topologyv1alpha1.HyperNodeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	return topology.New(hypernodes.Resolve(list.Items, nodes)), nil
}

// addHealth reads the health of the nodes of a fleet.
func (c *cluster) addHealth(ctx context.Context, f *fleetmap.Fleet) {
	healths := &v1alpha1.NodeHealthList{}
	noteUnread(f, "NodeHealths could not be read, so the health of nodes is not known", c.List(ctx, healths))
	f.AddHealth(healths.Items)
}

// addPods reads the pods of all namespaces, a page at a time.
func (c *cluster) addPods(ctx context.Context, f *fleetmap.Fleet) {
	noteUnread(f, "pods could not be read, so no node is shown as in use", c.Each(ctx, &corev1.PodList{}, func(o runtime.Object) error {
		f.AddPod(o.(*corev1.Pod))
		return nil
	}, running...))
}

func noteUnread(f *fleetmap.Fleet, what string, err error) {
	if err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("The %s: %v.", what, explain(err, roleExplain)))
	}
}

// running selects the pods that have a node and have not ended. Those of DaemonSets, which are most of the pods of many clusters
// and use no GPUs, stay on the server.
var running = []client.ListOption{
	client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")},
	client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*notOfDaemonSet)},
}

// notOfDaemonSet selects pods without the label that the DaemonSet controller gives to each of its own.
var notOfDaemonSet, _ = labels.NewRequirement(extensions.DaemonSetTemplateGenerationKey, selection.DoesNotExist, nil)

// capacity reads what a job is compared with. What may not be read, or is not there, is not compared.
func (c *cluster) capacity(ctx context.Context, job *v1alpha1.TrainingJob) *capacity.Cluster {
	out := &capacity.Cluster{}
	queue := &scheduling.Queue{}
	switch err := c.Get(ctx, client.ObjectKey{Name: job.Spec.Queue}, queue); {
	case err == nil:
		out.Queue = queue
	case apierrors.IsNotFound(err):
		out.NoQueue = true
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return out
	}
	out.Nodes = nodes.Items
	out.Topology, _ = c.hyperNodes(ctx, nodes.Items)
	return out
}
