// Resources: what a pod asks for beside its image.

package newjob

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resources are those of a pod that trains. CPUs are requested without a limit, which would slow it down.
func (o *Options) resources() (corev1.ResourceRequirements, error) {
	out := corev1.ResourceRequirements{}
	if o.GPUs > 0 {
		out.Limits = corev1.ResourceList{gpu: *resource.NewQuantity(o.GPUs, resource.DecimalSI)}
	}
	cpu, errCPU := quantity("cpu", o.CPU)
	if cpu != nil {
		out.Requests = corev1.ResourceList{corev1.ResourceCPU: *cpu}
	}
	memory, errMemory := quantity("memory", o.Memory)
	if memory != nil {
		if out.Limits == nil {
			out.Limits = corev1.ResourceList{}
		}
		out.Limits[corev1.ResourceMemory] = *memory
	}
	return out, errors.Join(errCPU, errMemory)
}

// sharedMemory is the volume of /dev/shm, which counts as memory of the pod.
func sharedMemory(size string) (corev1.Volume, error) {
	limit, err := quantity("shm", size)
	return corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: limit},
	}}, err
}

// quantity reads the value of a flag; nil where it is not given.
func quantity(flag, text string) (*resource.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return nil, fmt.Errorf("--%s: %q has to be a quantity of Kubernetes, such as 16 or 64Gi", flag, text)
	}
	return &q, nil
}
