// How many pods of each task the gang needs, also after a change of the replicas.

package volcano

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestShareGang(t *testing.T) {
	elastic := v1alpha1.Task{Name: "worker", Replicas: 4, MinReplicas: new(int32(2)), MaxReplicas: new(int32(8)), Spares: new(int32(2))}
	fixed := v1alpha1.Task{Name: "data", Replicas: 2}
	tests := map[string]struct {
		tasks    []v1alpha1.Task
		given    *int32           // spec.minAvailable
		replicas map[string]int32 // later
		warm     bool             // spares take over
		want     map[string]int32
	}{
		"all pods":        {tasks: []v1alpha1.Task{elastic, fixed}, want: map[string]int32{"worker": 4, "worker-spare": 0, "data": 2}},
		"all, then fewer": {tasks: []v1alpha1.Task{elastic, fixed}, replicas: map[string]int32{"worker": 3}, want: map[string]int32{"worker": 3, "worker-spare": 0, "data": 2}},
		"all, then more":  {tasks: []v1alpha1.Task{fixed, elastic}, replicas: map[string]int32{"worker": 8}, want: map[string]int32{"worker": 8, "worker-spare": 0, "data": 2}},
		"what an elastic task is sure to have": {
			tasks: []v1alpha1.Task{elastic, fixed}, given: new(int32(4)),
			want: map[string]int32{"worker": 2, "worker-spare": 0, "data": 2},
		},
		"the first tasks first": {
			tasks: []v1alpha1.Task{fixed, elastic}, given: new(int32(3)), replicas: map[string]int32{"worker": 2, "worker-spare": 0},
			want: map[string]int32{"worker": 1, "worker-spare": 0, "data": 2},
		},
		"spares that may have the ranks of their task": {
			tasks: []v1alpha1.Task{{Name: "worker", Replicas: 4, Spares: new(int32(1))}, {Name: "head", Replicas: 1, Spares: new(int32(2))}, fixed}, warm: true,
			want: map[string]int32{"worker": 3, "worker-spare": 0, "head": 0, "head-spare": 0, "data": 2},
		},
		"a task that the gang does without": {
			tasks: []v1alpha1.Task{elastic, fixed}, given: new(int32(1)),
			want: map[string]int32{"worker": 1, "worker-spare": 0, "data": 0},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Tasks: tc.tasks, MinAvailable: tc.given}}
			if tc.warm {
				job.Spec.Supervisor = &v1alpha1.Supervisor{TakeOver: &v1alpha1.TakeOver{}}
				for i := range job.Spec.Tasks {
					job.Spec.Tasks[i].Template.Spec.Containers = []corev1.Container{{Name: "train"}}
				}
			}
			v := Render(job, 1, &Supervision{})
			for i := range v.Spec.Tasks {
				task := &v.Spec.Tasks[i]
				if n, ok := tc.replicas[task.Name]; ok {
					if tc.given == nil {
						v.Spec.MinAvailable += n - task.Replicas
					}
					task.Replicas = n
				}
			}
			ShareGang(&v.Spec, job)
			got, sum := map[string]int32{}, int32(0)
			for _, task := range v.Spec.Tasks {
				got[task.Name] = *task.MinAvailable
				sum += *task.MinAvailable
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			// With more, Volcano would ask for no pod of any task in particular.
			if sum != v.Spec.MinAvailable && !tc.warm {
				t.Errorf("the shares sum up to %d, minAvailable is %d", sum, v.Spec.MinAvailable)
			}
		})
	}
}
