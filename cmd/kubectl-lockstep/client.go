package main

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/paging"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/serverclock"
)

// cluster reads from the cluster, and in the namespace, that the flags ask for, and writes there.
type cluster struct {
	paging.Reader
	writer    client.Writer
	watcher   client.WithWatch
	clock     *serverclock.Clock
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
	clock := &serverclock.Clock{}
	clock.Watch(config)
	all, err := client.NewWithWatch(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	return &cluster{Reader: paging.Reader{Reader: all}, writer: all, watcher: all, clock: clock, namespace: namespace}, nil
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
	return c.writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(merge)), options...)
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
		names, _ := c.names(ctx, v1alpha1.GroupVersion.WithKind("TrainingJobList")) // for a suggestion
		err = fmt.Errorf("%w in namespace %s: `kubectl get trainingjobs -A` lists those of all namespaces%s", err, c.namespace, didYouMean(name, names, ""))
	}
	return job, err
}
