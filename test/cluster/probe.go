// Proof that the cluster takes work: a job of one pod goes through every component and is removed.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	busv1alpha1 "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// usableTimeout bounds the way from healthy components to a cluster that takes work. After the API
// server was away, a watch may need two more attempts, one to learn that its version is too old and
// one to list again, and client-go waits up to 60 s before each (NewReflectorWithOptions).
const usableTimeout = 4 * time.Minute

// AwaitUsable returns once the cluster takes work. All components have to run. That they answer their
// health checks is not enough: when the API server comes back, each watch of each component is
// restored at a time of its own, and a component does nothing about objects that it has not heard of.
func (c *Cluster) AwaitUsable(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, usableTimeout, fmt.Errorf("not after %s", usableTimeout))
	defer cancel()
	err := together(ctx,
		func(ctx context.Context) error {
			return eventually(ctx, "the default service account exists", c.serviceAccountExists)
		},
		func(ctx context.Context) error { return eventually(ctx, "Volcano's webhooks answer", c.webhooksAnswer) })
	if err != nil {
		return err
	}
	return c.runProbe(ctx)
}

// runProbe runs a job on a node and a HyperNode of its own. The node controller and KWOK have to
// know the node, Volcano's controller the Job, its PodGroup and its pod, the scheduler all of these,
// and the garbage collector has to delete what belonged to the Job.
func (c *Cluster) runProbe(ctx context.Context) (err error) {
	topology := Topology{Name: "probe-" + rand.String(8), Racks: 1, NodesPerRack: 1, GPUsPerNode: 1}
	job := VolcanoJob(topology.Name, topology.Name, 1, 1)
	job.Spec.NetworkTopology = &batchv1alpha1.NetworkTopologySpec{Mode: batchv1alpha1.HardNetworkTopologyMode, HighestTierAllowed: new(1)}
	defer func() {
		cleanup := context.WithoutCancel(ctx)
		err = errors.Join(err,
			client.IgnoreNotFound(c.client.Delete(cleanup, job, client.PropagationPolicy(metav1.DeletePropagationBackground))),
			c.RemoveTopology(cleanup, topology.Name))
	}()
	if err := c.AddTopology(ctx, topology); err != nil {
		return err
	}
	if err := c.client.Create(ctx, job); err != nil {
		return fmt.Errorf("creating the probe's Job: %w", err)
	}
	if err := eventually(ctx, "the probe runs", func(ctx context.Context) error { return c.probeRuns(ctx, job) }); err != nil {
		return err
	}
	if err := c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return fmt.Errorf("deleting the probe's Job: %w", err)
	}
	return eventually(ctx, "the probe is gone", func(ctx context.Context) error { return c.probeGone(ctx, job) })
}

func (c *Cluster) probeRuns(ctx context.Context, job *batchv1alpha1.Job) error {
	pods, podGroup, err := c.partsOf(ctx, job)
	switch {
	case err != nil:
		return err
	case len(pods) == 0 && podGroup == nil:
		return errors.New("the Job has no PodGroup: Volcano's controller has not acted on it")
	case len(pods) == 0 && podGroup.Status.Phase == schedulingv1beta1.PodGroupInqueue:
		return errors.Join(errors.New("the Job has no pod although its PodGroup is Inqueue"), c.syncJob(ctx, job))
	case len(pods) == 0:
		return fmt.Errorf("the PodGroup is %q: the scheduler has not let it in", podGroup.Status.Phase)
	case pods[0].Status.Phase != corev1.PodRunning:
		return fmt.Errorf("the pod is %s on node %q", pods[0].Status.Phase, pods[0].Spec.NodeName)
	}
	return nil
}

// syncJob asks Volcano's controller to look at a Job again. The controller ignores a PodGroup that it
// first sees as Inqueue (updatePodGroup is its only handler in 1.14.1), so a Job that was created
// while its watch of PodGroups was broken gets no pods, even after the watch is back.
func (c *Cluster) syncJob(ctx context.Context, job *batchv1alpha1.Job) error {
	// One name: while the controller's watch of Commands is broken, they would pile up.
	command := &busv1alpha1.Command{
		ObjectMeta:   metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name},
		Action:       string(busv1alpha1.SyncJobAction),
		TargetObject: metav1.NewControllerRef(job, batchv1alpha1.SchemeGroupVersion.WithKind("Job")),
	}
	if err := c.client.Create(ctx, command); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("asking Volcano's controller to look at Job %s again: %w", job.Name, err)
	}
	return nil
}

func (c *Cluster) probeGone(ctx context.Context, job *batchv1alpha1.Job) error {
	pods, podGroup, err := c.partsOf(ctx, job)
	if err != nil {
		return err
	}
	if len(pods) > 0 || podGroup != nil {
		return errors.New("the garbage collector has not deleted the Job's pod and PodGroup")
	}
	return nil
}

// partsOf are a Volcano Job's pods and its PodGroup; nil where it has none.
func (c *Cluster) partsOf(ctx context.Context, job *batchv1alpha1.Job) ([]corev1.Pod, *schedulingv1beta1.PodGroup, error) {
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1alpha1.JobNameKey: job.Name}); err != nil {
		return nil, nil, fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
	}
	podGroup := &schedulingv1beta1.PodGroup{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: job.Name + "-" + string(job.UID)}, podGroup)
	if apierrors.IsNotFound(err) {
		return pods.Items, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the PodGroup of Job %s: %w", job.Name, err)
	}
	return pods.Items, podGroup, nil
}
