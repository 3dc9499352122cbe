package real

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TorchImage has a PyTorch script, and finds python and torch in the host's folders, which its pods
// mount.
const TorchImage = "lockstep-torch:dev"

// hostPython are the host's folders that Debian's python3-torch needs.
var hostPython = map[string]string{"usr": "/usr", "alternatives": "/etc/alternatives"}

// LoadTorch puts the image of the PyTorch script on every node.
func (g *Ground) LoadTorch(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	image := images.Image{
		Files:   map[string]string{"/train.py": filepath.Join(root, "test", "workloads", "torchrun", "train.py")},
		Links:   map[string]string{"/bin": "usr/bin", "/lib": "usr/lib", "/lib64": "usr/lib64"},
		Folders: []string{"/usr", "/etc/alternatives"},
	}
	archive := filepath.Join(g.dir, "torch.tar")
	if err := images.WriteArchive(archive, TorchImage, image); err != nil {
		return err
	}
	return g.LoadImage(ctx, archive)
}

// ownRestarts has an agent start its worker again after a failure.
const ownRestarts = "--max_restarts=10"

// LeaveRestarts has torchrun's agents end when a worker fails, and restart none of them.
func (t *Training) LeaveRestarts() {
	for i := range t.Job.Spec.Tasks {
		args := t.Job.Spec.Tasks[i].Template.Spec.Containers[0].Args
		args[slices.Index(args, ownRestarts)] = "--max_restarts=0"
	}
}

// PostProgress has rank 0 say how far it is as Hugging Face's trainer does.
func (t *Training) PostProgress() {
	for i := range t.Job.Spec.Tasks {
		container := &t.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		container.Env = append(container.Env, corev1.EnvVar{Name: "POST_PROGRESS", Value: "1"})
	}
}

// WithoutAgents has the ranks of torchrun's job be the workers themselves.
func (t *Training) WithoutAgents() {
	for i := range t.Job.Spec.Tasks {
		container := &t.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		container.Command, container.Args = []string{"/usr/bin/python3", "/train.py"}, nil
	}
}

// NewTorchrun describes a job whose ranks are agents of torchrun with a worker each. Losses are in the
// workers' output.
func (g *Ground) NewTorchrun(name string, ranks, steps int) *Training {
	t := g.NewTraining(name, ranks, steps)
	for i := range t.Job.Spec.Tasks {
		pod := &t.Job.Spec.Tasks[i].Template.Spec
		container := &pod.Containers[0]
		container.Image, container.ReadinessProbe = TorchImage, nil
		// The store is hosted by the master's agent, and by no other.
		container.Command = []string{"/usr/bin/python3", "-m", "torch.distributed.run"}
		container.Args = []string{
			fmt.Sprintf("--nnodes=%d", ranks), "--nproc_per_node=1", ownRestarts, "--redirects=1", "--tee=1",
			"--rdzv_backend=c10d", "--rdzv_endpoint=$(MASTER_ADDR):29601", "--rdzv_id=$(LOCKSTEP_JOB)",
			"--rdzv_conf=is_host=" + strconv.FormatBool(t.Job.Spec.Tasks[i].Name == "master"), "/train.py",
		}
		container.Env = []corev1.EnvVar{
			{Name: "STEPS", Value: strconv.Itoa(steps)}, {Name: "STEP_TIME", Value: "0.1"}, {Name: "SHARED", Value: cluster.SharedPath},
			{Name: "PYTHONUNBUFFERED", Value: "1"}, // of the agents, which print what their workers do
		}
		for volume, path := range hostPython {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true})
			pod.Volumes = append(pod.Volumes, hostFolder(volume, path))
		}
		container.VolumeMounts[1].SubPath = t.folder
	}
	return t
}
