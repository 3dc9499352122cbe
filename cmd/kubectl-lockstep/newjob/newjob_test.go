package newjob

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func options(change func(*Options)) Options {
	o := Options{Name: "llama", Framework: None, Workers: 8, GPUs: 8, Image: "registry.example/llama:1", Command: []string{"train", "--fast"}}
	change(&o)
	return o
}

func made(t *testing.T, change func(*Options)) *v1alpha1.TrainingJobSpec {
	t.Helper()
	job, err := Of(options(change))
	check.Equal(t, "error", nil, err)
	return &job.Spec
}

// shape is what each task has: its name, replicas, spares, GPUs and command.
func shape(spec *v1alpha1.TrainingJobSpec) string {
	var out []string
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		c := &task.Template.Spec.Containers[0]
		gpus := c.Resources.Limits[gpu]
		out = append(out, strings.Join([]string{task.Name, string('0' + rune(task.Replicas)), string('0' + ptr.Deref(task.Spares, 0)), gpus.String(), c.Command[0]}, " "))
	}
	return strings.Join(out, ", ")
}

func TestTasksOfAFramework(t *testing.T) {
	for framework, want := range map[string]string{
		None:    "worker 8 1 8 train",
		PyTorch: "master 1 0 8 train, worker 7 1 8 train",
		MPI:     "launcher 1 0 0 train, worker 8 1 8 sh",
	} {
		t.Run(framework, func(t *testing.T) {
			spec := made(t, func(o *Options) { o.Framework, o.Spares = framework, 1 })
			check.Equal(t, "tasks", want, shape(spec))
			check.Equal(t, "success of one task", framework != None, spec.SuccessPolicy != nil)
		})
	}
}

func TestWhatThePodsHave(t *testing.T) {
	spec := made(t, func(o *Options) {
		o.Env, o.Mounts, o.Queue = []string{"A=b=c", "EMPTY="}, []string{"data:/mnt/data", "out.v2:/out"}, "research"
	})
	pod := spec.Tasks[0].Template.Spec
	check.Equal(t, "env", []corev1.EnvVar{{Name: "A", Value: "b=c"}, {Name: "EMPTY"}}, pod.Containers[0].Env)
	check.Equal(t, "mounts", []corev1.VolumeMount{{Name: "mount-0", MountPath: "/mnt/data"}, {Name: "mount-1", MountPath: "/out"}}, pod.Containers[0].VolumeMounts)
	check.Equal(t, "claim", "out.v2", pod.Volumes[1].PersistentVolumeClaim.ClaimName)
	check.Equal(t, "restartPolicy", corev1.RestartPolicyOnFailure, pod.RestartPolicy)
	check.Equal(t, "queue", "research", spec.Queue)
}

func TestTopology(t *testing.T) {
	tier := new(int32(2))
	for name, tc := range map[string]struct {
		topology string
		tier     *int32
		want     *v1alpha1.NetworkTopology
	}{
		"none":             {"", nil, nil},
		"a tier":           {"", tier, &v1alpha1.NetworkTopology{Mode: "hard", HighestTierAllowed: tier}},
		"hard":             {"hard", tier, &v1alpha1.NetworkTopology{Mode: "hard", HighestTierAllowed: tier}},
		"soft":             {"soft", nil, &v1alpha1.NetworkTopology{Mode: "soft"}},
		"soft with a tier": {"soft", tier, &v1alpha1.NetworkTopology{Mode: "soft", HighestTierAllowed: tier}},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "topology", tc.want, made(t, func(o *Options) { o.Topology, o.Tier = tc.topology, tc.tier }).NetworkTopology)
		})
	}
}

func TestMistakesNameTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--image is missing":      func(o *Options) { o.Image = "" },
		"--workers: 0 is too few": func(o *Options) { o.Workers = 0 },
		"--workers: with --framework pytorch there are 2 or more": func(o *Options) { o.Framework, o.Workers = PyTorch, 1 },
		`--env: "A" has to be NAME=VALUE`:                         func(o *Options) { o.Env = []string{"A"} },
		`--mount: "data:mnt" has to be CLAIM:/PATH`:               func(o *Options) { o.Mounts = []string{"data:mnt"} },
		`--mount: "data:/mnt:ro" has to be CLAIM:/PATH`:           func(o *Options) { o.Mounts = []string{"data:/mnt:ro"} },
		"the command is missing: with --framework mpi":            func(o *Options) { o.Framework, o.Command = MPI, nil },
	} {
		_, err := Of(options(change))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestResources(t *testing.T) {
	spec := made(t, func(o *Options) {
		o.CPU.Quantity, o.Memory.Quantity, o.Shm.Quantity = resource.MustParse("16"), resource.MustParse("64Gi"), resource.MustParse("8Gi")
		o.Priority, o.NodeSelector = "high", map[string]string{"gpu": "h200"}
	})
	pod := spec.Tasks[0].Template.Spec
	c := pod.Containers[0]
	check.Equal(t, "cpu", "16", c.Resources.Requests.Cpu().String())
	check.Equal(t, "memory", "64Gi", c.Resources.Limits.Memory().String())
	check.Equal(t, "shm", "8Gi", pod.Volumes[0].EmptyDir.SizeLimit.String())
	check.Equal(t, "mounts", []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}, c.VolumeMounts)
	check.Equal(t, "priority", "high", spec.PriorityClassName)
	check.Equal(t, "nodeSelector", map[string]string{"gpu": "h200"}, pod.NodeSelector)
}

func TestWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"nothing":                    {func(*Options) {}, ""},
		"torchrun in each pod alone": {func(o *Options) { o.Command = []string{"/usr/bin/torchrun", "train.py"} }, "torchrun without --nnodes"},
		"torchrun of one pod":        {func(o *Options) { o.Command, o.Workers = []string{"torchrun", "train.py"}, 1 }, ""},
		"torchrun of all pods":       {func(o *Options) { o.Command = []string{"torchrun", "--nnodes=$(WORLD_SIZE)", "train.py"} }, ""},
		"a master without spares":    {func(o *Options) { o.Framework, o.Spares = PyTorch, 1 }, "a spare replaces ranks of its own task only"},
		"spares of the only task":    {func(o *Options) { o.Spares = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(tc.change)
			got := strings.Join(o.Warnings(), "; ")
			check.Equal(t, "warned", tc.want != "", got != "")
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
