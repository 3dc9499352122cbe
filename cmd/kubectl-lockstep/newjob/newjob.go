// Package newjob makes a TrainingJob of what the flags of a command line say. It reads nothing: the same flags give the same job.
package newjob

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Options say what job is made. Each is a flag of that name.
type Options struct {
	Name, Namespace string
	Framework       string
	Workers         int32
	GPUs            int64
	Image           string
	Topology        string
	Tier            *int32
	Queue           string
	Spares          int32
	CPU, Memory     string
	Shm             string
	Priority        string
	Labels          map[string]string
	NodeSelector    map[string]string
	Mounts          []string
	Env             []string
	Command         []string
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

// maxSpares is how many spares a task may have: the API's limit.
const maxSpares = 1000

// gpu is the resource of a whole GPU.
const gpu corev1.ResourceName = "nvidia.com/gpu"

// sshd is what the workers of MPI run, in which the launcher starts the ranks.
var sshd = []string{"sh", "-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D"}

// Of makes the job. An error names the flag that is wrong.
func Of(o Options) (*v1alpha1.TrainingJob, error) {
	pod, podErr := o.pod()
	topology, topologyErr := o.networkTopology()
	if err := errors.Join(o.validate(), podErr, topologyErr); err != nil {
		return nil, err
	}
	job := &v1alpha1.TrainingJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, Labels: o.Labels},
		Spec:       v1alpha1.TrainingJobSpec{Queue: o.Queue, PriorityClassName: o.Priority, NetworkTopology: topology},
	}
	o.tasks(&job.Spec, pod)
	if last := &job.Spec.Tasks[len(job.Spec.Tasks)-1]; o.Spares > 0 {
		last.Spares = &o.Spares
	}
	return job, nil
}

func (o *Options) validate() error {
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!slices.Contains(Frameworks, o.Framework), "--framework: %q is not known: give one of %s", o.Framework, strings.Join(Frameworks, ", "))
	refuse(o.Image == "", "--image is missing: give the image of the program")
	refuse(o.Workers < 1, "--workers: %d is too few: give 1 or more", o.Workers)
	refuse(o.Workers == 1 && o.Framework == PyTorch, "--workers: with --framework pytorch there are 2 or more, of which the first is the master: for 1, leave out --framework")
	refuse(o.GPUs < 0, "--gpus: %d is negative: give 0 or more", o.GPUs)
	refuse(o.Spares < 0, "--spares: %d is negative: give 0 or more", o.Spares)
	refuse(o.Spares > maxSpares, "--spares: %d are too many: give %d at most", o.Spares, maxSpares)
	refuse(o.Framework == MPI && len(o.Command) == 0, "the command is missing: with --framework mpi, write what the launcher runs after --, such as -- sh -c 'mpirun --host $MPI_HOST train'")
	return errors.Join(errs...)
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

// networkTopology is hard where only a tier is given.
func (o *Options) networkTopology() (*v1alpha1.NetworkTopology, error) {
	t := &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyMode(o.Topology), HighestTierAllowed: o.Tier}
	switch {
	case o.Topology == "" && o.Tier == nil:
		return nil, nil
	case o.Topology == "":
		t.Mode = v1alpha1.TopologyHard
	case t.Mode != v1alpha1.TopologyHard && t.Mode != v1alpha1.TopologySoft:
		return nil, fmt.Errorf("--topology: %q is not known: give hard or soft", o.Topology)
	case t.Mode == v1alpha1.TopologyHard && o.Tier == nil:
		return nil, errors.New("--tier is missing: --topology hard needs the highest tier of HyperNode that may hold all pods together, which `kubectl get hypernodes` shows")
	}
	return t, nil
}

// pod is the template of the pods that train.
func (o *Options) pod() (corev1.PodTemplateSpec, error) {
	c := corev1.Container{Name: container, Image: o.Image, Command: o.Command}
	resources, err := o.resources()
	c.Resources = resources
	errs := []error{err}
	for _, text := range o.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok || len(validation.IsEnvVarName(name)) > 0 {
			errs = append(errs, fmt.Errorf("--env: %q has to be NAME=VALUE, such as NCCL_DEBUG=INFO", text))
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	var volumes []corev1.Volume
	for i, text := range o.Mounts {
		claim, path, _ := strings.Cut(text, ":")
		if len(validation.IsDNS1123Subdomain(claim)) > 0 || !strings.HasPrefix(path, "/") || strings.Contains(path, ":") {
			errs = append(errs, fmt.Errorf("--mount: %q has to be CLAIM:/PATH, a PersistentVolumeClaim and where it is mounted, such as data:/mnt/data", text))
		}
		name := fmt.Sprintf("mount-%d", i)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
	if o.Shm != "" {
		volume, err := sharedMemory(o.Shm)
		volumes, errs = append(volumes, volume), append(errs, err)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: "/dev/shm"})
	}
	// The kubelet restarts a rank that crashes in place, which is the fastest recovery.
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{c}, Volumes: volumes, NodeSelector: o.NodeSelector}
	return corev1.PodTemplateSpec{Spec: spec}, errors.Join(errs...)
}
