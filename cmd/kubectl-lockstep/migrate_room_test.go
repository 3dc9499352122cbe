package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A spare that has no node is no room, and neither is one of another task.
func TestASpareServesItsOwnTask(t *testing.T) {
	job := &v1alpha1.TrainingJob{}
	job.Spec.Tasks = []v1alpha1.Task{{Name: "master"}, {Name: "worker", Spares: new(int32(2))}, {Name: "loader", Spares: new(int32(1))}}
	job.Status.Tasks = []v1alpha1.TaskStatus{{Name: "worker-spare", Ready: 1}, {Name: "loader-spare"}}
	for task, want := range map[string]bool{"master": false, "worker": true, "loader": false} {
		check.Equal(t, task, want, hasSpare(job, task))
	}
}
