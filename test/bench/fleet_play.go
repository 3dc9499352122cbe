// The parts of Volcano and of kubelets in the start of jobs with many pods. They themselves would need hours for 64,000 pods on a small machine.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
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
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/test/bench/ranks"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// played is a cluster of which Volcano and the kubelets are played.
type played struct {
	*bench
	authority string // of the manager, in PEM
}

// play makes pools of nodes, and stops everybody whose part is played, and the recorder: it keeps all pods. Nodes need no heartbeat: none is waited
// for. Nothing else can be measured after it.
func (b *bench) play(ctx context.Context, pools ...cluster.Topology) (*played, error) {
	b.stop()
	b.recorder = nil
	stop := func(names ...string) (err error) {
		for _, name := range names {
			err = errors.Join(err, b.cluster.Component(name).Stop())
		}
		return err
	}
	if err := stop(cluster.VolcanoScheduler, cluster.VolcanoControllerManager); err != nil {
		return nil, err
	}
	for _, pool := range pools {
		say("%s: %d nodes", pool.Name, len(pool.NodeNames()))
		if err := b.cluster.AddTopology(ctx, pool); err != nil {
			return nil, err
		}
	}
	if err := stop(cluster.ControllerManager, cluster.KWOK); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	if err := b.cluster.Client().Get(ctx, client.ObjectKey{Namespace: operator.Namespace, Name: supervisors.SecretName}, secret); err != nil {
		return nil, fmt.Errorf("read the manager's authority: %w", err)
	}
	return &played{bench: b, authority: string(secret.Data[corev1.TLSCertKey])}, nil
}

// addresses are those of the manager for so many connections.
func (p *played) addresses(connections int) (all []string, err error) {
	_, port, err := net.SplitHostPort(p.supervisors)
	for i := range 1 + connections/perAddress {
		all = append(all, net.JoinHostPort(fmt.Sprintf("127.0.0.%d", i+1), port))
	}
	return all, err
}

// sequence does something so often, as parallel does, but once at a time.
func sequence(count int, do func(int) error) error {
	for i := range count {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// start makes a job, and has the pods of all its tasks, one task after the other, run on nodes by their numbers. It returns what their supervisors are given.
func (p *played) start(ctx context.Context, job *v1alpha1.TrainingJob, each func(int, func(int) error) error, node func(int) string) ([]ranks.Rank, error) {
	if err := p.cluster.Client().Create(ctx, job); err != nil {
		return nil, fmt.Errorf("create %s: %w", job.Name, err)
	}
	of := &batch.Job{}
	err := wait.PollUntilContextTimeout(ctx, glance, timeoutOf(0), true, func(ctx context.Context) (bool, error) {
		err := p.cluster.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: job.Name + "-1"}, of)
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the Volcano Job of %s: %w", job.Name, err)
	}
	pods := podsOf(of)
	if err := p.cluster.Client().Create(ctx, podGroup(of, len(pods))); err != nil {
		return nil, fmt.Errorf("create the PodGroup of %s: %w", job.Name, err)
	}
	given := make([]ranks.Rank, len(pods))
	if err := each(len(pods), func(i int) (err error) {
		given[i], err = p.startPod(ctx, pods[i], node(i))
		return err
	}); err != nil {
		return nil, err
	}
	return given, p.setStatus(ctx, of, batch.JobStatus{State: batch.JobState{Phase: batch.Running}, MinAvailable: of.Spec.MinAvailable, Running: int32(len(pods))})
}

func podGroup(of *batch.Job, pods int) *scheduling.PodGroup {
	return &scheduling.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name + "-" + string(of.UID), Labels: of.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, batch.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec:   scheduling.PodGroupSpec{MinMember: of.Spec.MinAvailable, Queue: of.Spec.Queue},
		Status: scheduling.PodGroupStatus{Phase: scheduling.PodGroupRunning, Running: int32(pods)},
	}
}

// startPod makes a pod as the manager lets it start, and has it run on a node.
func (p *played) startPod(ctx context.Context, pod *corev1.Pod, node string) (ranks.Rank, error) {
	_, spare := pod.Labels[v1alpha1.LabelSpare]
	maps.Copy(pod.Annotations, map[string]string{
		v1alpha1.AnnotationEpoch: strconv.Itoa(supervisedEpoch), v1alpha1.AnnotationPlacedTime: time.Now().UTC().Format(time.RFC3339Nano),
		v1alpha1.AnnotationManagerCA: p.authority, v1alpha1.AnnotationStandby: strconv.FormatBool(spare),
	})
	pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, node
	if err := p.cluster.Client().Create(ctx, pod); err != nil {
		return ranks.Rank{}, fmt.Errorf("create %s: %w", pod.Name, err)
	}
	if err := p.setStatus(ctx, pod, trains(pod)); err != nil {
		return ranks.Rank{}, err
	}
	rank, err := p.identify(ctx, pod)
	rank.Standby = spare
	return rank, err
}

// podsOf are the pods of a Volcano Job, behind their gates, one task after the other.
func podsOf(of *batch.Job) (pods []*corev1.Pod) {
	for i := range of.Spec.Tasks {
		for index := range of.Spec.Tasks[i].Replicas {
			pods = append(pods, podOf(of, &of.Spec.Tasks[i], index))
		}
	}
	return pods
}

// podOf is a pod as Volcano makes it.
func podOf(of *batch.Job, task *batch.TaskSpec, index int32) *corev1.Pod {
	template := task.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: fmt.Sprintf("%s-%s-%d", of.Name, task.Name, index), Labels: template.Labels,
			Annotations: map[string]string{
				batch.TaskIndex: strconv.Itoa(int(index)), batch.TaskSpecKey: task.Name, batch.JobNameKey: of.Name, batch.QueueNameKey: of.Spec.Queue,
				batch.JobVersion: "0", scheduling.KubeGroupNameAnnotationKey: of.Name + "-" + string(of.UID),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, batch.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: template.Spec,
	}
	maps.Copy(pod.Labels, map[string]string{batch.JobNameKey: of.Name, batch.JobNamespaceKey: of.Namespace, batch.TaskSpecKey: task.Name})
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

func (p *played) setStatus(ctx context.Context, of client.Object, status any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if err := p.cluster.Client().Status().Patch(ctx, of, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set the status of %s: %w", of.GetName(), err)
	}
	return nil
}
