package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

const thePods = "/api/v1/namespaces/default/pods"

// loggingServer has a job of three ranks, of which the first has logged two lines, the second one, and the third has not started.
func loggingServer() *server {
	job := jobIn("default", "llama", v1alpha1.StateRunning)
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 3}}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for _, name := range []string{"llama-1-worker-0", "llama-1-worker-1", "llama-1-worker-2"} {
		p := podNamed(name, "n1", map[string]string{v1alpha1.LabelAttempt: "1"}, nil)
		p.Spec.Containers[0].Name = "train"
		pods.Items = append(pods.Items, p)
	}
	return &server{objects: map[string]any{
		theJobs + "/llama": job, thePods: pods,
		thePods + "/llama-1-worker-0/log": "step 1\nstep 2\n", thePods + "/llama-1-worker-1/log": "step 1",
		thePods + "/llama-1-worker-2/log": refusal(400, metav1.StatusReasonBadRequest, "container train is waiting to start"),
	}}
}

func TestLogs(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	const waits = "rank worker-2: container train is waiting to start"
	for name, tc := range map[string]struct {
		args  []string
		want  string
		err   string
		query url.Values // of the last request
	}{
		"a rank":                {[]string{"worker-1"}, "step 1\n", "", url.Values{"container": {"train"}}},
		"by its pod":            {[]string{"llama-1-worker-0"}, "step 1\nstep 2\n", "", url.Values{"container": {"train"}}},
		"the first":             {nil, "step 1\nstep 2\n", "", url.Values{"container": {"train"}}},
		"all":                   {[]string{"--all"}, "[worker-0] step 1\n[worker-0] step 2\n[worker-1] step 1\n", waits, url.Values{"container": {"train"}}},
		"the last ones":         {[]string{"worker-0", "--tail", "1", "-f"}, "step 1\nstep 2\n", "", url.Values{"container": {"train"}, "tailLines": {"1"}, "follow": {"true"}}},
		"the youngest":          {[]string{"worker-0", "--since", "90s", "--timestamps"}, "step 1\nstep 2\n", "", url.Values{"container": {"train"}, "sinceSeconds": {"90"}, "timestamps": {"true"}}},
		"fewer lines than none": {[]string{"worker-0", "--tail=-3"}, "", "--tail: -3 is negative: give a number of lines, or -1 for all", nil},
		"no previous": {[]string{"worker-0", "--previous"}, "", "rank worker-0 has no previous log: container train of pod llama-1-worker-0 has not restarted, and no earlier pod of the rank is left: logs go with their pods",
			url.Values{"labelSelector": {"lockstep.dev/job-uid="}, "limit": {"500"}}},
		"no rank":  {[]string{"worker-7"}, "", `"worker-7" names no rank of TrainingJob llama: give one of worker-0 to worker-2, or the name of its pod`, url.Values{}},
		"too many": {[]string{"--all", "-f", "--max-log-requests", "2"}, "", "--max-log-requests: there are 3 logs to follow, and 2 may be: raise it, or name a rank", url.Values{}},
		"both":     {[]string{"worker-0", "--all"}, "", "--all: give either that or the rank worker-0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := loggingServer()
			out, err := lockstep(append([]string{"logs", "llama", s.serve(t, core, product)}, tc.args...)...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "output", tc.want, out)
			if tc.query == nil {
				return
			}
			asked, err := url.Parse(s.asked[len(s.asked)-1])
			check.Equal(t, "error", nil, err)
			check.Equal(t, "query", tc.query, asked.Query())
		})
	}
}

// The API server has the log from the kubelet, which may not answer.
func TestLogsOfASilentNode(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	s := loggingServer()
	s.objects[thePods+"/llama-1-worker-0/log"] = refusal(500, metav1.StatusReasonInternalError, `Get "https://10.0.0.1:10250/containerLogs": dial tcp: connection refused`)
	s.objects["/api/v1/nodes/n1"] = corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}}
	_, err := lockstep("logs", "llama", "worker-0", s.serve(t, core, product))
	if want := "rank worker-0: the kubelet of node n1 does not give the log of pod llama-1-worker-0: the node has never been Ready. "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// Logs that are not followed come in the order of the ranks.
func TestLogsOfManyRanks(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	job := jobIn("default", "llama", v1alpha1.StateRunning)
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 40}}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	s := &server{objects: map[string]any{theJobs + "/llama": job}}
	var want strings.Builder
	for i := range 40 {
		p := podNamed(fmt.Sprintf("llama-1-worker-%d", i), "n1", map[string]string{v1alpha1.LabelAttempt: "1"}, nil)
		p.Spec.Containers[0].Name = "train"
		pods.Items = append(pods.Items, p)
		s.objects[thePods+"/"+p.Name+"/log"] = "done\n"
		fmt.Fprintf(&want, "[worker-%d] done\n", i)
	}
	s.objects[thePods] = pods
	out, err := lockstep("logs", "llama", "--all", s.serve(t, core, product))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "output", want.String(), out)
}

func TestLogsOfAllRanksAtOnce(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	s := loggingServer()
	out, err := lockstep("logs", "llama", "--all", "-f", s.serve(t, core, product))
	if err == nil || !strings.Contains(err.Error(), "rank worker-2: container train is waiting to start") {
		t.Errorf("error %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	check.Equal(t, "lines", []string{"[worker-0] step 1", "[worker-0] step 2", "[worker-1] step 1"}, lines)
}
