package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
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
		"a rank":        {[]string{"worker-1"}, "logs llama-1-worker-1 --max-log-requests=50 SERVER --tail=-1", ""},
		"by its pod":    {[]string{"llama-1-worker-0"}, "logs llama-1-worker-0 --max-log-requests=50 SERVER --tail=-1", ""},
		"the first":     {nil, "logs llama-1-worker-0 --max-log-requests=50 SERVER --tail=-1", ""},
		"all":           {[]string{"--all"}, "logs --prefix llama-1-worker-0 --max-log-requests=50 SERVER --tail=-1\nlogs --prefix llama-1-worker-1 --max-log-requests=50 SERVER --tail=-1\nlogs --prefix llama-1-worker-2 --max-log-requests=50 SERVER --tail=-1", ""},
		"all to come":   {[]string{"--all", "-f"}, "logs --prefix --ignore-errors --selector lockstep.dev/job-uid=u-1,lockstep.dev/attempt=1,lockstep.dev/spare!=true --follow=true --max-log-requests=50 SERVER --tail=-1", ""},
		"the last ones": {[]string{"worker-0", "--tail", "1", "-f", "-c", "train"}, "logs llama-1-worker-0 --container=train --follow=true --max-log-requests=50 SERVER --tail=1", ""},
		"the youngest":  {[]string{"worker-0", "--since", "90s", "--timestamps"}, "logs llama-1-worker-0 --max-log-requests=50 SERVER --since=1m30s --tail=-1 --timestamps=true", ""},
		"a user":        {[]string{"worker-0", "--as=jane", "--as-group=a", "--as-group=b"}, "logs llama-1-worker-0 --as=jane --as-group=a --as-group=b --max-log-requests=50 SERVER --tail=-1", ""},
		"no previous":   {[]string{"worker-0", "--previous"}, "", "rank worker-0 has no previous log: container train of pod llama-1-worker-0 has not restarted, and no earlier pod of the rank is left: logs go with their pods"},
		"no rank":       {[]string{"worker-7"}, "", `"worker-7" names no rank of TrainingJob llama: give one of worker-0 to worker-2, or the name of its pod`},
		"no more lines": {[]string{"--all", "-f", "--previous"}, "", "--previous: the run before writes no more lines: leave -f out"},
		"both":          {[]string{"worker-0", "--all"}, "", "--all: give either that or the rank worker-0"},
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
	kubectl(t, "echo one; exit 1")
	s := &server{objects: logged()}
	out, err := lockstep("logs", "llama", "worker-0", s.serve(t, core, product))
	if out != "one\n" || err == nil || err.Error() != "kubectl logs llama-1-worker-0: exit status 1" {
		t.Errorf("printed %q, and failed with %v", out, err)
	}
	kubectl(t, `echo one; [ "$3" != llama-1-worker-1 ]`)
	out, err = lockstep("logs", "llama", "--all", s.serve(t, core, product))
	if out != "one\none\none\n" || err == nil || err.Error() != "kubectl logs --prefix llama-1-worker-1: exit status 1" {
		t.Errorf("of all ranks: printed %q, and failed with %v", out, err)
	}
}

func loggedPod(name, attempt string, change func(*corev1.Pod)) corev1.Pod {
	p := podNamed(name, "node-"+attempt, map[string]string{v1alpha1.LabelAttempt: attempt}, nil)
	p.Annotations = map[string]string{}
	p.Spec.Containers = []corev1.Container{{Name: "train"}, {Name: "sidecar"}}
	if change != nil {
		change(&p)
	}
	return p
}

func restartedOnce(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
}

func TestThePodWithALog(t *testing.T) {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "llama"}}
	suspended := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "llama"}, Spec: v1alpha1.TrainingJobSpec{Suspend: true}}
	first, second, other := loggedPod("llama-1-worker-3", "1", nil), loggedPod("llama-2-worker-3", "2", nil), loggedPod("llama-2-worker-30", "2", nil)
	restarted := loggedPod("llama-2-worker-3", "2", restartedOnce)
	sidecar := loggedPod("llama-2-worker-3", "2", func(p *corev1.Pod) { restartedOnce(p); p.Annotations[defaultContainer] = "sidecar" })
	for name, tc := range map[string]struct {
		job      *v1alpha1.TrainingJob
		pods     []corev1.Pod
		attempt  int32
		l        logging
		want     string
		previous bool
		err      string
	}{
		"its pod":                  {job, []corev1.Pod{first, other, second}, 2, logging{}, "llama-2-worker-3", false, ""},
		"an earlier pod":           {job, []corev1.Pod{first, second}, 1, logging{}, "llama-1-worker-3", false, ""},
		"a restart":                {job, []corev1.Pod{first, restarted}, 2, logging{previous: true}, "llama-2-worker-3", true, ""},
		"of another container":     {job, []corev1.Pod{first, restarted}, 2, logging{previous: true, container: "sidecar"}, "llama-1-worker-3", false, ""},
		"of another one's default": {job, []corev1.Pod{first, sidecar}, 2, logging{previous: true}, "llama-1-worker-3", false, ""},
		"the pod before":           {job, []corev1.Pod{first, second}, 2, logging{previous: true}, "llama-1-worker-3", false, ""},
		"nothing before": {job, []corev1.Pod{second}, 2, logging{previous: true}, "", false,
			"rank worker-3 has no previous log: container train of pod llama-2-worker-3 has not restarted, and no earlier pod of the rank is left: logs go with their pods"},
		"no pod":    {job, []corev1.Pod{other}, 2, logging{}, "", false, "rank worker-3 has no pod: `kubectl lockstep why llama worker-3` says why"},
		"suspended": {suspended, nil, 1, logging{}, "", false, "rank worker-3 has no pod: the job is suspended, and the logs went with the pods: `kubectl lockstep resume llama` starts it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, previous, err := tc.l.choose(tc.job, &why.Subject{Rank: gang.Rank{Task: "worker", Index: 3}, Attempt: tc.attempt}, tc.pods)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "pod", tc.want, got)
			check.Equal(t, "previous", tc.previous, previous)
		})
	}
}
