package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

const thePods = "/api/v1/namespaces/default/pods"

// kubectl puts a program of that name into the path, which prints what it was asked for.
func kubectl(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it has to run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// logged is a job of three ranks with their pods.
func logged() map[string]any {
	job := jobIn("default", "llama", v1alpha1.StateRunning)
	job.UID = "u-1"
	job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: 3}}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for _, name := range []string{"llama-1-worker-0", "llama-1-worker-1", "llama-1-worker-2"} {
		p := podNamed(name, "n1", map[string]string{v1alpha1.LabelAttempt: "1"}, nil)
		p.Spec.Containers[0].Name = "train"
		pods.Items = append(pods.Items, p)
	}
	return map[string]any{theJobs + "/llama": job, thePods: pods}
}

// kubectl logs has the flags that were given, with those of the connection.
func TestLogs(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for name, tc := range map[string]struct {
		args []string
		want string
		err  string
	}{
		"a rank":         {[]string{"worker-1"}, "logs llama-1-worker-1 --max-log-requests=50 SERVER --tail=-1", ""},
		"by its pod":     {[]string{"llama-1-worker-0"}, "logs llama-1-worker-0 --max-log-requests=50 SERVER --tail=-1", ""},
		"the first":      {nil, "logs llama-1-worker-0 --max-log-requests=50 SERVER --tail=-1", ""},
		"all":            {[]string{"--all"}, "logs --prefix llama-1-worker-0 --max-log-requests=50 SERVER --tail=-1\nlogs --prefix llama-1-worker-1 --max-log-requests=50 SERVER --tail=-1\nlogs --prefix llama-1-worker-2 --max-log-requests=50 SERVER --tail=-1", ""},
		"all to come":    {[]string{"--all", "-f"}, "logs --prefix --ignore-errors --selector lockstep.dev/job-uid=u-1,lockstep.dev/attempt=1,lockstep.dev/spare!=true --follow=true --max-log-requests=50 SERVER --tail=-1", ""},
		"the last ones":  {[]string{"worker-0", "--tail", "1", "-f", "-c", "train"}, "logs llama-1-worker-0 --container=train --follow=true --max-log-requests=50 SERVER --tail=1", ""},
		"the youngest":   {[]string{"worker-0", "--since", "90s", "--timestamps"}, "logs llama-1-worker-0 --max-log-requests=50 SERVER --since=1m30s --tail=-1 --timestamps=true", ""},
		"a user":         {[]string{"worker-0", "--as=jane", "--as-group=a", "--as-group=b"}, "logs llama-1-worker-0 --as=jane --as-group=a --as-group=b --max-log-requests=50 SERVER --tail=-1", ""},
		"the run before": {[]string{"worker-0", "--previous"}, "logs llama-1-worker-0 --max-log-requests=50 --previous=true SERVER --tail=-1", ""},
		"no rank":        {[]string{"worker-7"}, "", `"worker-7" names no rank of TrainingJob llama: give one of worker-0 to worker-2, or the name of its pod`},
		"both":           {[]string{"worker-0", "--all"}, "", "--all: give either that or the rank worker-0"},
	} {
		t.Run(name, func(t *testing.T) {
			kubectl(t, `echo "$@"`)
			s := &server{objects: logged()}
			address := s.serve(t, core, product)
			out, err := lockstep(append([]string{"logs", "llama", address}, tc.args...)...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "asked", tc.want, strings.TrimSpace(strings.ReplaceAll(out, address, "SERVER")))
		})
	}
	const hint = ": logs go with their pods, and `kubectl lockstep why llama` says what became of these"
	kubectl(t, "echo one; exit 1")
	s := &server{objects: logged()}
	out, err := lockstep("logs", "llama", "worker-0", s.serve(t, core, product))
	if out != "one\n" || err == nil || err.Error() != "kubectl logs llama-1-worker-0: exit status 1"+hint {
		t.Errorf("printed %q, and failed with %v", out, err)
	}
	kubectl(t, `echo one; [ "$3" != llama-1-worker-1 ]`)
	out, err = lockstep("logs", "llama", "--all", s.serve(t, core, product))
	if out != "one\none\none\n" || err == nil || err.Error() != "kubectl logs --prefix llama-1-worker-1: exit status 1"+hint {
		t.Errorf("of all ranks: printed %q, and failed with %v", out, err)
	}
	s.objects[thePods] = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	_, err = lockstep("logs", "llama", "--all", s.serve(t, core, product))
	check.Equal(t, "without pods", "TrainingJob llama has no pods: `kubectl lockstep why llama` says why", fmt.Sprint(err))
}
