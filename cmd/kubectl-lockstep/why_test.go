package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestWhyAndMapNameWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":        {[]string{"why"}, "the name of a TrainingJob is missing"},
		"too many":       {[]string{"why", "llama", "worker-0", "worker-1"}, "accepts at most 2 arg(s), received 3"},
		"two jobs":       {[]string{"map", "llama", "other"}, "accepts at most 1 arg(s), received 2"},
		"all of a rank":  {[]string{"why", "llama", "worker-0", "--all"}, "--all: give either that or the rank worker-0"},
		"no such config": {[]string{"why", "llama", "--kubeconfig", "nowhere"}, "nowhere: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lockstep(tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A name that is no job, or a pod that never was, has no answer: the error says what there is.
func TestWhyOfNamesThatAreNot(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	job := jobIn("default", "llama", v1alpha1.StateRunning)
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 2}}
	s := &server{objects: map[string]any{theJobs: listOf(job), theJobs + "/llama": job}}
	for _, kind := range []string{"pods", "events"} {
		s.objects["/api/v1/namespaces/default/"+kind] = metav1.List{TypeMeta: metav1.TypeMeta{Kind: map[string]string{"pods": "PodList", "events": "EventList"}[kind], APIVersion: "v1"}}
	}
	address := s.serve(t, resources("v1", "Namespace", "Node", "Pod", "Event"), product)
	for name, want := range map[string]string{
		"pod/llama-1-worker-7": "there is no pod llama-1-worker-7, and nothing that is recorded tells of one: TrainingJob llama has worker-0 to worker-1, in attempt 1",
		"pod/lama-1-worker-0":  `"lama-1-worker-0" is no name of a pod of a TrainingJob in namespace default: these are JOB-ATTEMPT-TASK-INDEX, and the TrainingJob has to exist`,
		"llama-1-worker-1":     "llama-1-worker-1 is a pod and no TrainingJob: ask with `kubectl lockstep why pod/llama-1-worker-1`",
	} {
		_, err := lockstep("why", name, address)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got  %v\nwant %s", name, err, want)
		}
	}
	_, err := lockstep("why", "lama", address)
	if err == nil || !strings.HasSuffix(err.Error(), "lists those of all namespaces") {
		t.Errorf("got %v", err)
	}
}
