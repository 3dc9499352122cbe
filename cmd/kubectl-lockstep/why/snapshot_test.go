package why

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

var t0 = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// before is a time so many minutes before now, and micro the same for incidents.
func before(minutes int) metav1.Time {
	return metav1.NewTime(t0.Add(-time.Duration(minutes) * time.Minute))
}

func micro(minutes int) metav1.MicroTime { return metav1.NewMicroTime(before(minutes).Time) }

// running is a job of 4 workers on nodes n0 to n3 of rack-a, for an hour.
func running() *Snapshot {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llm", UID: "11111111-2222", Generation: 1},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: "default", NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(1))},
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: 4, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: resource.MustParse("8")}}}},
			}}}},
		},
		Status: v1alpha1.TrainingJobStatus{
			ObservedGeneration: 1, State: v1alpha1.StateRunning, Attempt: 1,
			Tasks: []v1alpha1.TaskStatus{{Name: "worker", Replicas: 4, Ready: 4}},
			Placement: &v1alpha1.Placement{HyperNode: "rack-a", Tier: new(int32(1)), Tasks: []v1alpha1.TaskPlacement{
				{Name: "worker", Nodes: []string{"n0", "n1", "n2", "n3"}},
			}},
		},
	}
	s := &Snapshot{Now: t0, Job: job}
	s.Queue = &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	s.set(v1alpha1.ConditionScheduled, true, v1alpha1.ReasonPodsScheduled, "every pod of the gang has a node")
	s.set(v1alpha1.ConditionRunning, true, v1alpha1.ReasonPodsReady, "every pod of the gang is ready")
	s.PodGroup = &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "llm-1-uid"}, Spec: scheduling.PodGroupSpec{MinMember: 4}}
	s.PodGroup.Status.Phase = scheduling.PodGroupRunning
	for i := range 4 {
		node := fmt.Sprintf("n%d", i)
		s.Nodes = append(s.Nodes, readyNode(node))
		s.Pods = append(s.Pods, podOn(i, node))
	}
	s.Topology = topology.New([]topology.HyperNode{
		{Name: "rack-a", Tier: 1, Nodes: []string{"n0", "n1", "n2", "n3"}}, {Name: "spine", Tier: 2, Nodes: []string{"n0", "n1", "n2", "n3"}},
	})
	return s
}

// queued is the same job, while it waits for its queue.
func queued() *Snapshot {
	s := running()
	s.Job.Status.State, s.Job.Status.Placement, s.Pods = v1alpha1.StateQueued, nil, nil
	s.set(v1alpha1.ConditionScheduled, false, v1alpha1.ReasonQueued, "waits for room in queue default")
	s.set(v1alpha1.ConditionRunning, false, v1alpha1.ReasonPodsNotReady, "some pods of the gang are not ready")
	s.PodGroup.Status.Phase = scheduling.PodGroupPending
	return s
}

// recoveringFrom is the job while an incident of its second worker is open, whose pod is gone.
func recoveringFrom(inc v1alpha1.Incident) *Snapshot {
	s := running()
	s.Job.Status.State = v1alpha1.StateRecovering
	s.Job.Status.Incidents = []v1alpha1.Incident{inc}
	s.set(v1alpha1.ConditionRecovering, true, v1alpha1.ReasonIncidentOpen, inc.Message)
	return s
}

// anIncident is one of the second worker, which failed on node n1, and was restarted.
func anIncident() v1alpha1.Incident {
	return v1alpha1.Incident{
		ID: 7, Trigger: v1alpha1.PodFailed, Class: v1alpha1.ClassUser, Rule: "everything-else", StartTime: micro(10), PodCount: 1,
		Pods:    []v1alpha1.IncidentPod{{Name: "llm-1-worker-1", Task: "worker", Index: 1, Node: "n1"}},
		Steps:   []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: micro(9)}},
		Message: "incident 7, PodFailed of pod llm-1-worker-1",
	}
}

// over is an incident that was recovered from.
func over(inc v1alpha1.Incident) v1alpha1.Incident {
	inc.EndTime, inc.Outcome = new(micro(8)), v1alpha1.OutcomeRecovered
	return inc
}

func (s *Snapshot) set(condition string, value bool, reason, message string) {
	status := metav1.ConditionFalse
	if value {
		status = metav1.ConditionTrue
	}
	conditions := &s.Job.Status.Conditions
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool { return c.Type == condition })
	*conditions = append(*conditions, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message, LastTransitionTime: before(60)})
}

func readyNode(name string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Allocatable: corev1.ResourceList{gpu: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")},
	}}
}

// podOn is the pod of a worker; without a node it has not been looked at.
func podOn(index int, node string) corev1.Pod {
	phase := corev1.PodRunning
	if node == "" {
		phase = corev1.PodPending
	}
	name := fmt.Sprintf("llm-1-worker-%d", index)
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: before(60), Labels: map[string]string{v1alpha1.LabelAttempt: "1"},
			Annotations: map[string]string{v1alpha1.AnnotationPlacedTime: before(60).Format(time.RFC3339Nano), v1alpha1.AnnotationResume: "false"},
		},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

// pinned confines a pod to nodes, as the manager does.
func pinned(p *corev1.Pod, nodes ...string) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n0", "n1", "n2", "n3", "n4"}}, // the user's own
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n9"}},
		}}},
	}}}
	p.Annotations[v1alpha1.AnnotationResume] = "true"
}

func unschedulable(p *corev1.Pod, message string) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
}

// sentences are facts with their sources.
func sentences(facts []Fact) []string {
	var out []string
	for _, f := range facts {
		out = append(out, f.Text+" ["+f.Source+"]")
	}
	return out
}

// added are the sentences that a change of a snapshot brings.
func added(s *Snapshot, change func(*Snapshot), ask func(*Snapshot) []Fact) []string {
	was := sentences(ask(s))
	change(s)
	return slices.DeleteFunc(sentences(ask(s)), func(one string) bool { return slices.Contains(was, one) })
}
