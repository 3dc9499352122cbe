package real

import "github.com/lockstep-dev/lockstep/api/v1alpha1"

// Impatient replaces a silent node's rank after five seconds, as the sample of the quickstart does.
// The default waits for 90 s, and for 60 s more until a pod there counts as dead.
func Impatient(t *Training) {
	t.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{
		Rules: []v1alpha1.Rule{
			{
				Name:  "node-lost",
				Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeNotReady, v1alpha1.NodeGone}},
				Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 5}, {Action: v1alpha1.RestartJob, AfterSeconds: 300}},
			},
			{
				Name:  "comes-back-in-place",
				Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.PodNotReady}},
				Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 90}, {Action: v1alpha1.RestartJob, AfterSeconds: 300}},
			},
			{
				Name:  "everything-else",
				Match: v1alpha1.Match{Events: []v1alpha1.EventType{"*"}},
				Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RestartJob, AfterSeconds: 300}},
			},
		},
		UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(5))},
	}
}
