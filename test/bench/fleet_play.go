// The parts of Volcano and of kubelets in the start of a fleet's jobs. They themselves would need hours for 64,000 pods on a small machine.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/bench/ranks"
)

// start makes a job, and has its pods run on the nodes of a rack. What their supervisors are given it writes to f.ranks.
func (f *fleetBench) start(ctx context.Context, i int) error {
	job := f.job(i)
	if err := f.cluster.Client().Create(ctx, job); err != nil {
		return fmt.Errorf("create %s: %w", job.Name, err)
	}
	of := &batch.Job{}
	err := wait.PollUntilContextTimeout(ctx, glance, timeoutOf(0), true, func(ctx context.Context) (bool, error) {
		err := f.cluster.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: job.Name + "-1"}, of)
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for the Volcano Job of %s: %w", job.Name, err)
	}
	group := podGroup(of)
	if err := f.cluster.Client().Create(ctx, group); err != nil {
		return fmt.Errorf("create the PodGroup of %s: %w", job.Name, err)
	}
	for rank := range fleetRanks {
		if f.ranks[i*fleetRanks+rank], err = f.startPod(ctx, f.pod(of, rank, f.pool.Node(i, rank/fleetGPUs))); err != nil {
			return fmt.Errorf("rank %d of %s: %w", rank, job.Name, err)
		}
	}
	return f.setStatus(ctx, of, batch.JobStatus{State: batch.JobState{Phase: batch.Running}, MinAvailable: of.Spec.MinAvailable, Running: fleetRanks})
}

func podGroup(of *batch.Job) *scheduling.PodGroup {
	return &scheduling.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name + "-" + string(of.UID), Labels: of.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, batch.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec:   scheduling.PodGroupSpec{MinMember: of.Spec.MinAvailable, Queue: of.Spec.Queue},
		Status: scheduling.PodGroupStatus{Phase: scheduling.PodGroupRunning, Running: fleetRanks},
	}
}

// startPod makes a pod, and has it run.
func (f *fleetBench) startPod(ctx context.Context, pod *corev1.Pod) (ranks.Rank, error) {
	if err := f.cluster.Client().Create(ctx, pod); err != nil {
		return ranks.Rank{}, fmt.Errorf("create the pod: %w", err)
	}
	if err := f.setStatus(ctx, pod, trains(pod)); err != nil {
		return ranks.Rank{}, err
	}
	return f.identify(ctx, pod)
}

// pod is that of a rank, as Volcano makes it and the manager lets it start.
func (f *fleetBench) pod(of *batch.Job, rank int, node string) *corev1.Pod {
	template := of.Spec.Tasks[0].Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: fmt.Sprintf("%s-%s-%d", of.Name, of.Spec.Tasks[0].Name, rank), Labels: template.Labels,
			Annotations: map[string]string{
				batch.TaskIndex: strconv.Itoa(rank), batch.TaskSpecKey: of.Spec.Tasks[0].Name, batch.JobNameKey: of.Name, batch.QueueNameKey: of.Spec.Queue,
				batch.JobVersion: "0", scheduling.KubeGroupNameAnnotationKey: of.Name + "-" + string(of.UID),
				v1alpha1.AnnotationEpoch: strconv.Itoa(supervisedEpoch), v1alpha1.AnnotationPlacedTime: time.Now().UTC().Format(time.RFC3339Nano),
				v1alpha1.AnnotationManagerCA: f.authority,
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, batch.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: template.Spec,
	}
	maps.Copy(pod.Labels, map[string]string{batch.JobNameKey: of.Name, batch.JobNamespaceKey: of.Namespace, batch.TaskSpecKey: of.Spec.Tasks[0].Name})
	pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, node
	return pod
}

// trains is the status of a pod whose program runs.
func trains(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, HostIP: "127.0.0.1", StartTime: &now}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}},
		})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

func (f *fleetBench) setStatus(ctx context.Context, of client.Object, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if err := f.cluster.Client().Status().Patch(ctx, of, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set the status of %s: %w", of.GetName(), err)
	}
	return nil
}
