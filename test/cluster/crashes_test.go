// When kubelets start containers again.

package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestACrashedContainerWaits(t *testing.T) {
	ended := metav1.NewTime(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	for crashes, delay := range map[int]time.Duration{
		1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 6: 160 * time.Second, 7: 300 * time.Second, 100: 300 * time.Second,
	} {
		pod := &corev1.Pod{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", RestartCount: int32(crashes - 1), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ended}},
			}}},
		}
		if hasBackedOff(pod, ended) {
			t.Error("a container that runs is started again")
		}
		if err := crashLoop(pod, Termination{ExitCode: 1}, ended); err != nil {
			t.Fatal(err)
		}
		if delay > 0 && hasBackedOff(pod, metav1.NewTime(ended.Add(delay-time.Second))) {
			t.Errorf("after %d crashes it starts before %s have passed", crashes, delay)
		}
		if !hasBackedOff(pod, metav1.NewTime(ended.Add(delay))) {
			t.Errorf("after %d crashes it does not start after %s", crashes, delay)
		}
		if hasRunFor(pod, 0, ended) {
			t.Error("a container that waits counts as one that runs")
		}
	}
}
