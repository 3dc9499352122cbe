package real

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/losses"
)

// AwaitTimeout bounds every wait. No test measures it: a straggler is known after five minutes, and torchrun alone takes two to lose a node.
const AwaitTimeout = 8 * time.Minute

// How long a silent node's pod has before it counts as dead, in seconds: in general, and where the rest
// of the gang is down. The rules are the default's. Its 60 s may be shorter here because the program
// fences: a process that comes back from a silent node writes nothing.
const (
	SilentSeconds   = 5
	GangDownSeconds = 1
)

const gpuResource corev1.ResourceName = "nvidia.com/gpu"

func fenced() *v1alpha1.UnreachableNode {
	return &v1alpha1.UnreachableNode{
		Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(SilentSeconds)), GangDownAfterSeconds: new(int32(GangDownSeconds)),
	}
}

// Training is one TrainingJob of the training program.
type Training struct {
	ground *Ground
	Job    *v1alpha1.TrainingJob
	Ranks  int
	Steps  int

	// folder of its checkpoints, in each storage. No other training has it, be it of the same name.
	folder string
}

// NewTraining describes a job of so many ranks, each with all GPUs of a node, that trains for so many
// steps of a tenth of a second. It finds its rendezvous by DNS, as PyTorch's jobs do. Run applies it.
func (g *Ground) NewTraining(name string, ranks, steps int) *Training {
	g.trainings++
	folder := fmt.Sprintf("%s-%d", name, g.trainings)
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(2))},
			Framework:       &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{}},
			RestartPolicy:   &v1alpha1.RestartPolicy{UnreachableNode: fenced()},
			Tasks: []v1alpha1.Task{
				{Name: masterTask, Replicas: 1, Template: g.template(folder, steps)},
				{Name: workerTask, Replicas: int32(ranks - 1), Template: g.template(folder, steps)},
			},
		},
	}
	return &Training{ground: g, Job: job, Ranks: ranks, Steps: steps, folder: folder}
}

// template is the pod of a rank, as a researcher writes it: it restarts in place, and is ready while
// it trains.
func (g *Ground) template(folder string, steps int) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector:                  g.Nodes.NodeSelector(),
		RestartPolicy:                 corev1.RestartPolicyOnFailure,
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name:            "trainer",
			Image:           TrainerImage,
			ImagePullPolicy: corev1.PullIfNotPresent,
			Args: []string{
				"-steps=" + strconv.Itoa(steps), "-step-time=100ms", "-checkpoint-every=10",
				"-local=" + cluster.LocalPath + "/" + folder, "-shared=" + cluster.SharedPath + "/" + folder,
				"-peer-timeout=5s",
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")},
				Limits:   corev1.ResourceList{gpuResource: *resource.NewQuantity(int64(g.Nodes.GPUsPerNode), resource.DecimalSI)},
			},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8081)}},
				PeriodSeconds: 1,
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "local", MountPath: cluster.LocalPath}, {Name: "shared", MountPath: cluster.SharedPath}},
		}},
		Volumes: []corev1.Volume{hostFolder("local", cluster.LocalPath), hostFolder("shared", cluster.SharedPath)},
	}}
}

func hostFolder(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}

// TakeGPUs gives each rank so many GPUs, in place of all those of a node.
func (t *Training) TakeGPUs(perRank int) {
	for i := range t.Job.Spec.Tasks {
		container := &t.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		container.Resources.Limits[gpuResource] = *resource.NewQuantity(int64(perRank), resource.DecimalSI)
	}
}

// Supervise runs the programs under lockstep-run.
func (t *Training) Supervise() {
	if t.Job.Spec.Supervisor == nil {
		t.Job.Spec.Supervisor = &v1alpha1.Supervisor{}
	}
	for i := range t.Job.Spec.Tasks {
		container := &t.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		if len(container.Command) == 0 {
			container.Command = []string{"/trainer"}
		}
	}
}

// Run applies the job and waits until it trains.
func (t *Training) Run(ctx context.Context) error {
	if err := t.ground.Client().Create(ctx, t.Job); err != nil {
		return fmt.Errorf("applying the job: %w", err)
	}
	return t.AwaitSteps(ctx, 1)
}

// Delete takes the job away and waits until its pods are gone.
func (t *Training) Delete(ctx context.Context) error {
	if err := t.ground.Client().Delete(ctx, t.Job); client.IgnoreNotFound(err) != nil {
		return err
	}
	return await(ctx, "the job's pods are gone", func(ctx context.Context) (bool, error) {
		pods, err := t.pods(ctx)
		return len(pods) == 0, err
	})
}

// Refresh reads the job.
func (t *Training) Refresh(ctx context.Context) error {
	return t.ground.Client().Get(ctx, client.ObjectKeyFromObject(t.Job), t.Job)
}

// AwaitJob waits until the job, as it is by then, satisfies a condition.
func (t *Training) AwaitJob(ctx context.Context, what string, holds func(*v1alpha1.TrainingJob) bool) error {
	return await(ctx, what, func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx)
		return err == nil && holds(t.Job), err
	})
}

