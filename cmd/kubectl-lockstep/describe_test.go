package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

const theEvents = "/api/v1/namespaces/default/events"

func TestDescribeReadsAJobWithWhatIsAroundIt(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	job := jobIn("default", "llama", v1alpha1.StateRunning)
	job.UID, job.Status.Attempt = "u1", 1
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 2, Spares: new(int32(1))}}
	job.Status.Placement = &v1alpha1.Placement{HyperNode: "rack", Tasks: []v1alpha1.TaskPlacement{{Name: "worker", Nodes: []string{"n1", "n2"}}}}
	s := &server{objects: map[string]any{
		theJobs + "/llama": job, theJobs + "/mamba": jobIn("default", "mamba", v1alpha1.StateQueued),
		"/api/v1/nodes": corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}},
		thePods: corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Name: "llama-1-worker-spare-0"}, Spec: corev1.PodSpec{NodeName: "n3"}},
		}},
		theEvents: corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}, Items: []corev1.Event{
			{InvolvedObject: corev1.ObjectReference{UID: "u1"}, Reason: "IncidentOpened", Message: "a node is gone"},
		}},
	}}
	groups := resources("v1", "Node", "Pod", "Event")
	groups.APIResources[2].Namespaced = true
	out, err := lockstep("describe", "llama", "mamba", s.serve(t, groups, product))
	check.Equal(t, "error", nil, err)
	for _, want := range []string{
		"TrainingJob default/llama: Running\n", "- worker-0=n1, worker-1=n2, worker-spare-0=n3\n", "IncidentOpened, told by", "a node is gone.", "\n\n\nTrainingJob default/mamba: Queued\n",
		"\n- The HyperNodes could not be read: Volcano is not installed in this cluster",
	} {
		if !strings.Contains(out, want) && !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, want := range []string{
		thePods + "?labelSelector=lockstep.dev%2Fjob-uid%3Du1",
		theEvents + "?fieldSelector=involvedObject.name%3Dllama",
	} {
		if !slices.Contains(s.asked, want) {
			t.Errorf("%s was not asked for, but %v", want, s.asked)
		}
	}
}

func TestDescribeNeedsAName(t *testing.T) {
	_, err := lockstep("describe")
	if err == nil || !strings.HasPrefix(err.Error(), "the name of a TrainingJob is missing") {
		t.Errorf("got %v", err)
	}
}
