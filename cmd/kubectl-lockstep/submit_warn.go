package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// warningTimeout is how long submit waits for a cluster that it only compares the job with.
const warningTimeout = 5 * time.Second

// warn says why a job could never start in the cluster, as far as that can be read. It has its defaults.
func (c *cluster) warn(ctx context.Context, out io.Writer, job *v1alpha1.TrainingJob) {
	ctx, stop := context.WithTimeout(ctx, warningTimeout)
	defer stop()
	for _, f := range capacity.Of(job, c.capacity(ctx, job)) {
		printWarning(out, strings.Replace(f.Text, "highestTierAllowed ", "--tier ", 1)) // in the words of the flags
	}
}

func printWarning(out io.Writer, text string) {
	for _, line := range lines.Wrap("Warning: "+text, lines.Width) {
		fmt.Fprintln(out, line)
	}
}

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
	hyperNodes := &topologyv1alpha1.HyperNodeList{}
	if err := c.List(ctx, hyperNodes); err == nil {
		out.Topology = topology.New(hypernodes.Resolve(hyperNodes.Items, nodes.Items))
	}
	return out
}
