// Package newjob makes a TrainingJob of what the flags of a command line say. It reads nothing: the same flags give the same job.
package newjob

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Options say what job is made. Each is a flag of that name.
type Options struct {
	Name, Namespace string
	Framework       string
	Workers         int32
	GPUs            uint
	Image           string
	Topology        string
	Tier            *int32
	Queue           string
	Spares          int32
	// CPU, Memory and Shm are zero where they are not given.
	CPU, Memory, Shm resource.QuantityValue
	Priority         string
	Labels           map[string]string
	NodeSelector     map[string]string
	Mounts           []string
	Env              []string
	Command          []string
}

// The frameworks.
const (
	None    = "none"
	PyTorch = "pytorch"
	MPI     = "mpi"
)

// Frameworks are all of them.
var Frameworks = []string{None, PyTorch, MPI}

// Names of tasks and of their container.
const (
	master    = "master"
	launcher  = "launcher"
	worker    = "worker"
	container = "train"
)

// gpu is the resource of a whole GPU.
const gpu corev1.ResourceName = "nvidia.com/gpu"

// sshd is what the workers of MPI run, in which the launcher starts the ranks.
var sshd = []string{"sh", "-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D"}

// Of makes the job. An error names the flag that is wrong. What the API server refuses is left to the API server.
func Of(o Options) (*v1alpha1.TrainingJob, error) {
	switch {
	case o.Image == "":
		return nil, errors.New("--image is missing: give the image of the program")
	case o.Workers < 1: // the API server would take 0 for a number that is left out
		return nil, fmt.Errorf("--workers: %d is too few: give 1 or more", o.Workers)
	case o.Framework == PyTorch && o.Workers == 1:
		return nil, errors.New("--workers: with --framework pytorch there are 2 or more, of which the first is the master: " +
			"for 1, leave out --framework")
	case o.Framework == MPI && len(o.Command) == 0:
		return nil, errors.New("the command is missing: with --framework mpi, write what the launcher runs after --, " +
			"such as -- sh -c 'mpirun --host $MPI_HOST train'")
	}
	pod, err := o.pod()
	if err != nil {
		return nil, err
	}
	job := &v1alpha1.TrainingJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, Labels: o.Labels},
		Spec:       v1alpha1.TrainingJobSpec{Queue: o.Queue, PriorityClassName: o.Priority},
	}
	if o.Topology != "" || o.Tier != nil {
		mode := cmp.Or(v1alpha1.TopologyMode(o.Topology), v1alpha1.TopologyHard)
		job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: mode, HighestTierAllowed: o.Tier}
	}
	o.tasks(&job.Spec, pod)
	if last := &job.Spec.Tasks[len(job.Spec.Tasks)-1]; o.Spares != 0 {
		last.Spares = &o.Spares
	}
	return job, nil
}

// tasks are those of the framework. The last one has the workers.
func (o *Options) tasks(spec *v1alpha1.TrainingJobSpec, pod corev1.PodTemplateSpec) {
	switch o.Framework {
	case PyTorch:
		spec.Framework = &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{}}
		spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{master}}
		spec.Tasks = []v1alpha1.Task{{Name: master, Replicas: 1, Template: pod}, {Name: worker, Replicas: o.Workers - 1, Template: *pod.DeepCopy()}}
	case MPI:
		spec.Framework = &v1alpha1.Framework{MPI: &v1alpha1.MPI{Launcher: launcher}}
		spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{launcher}}
		launches, works := pod.DeepCopy(), pod.DeepCopy()
		launches.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		works.Spec.Containers[0].Command = sshd
		spec.Tasks = []v1alpha1.Task{{Name: launcher, Replicas: 1, Template: *launches}, {Name: worker, Replicas: o.Workers, Template: *works}}
	default:
		spec.Tasks = []v1alpha1.Task{{Name: worker, Replicas: o.Workers, Template: pod}}
	}
}

// pod is the template of the pods that train.
func (o *Options) pod() (corev1.PodTemplateSpec, error) {
	c := corev1.Container{Name: container, Image: o.Image, Command: o.Command, Resources: corev1.ResourceRequirements{
		Requests: given(corev1.ResourceList{corev1.ResourceCPU: o.CPU.Quantity}), // without a limit, which would slow them down
		Limits: given(corev1.ResourceList{
			gpu: *resource.NewQuantity(int64(o.GPUs), resource.DecimalSI), corev1.ResourceMemory: o.Memory.Quantity,
		}),
	}}
	for _, text := range o.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return corev1.PodTemplateSpec{}, fmt.Errorf("--env: %q has to be NAME=VALUE, such as NCCL_DEBUG=INFO", text)
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	var volumes []corev1.Volume
	for i, text := range o.Mounts {
		claim, path, ok := strings.Cut(text, ":/")
		if !ok || strings.Contains(path, ":") {
			return corev1.PodTemplateSpec{}, fmt.Errorf("--mount: %q has to be CLAIM:/PATH, "+
				"a PersistentVolumeClaim and where it is mounted, such as data:/mnt/data", text)
		}
		name := fmt.Sprintf("mount-%d", i)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + path})
	}
	if !o.Shm.IsZero() { // it counts as memory of the pod
		volumes = append(volumes, corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &o.Shm.Quantity},
		}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
	}
	// The kubelet restarts a rank that crashes in place, which is the fastest recovery.
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{c}, Volumes: volumes, NodeSelector: o.NodeSelector}
	return corev1.PodTemplateSpec{Spec: spec}, nil
}

// given are those of the resources that are not zero; nil where all are.
func given(resources corev1.ResourceList) corev1.ResourceList {
	maps.DeleteFunc(resources, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	if len(resources) == 0 {
		return nil
	}
	return resources
}

// Warnings are about what is valid, and may not do what its author expects, in sentences.
func (o *Options) Warnings() []string {
	var out []string
	setsNodes := slices.ContainsFunc(o.Command, func(arg string) bool {
		return strings.HasPrefix(arg, "--nnodes") || strings.HasPrefix(arg, "--standalone")
	})
	if o.Workers > 1 && len(o.Command) > 0 && path.Base(o.Command[0]) == "torchrun" && !setsNodes {
		out = append(out, "torchrun without --nnodes trains a model of its own in every pod: "+
			"`kubectl lockstep submit --help` has the flags that it needs with --framework pytorch")
	}
	if o.Spares > 0 && o.Framework == PyTorch {
		out = append(out, fmt.Sprintf("a spare replaces ranks of its own task only: those of --spares serve the task %s, and not the %s", worker, master))
	}
	return out
}
