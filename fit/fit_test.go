package fit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/fit"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestDefaultRequests(t *testing.T) {
	container := func(limits, requests corev1.ResourceList) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: limits, Requests: requests}}
	}
	tests := []struct {
		name              string
		given, afterwards corev1.Container
	}{
		{"only limits", container(list("nvidia.com/gpu", "8"), nil), container(list("nvidia.com/gpu", "8"), list("nvidia.com/gpu", "8"))},
		{
			"a request below its limit stays", container(list("cpu", "4", "memory", "1Gi"), list("cpu", "1")),
			container(list("cpu", "4", "memory", "1Gi"), list("cpu", "1", "memory", "1Gi")),
		},
		{"only requests", container(nil, list("cpu", "1")), container(nil, list("cpu", "1"))},
		{"neither", container(nil, nil), container(nil, nil)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := corev1.PodSpec{Containers: []corev1.Container{test.given}, InitContainers: []corev1.Container{*test.given.DeepCopy()}}
			fit.DefaultRequests(&got)
			want := corev1.PodSpec{Containers: []corev1.Container{test.afterwards}, InitContainers: []corev1.Container{test.afterwards}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
