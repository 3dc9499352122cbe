package main

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func listOf(jobs ...v1alpha1.TrainingJob) v1alpha1.TrainingJobList {
	return v1alpha1.TrainingJobList{TypeMeta: metav1.TypeMeta{Kind: "TrainingJobList", APIVersion: "lockstep.dev/v1alpha1"}, Items: jobs}
}

func jobIn(namespace, name string, state v1alpha1.State) v1alpha1.TrainingJob {
	return v1alpha1.TrainingJob{
		TypeMeta:   metav1.TypeMeta{Kind: "TrainingJob", APIVersion: "lockstep.dev/v1alpha1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: v1alpha1.TrainingJobStatus{State: state, Ready: "4/4", Attempt: 1},
	}
}

func TestListAsksForWhatTheFlagsSay(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	s := &server{objects: map[string]any{
		theJobs: listOf(jobIn("default", "llama", v1alpha1.StateRunning), jobIn("default", "mamba", v1alpha1.StateQueued)),
		"/apis/lockstep.dev/v1alpha1/trainingjobs":                     listOf(jobIn("default", "llama", v1alpha1.StateRunning), jobIn("research", "t5", v1alpha1.StateFailed)),
		"/apis/lockstep.dev/v1alpha1/namespaces/research/trainingjobs": listOf(),
		theJobs + "/llama": jobIn("default", "llama", v1alpha1.StateRunning), theJobs + "/mamba": jobIn("default", "mamba", v1alpha1.StateQueued),
		"/api/v1/namespaces": metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
			Items:    []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "research"}}},
		},
	}}
	address := s.serve(t, core, product)
	for name, tc := range map[string]struct {
		args  []string
		names string
		query url.Values
	}{
		"namespace": {nil, "llama mamba", url.Values{}},
		"states":    {[]string{"--state", "queued,failed"}, "mamba", url.Values{}},
		"all":       {[]string{"-A"}, "llama t5", url.Values{}},
		"labels":    {[]string{"-l", "team=language"}, "llama mamba", url.Values{"labelSelector": {"team=language"}}},
		"none":      {[]string{"-n", "research"}, "", url.Values{}},
		"named":     {[]string{"llama", "tj/mamba"}, "llama mamba", url.Values{}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := lockstep(append([]string{"ls", address}, tc.args...)...)
			check.Equal(t, "error", nil, err)
			var names []string
			for line := range strings.Lines(out) {
				fields := strings.Fields(line)
				if i := map[bool]int{true: 1}[name == "all"]; fields[i] != "NAME" {
					names = append(names, fields[i])
				}
			}
			check.Equal(t, "jobs", tc.names, strings.Join(names, " "))
			asked, err := url.Parse(s.asked[len(s.asked)-1])
			check.Equal(t, "error", nil, err)
			check.Equal(t, "query", tc.query, asked.Query())
		})
	}
}

func TestListOfNothing(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	s := &server{objects: map[string]any{
		"/apis/lockstep.dev/v1alpha1/namespaces/reserch/trainingjobs": listOf(),
		"/api/v1/namespaces": metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
			Items:    []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "research"}}},
		},
	}}
	address := s.serve(t, core, product)
	_, err := lockstep("list", "-n", "reserch", address)
	if want := "namespace reserch does not exist: `kubectl get namespaces` lists those that do"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	s.objects["/api/v1/namespaces"] = refusal(403, metav1.StatusReasonForbidden, "no")
	_, err = lockstep("list", "-n", "reserch", address)
	check.Equal(t, "without a right to namespaces", nil, err)
}

func TestListNamesTheFlagThatIsWrong(t *testing.T) {
	for flag, want := range map[string]string{
		"--state=Asleep": `--state: there is no state "Asleep": give one or more of Recovering, Refused, Starting, Queued, Running, Suspended, Failed, Completed`,
		"--selector=a,,": "--selector: ",
		"-A llama":       "give either the name llama, which is looked for in one namespace, or --all-namespaces and --selector",
		"-l=a=b llama":   "give either the name llama, which is looked for in one namespace, or --all-namespaces and --selector",
		"--output=xml":   `invalid argument "xml" for "-o, --output" flag: it has to be json, yaml or wide`,
	} {
		_, err := lockstep(append([]string{"list"}, strings.Fields(flag)...)...)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}
