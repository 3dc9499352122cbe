// Kueue's topology-aware scheduling beside Lockstep's taints.

package kueue

import (
	"context"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// topologyQueue has Kueue choose the node of each pod.
const topologyQueue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: hosts}
spec: {levels: [{nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: hosts}
spec: {nodeLabels: {pool: h200}, topologyName: hosts}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: beside}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: hosts, resources: [{name: cpu, nominalQuota: 10}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: beside, namespace: default}
spec: {clusterQueue: beside}
`

// A hold is a taint that Kueue sees. A pod that Kueue has placed on the node before runs on. One that Kueue assigns to the node later is failed by Kueue, until the hold
// has gone with its job.
func TestAHoldStopsNoPodThatKueueHasPlaced(t *testing.T) {
	apply(t, home, topologyQueue)
	beside := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "beside", Labels: map[string]string{"kueue.x-k8s.io/queue-name": "beside"}},
		Spec: batchv1.JobSpec{Suspend: new(true), BackoffLimit: new(int32(100)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kueue.x-k8s.io/podset-unconstrained-topology": "true"}},
			Spec: corev1.PodSpec{SchedulerName: "volcano", RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{
				Name: "main", Image: "service",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
			}}},
		}},
	}
	must(t, home.Client().Create(t.Context(), beside))
	t.Cleanup(func() {
		must(t, home.Client().Delete(context.WithoutCancel(t.Context()), beside, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	})
	podsBeside := func() []corev1.Pod {
		list := &corev1.PodList{}
		must(t, home.Client().List(t.Context(), list, client.InNamespace(beside.Namespace), client.MatchingLabels{batchv1.JobNameLabel: beside.Name}))
		return list.Items
	}
	// running is the pod of Kueue's Job that runs.
	running := func() *corev1.Pod {
		all := podsBeside()
		if i := slices.IndexFunc(all, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	await(t, home, "the pod of Kueue's Job runs", func() bool { return running() != nil })
	placed := running()

	job := gang("holds", "", 1)
	job.Labels = nil
	job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	job.Spec.Tasks[0].Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: placed.Spec.NodeName}
	create(t, home, job)
	awaitState(t, home, job, v1alpha1.StateRunning)
	await(t, home, "the node is held", func() bool { return held(t, placed.Spec.NodeName) })
	must(t, home.FailPod(t.Context(), client.ObjectKeyFromObject(&pods(t, home, job)[0]), 1))
	await(t, home, "the rank has recovered on its node", func() bool {
		incidents := read(t, home, job).Status.Incidents
		return len(incidents) == 1 && incidents[0].Outcome == v1alpha1.OutcomeRecovered
	})
	check.Equal(t, "the pod beside the rank", placed.UID, running().UID)

	must(t, home.FailPod(t.Context(), client.ObjectKeyFromObject(placed), 1))
	await(t, home, "Kueue fails a pod that it has assigned to the node", func() bool {
		return slices.ContainsFunc(podsBeside(), func(p corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "TerminatedByKueue" })
		})
	})
	check.Equal(t, "the job that holds the node", v1alpha1.StateRunning, read(t, home, job).Status.State)
	remove(t, home, job)
	await(t, home, "a pod of Kueue's Job runs once more", func() bool { return running() != nil })
}

// held reports whether a node has a hold.
func held(t *testing.T, node string) bool {
	t.Helper()
	n := &corev1.Node{}
	must(t, home.Client().Get(t.Context(), client.ObjectKey{Name: node}, n))
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix) {
			return true
		}
	}
	return false
}