// await polls a condition. Its last error says what was wrong when its time was over.
func await(ctx context.Context, what string, holds wait.ConditionWithContextFunc) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, AwaitTimeout, true, func(ctx context.Context) (bool, error) {
		var done bool
		done, last = holds(ctx)
		return done && last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// Pods are the pods of the job's ranks: the master is rank 0. Those of spares are not among them.
func (t *Training) Pods(ctx context.Context) (map[int]corev1.Pod, error) {
	all, err := t.pods(ctx)
	if err != nil {
		return nil, err
	}
	return t.ByRank(ctx, all)
}

// ByRank are those of some pods that are of a rank.
func (t *Training) ByRank(ctx context.Context, all []corev1.Pod) (map[int]corev1.Pod, error) {
	status, err := t.placed(ctx)
	if err != nil {
		return nil, err
	}
	pods := map[int]corev1.Pod{}
	for _, pod := range all {
		switch r := gang.RankOf(status, slotOf(pod)); r.Task {
		case masterTask:
			pods[0] = pod
		case workerTask:
			pods[int(r.Index)+1] = pod
		}
	}
	return pods, nil
}

// pods are all pods of the job.
func (t *Training) pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := t.ground.Client().List(ctx, list, client.InNamespace(t.Job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: t.Job.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the job's pods: %w", err)
	}
	return list.Items, nil
}

// slotOf is the rank, or the spare, that a pod is named after.
func slotOf(pod corev1.Pod) gang.Rank {
	index, _ := strconv.Atoi(pod.Annotations[batch.TaskIndex])
	return gang.Rank{Task: pod.Annotations[batch.TaskSpecKey], Index: int32(index)}
}

// Log is the end of what a pod's container has printed.
func (t *Training) Log(ctx context.Context, pod corev1.Pod, lines int64) (string, error) {
	return t.log(ctx, pod, &corev1.PodLogOptions{TailLines: &lines})
}

// LogSince is what a pod's container has printed from a time on, which counts in whole seconds. Each line begins with its own time.
func (t *Training) LogSince(ctx context.Context, pod corev1.Pod, since time.Time) (string, error) {
	return t.log(ctx, pod, &corev1.PodLogOptions{SinceTime: new(metav1.NewTime(since)), Timestamps: true})
}

func (t *Training) log(ctx context.Context, pod corev1.Pod, options *corev1.PodLogOptions) (string, error) {
	clients, err := kubernetes.NewForConfig(t.ground.RESTConfig())
	if err != nil {
		return "", err
	}
	content, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	return string(content), err
}

// Losses are the steps that have been completed so far.
func (t *Training) Losses() losses.Log {
	log, err := losses.Read(filepath.Join(t.ground.SharedFolder(), t.folder, "loss"))
	if err != nil {
		return nil // Nothing has been written yet.
	}
	return log
}

// AwaitSteps waits until a step of at least that number has been completed.
func (t *Training) AwaitSteps(ctx context.Context, steps int) error {
	return await(ctx, fmt.Sprintf("step %d is done", steps), func(context.Context) (bool, error) {
		return slices.ContainsFunc(t.Losses(), func(l losses.Line) bool { return l.Step >= steps }), nil
	})
}

// Generation identifies the collective that trains now: it changes each time that the ranks find
// together again.
func (t *Training) Generation() uint64 {
	if log := t.Losses(); len(log) > 0 {
		return log[len(log)-1].Generation
	}
	return 0
}

// AwaitNewGeneration waits until the ranks train in another collective than that of before.
func (t *Training) AwaitNewGeneration(ctx context.Context, before uint64) error {
	return await(ctx, "the gang trains again", func(context.Context) (bool, error) { return t.Generation() != before, nil })
}

// Finish waits until the job has completed, and compares its losses with those of a run that nothing
// disturbed, bit by bit.
func (t *Training) Finish(ctx context.Context) error {
	err := t.AwaitJob(ctx, "the job has completed", func(job *v1alpha1.TrainingJob) bool {
		return job.Status.State == v1alpha1.StateCompleted || job.Status.State == v1alpha1.StateFailed
	})
	if err != nil {
		return err
	}
	if t.Job.Status.State != v1alpha1.StateCompleted {
		return fmt.Errorf("the job is %s", t.Job.Status.State)
	}
	return t.compare(ctx, t.Losses(), t.Steps)
}

// CompareLosses compares the losses of a training that is not complete with those of a run that nothing disturbed, bit by bit.
func (t *Training) CompareLosses(ctx context.Context) error {
	log, last := t.Losses(), 0
	for _, line := range log {
		last = max(last, line.Step)
	}
	return t.compare(ctx, log, last)
}

func (t *Training) compare(ctx context.Context, log losses.Log, steps int) error {
	undisturbed, err := t.ground.Undisturbed(ctx, t.Ranks, steps)
	if err != nil {
		return fmt.Errorf("training without disturbance: %w", err)
	}
	return errors.Join(log.Complete(steps), log.Same(undisturbed))
}

// LastStep is the step that was completed last, or 0.
func (t *Training) LastStep() int {
	log := t.Losses()
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].Step
}
