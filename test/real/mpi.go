package real

import (
	"context"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// MPIImage has an MPI program, and finds Open MPI, OpenSSH and python in the host's folders, which its pods mount.
const MPIImage = "lockstep-mpi:dev"

// LoadMPI puts the image of the MPI program on every node.
func (g *Ground) LoadMPI(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	workload := filepath.Join(root, "test", "workloads", "mpi")
	image := images.Image{
		Files: map[string]string{
			"/train.py": filepath.Join(workload, "train.py"), "/launch": filepath.Join(workload, "launch"), "/work": filepath.Join(workload, "work"),
			"/etc/passwd": filepath.Join(workload, "passwd"),
		},
		Links:   map[string]string{"/bin": "usr/bin", "/lib": "usr/lib", "/lib64": "usr/lib64"},
		Folders: []string{"/usr", "/etc/alternatives", "/etc/openmpi", "/root", "/run", "/tmp"},
	}
	archive := filepath.Join(g.dir, "mpi.tar")
	if err := images.WriteArchive(archive, MPIImage, image); err != nil {
		return err
	}
	return g.LoadImage(ctx, archive)
}

// NewMPI describes a job of a launcher and so many workers with a rank each. What the ranks print is in the launcher's output.
func (g *Ground) NewMPI(name string, workers, steps int) *Training {
	t := g.NewTraining(name, workers+1, steps)
	t.Job.Spec.Framework = &v1alpha1.Framework{MPI: &v1alpha1.MPI{}}
	t.Job.Spec.SuccessPolicy = &v1alpha1.SuccessPolicy{Tasks: []string{"master"}}
	for i := range t.Job.Spec.Tasks {
		pod := &t.Job.Spec.Tasks[i].Template.Spec
		container := &pod.Containers[0]
		container.Image, container.ReadinessProbe, container.Args = MPIImage, nil, nil
		container.Command = []string{"/work"}
		if t.Job.Spec.Tasks[i].Name == "master" {
			container.Command = []string{"/launch"}
			delete(container.Resources.Limits, gpuResource)
		}
		container.Env = []corev1.EnvVar{
			{Name: "STEPS", Value: strconv.Itoa(steps)}, {Name: "STEP_TIME", Value: "0.1"}, {Name: "SHARED", Value: cluster.SharedPath},
		}
		for volume, path := range hostPython {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true})
			pod.Volumes = append(pod.Volumes, hostFolder(volume, path))
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "openmpi", MountPath: "/etc/openmpi", ReadOnly: true})
		pod.Volumes = append(pod.Volumes, hostFolder("openmpi", "/etc/openmpi"))
		container.VolumeMounts[1].SubPath = t.folder
	}
	return t
}
