package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// kubectl exec asks the supervisor of each rank, with the flags of the connection.
func TestStacks(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	runs := func(job *v1alpha1.TrainingJob) { job.Status.Conditions = nil }
	const noAnswer = "not every rank has answered: `kubectl lockstep why llama` says what became of them"
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TrainingJob)
		script string
		ras    string // the ranks that NCCL RAS answers in, as a pattern of a shell
		args   []string
		want   string
		err    string
	}{
		"all ranks": {script: `echo "pid 7 sh: stopped by $#"`, want: "3 ranks, worker 0-2:\n  pid 7 sh: stopped by 7\n\n"},
		"a rank": {
			script: `echo "pid 7 sh: $@"`, args: []string{"worker-1", "--as=jane"},
			want: "1 rank, worker 1:\n  pid 7 sh: exec llama-1-worker-1 --container=train --as=jane SERVER -- /var/run/lockstep/lockstep-run stacks\n\n",
		},
		"a rank that does not answer": {
			script: `[ "$2" = llama-1-worker-1 ] || { echo "pid 7 sh: ended"; exit; }; echo "cannot connect" >&2; exit 1`,
			want:   "2 ranks, worker 0, 2:\n  pid 7 sh: ended\n\n1 rank, worker 1: not known: cannot connect\n", err: noAnswer,
		},
		"NCCL RAS answers in two ranks": {
			script: `echo "pid 7 sh: stopped"`, ras: "*worker-[12]*",
			want: "3 ranks, worker 0-2:\n  pid 7 sh: stopped\n\nNCCL RAS, asked in worker-1:\n  exec llama-1-worker-1 --container=train SERVER -- /var/run/lockstep/lockstep-run stacks --ras\n  ?[2J\n",
		},
		"NCCL RAS of a job that has not stalled": {
			change: runs, script: `echo "pid 7 sh: stopped"`, ras: "*worker-[12]*", want: "3 ranks, worker 0-2:\n  pid 7 sh: stopped\n\n",
		},
		"the same, by request": {
			change: runs, script: `echo "pid 7 sh: $@"`, ras: "*worker-1*", args: []string{"worker-1", "--ras"},
			want: "1 rank, worker 1:\n  pid 7 sh: exec llama-1-worker-1 --container=train SERVER -- /var/run/lockstep/lockstep-run stacks\n\nNCCL RAS, asked in worker-1:\n  exec llama-1-worker-1 --container=train SERVER -- /var/run/lockstep/lockstep-run stacks --ras\n  ?[2J\n",
		},
		"NCCL RAS of a rank that does not say where it is": {
			script: `[ "$2" != llama-1-worker-0 ] || exit 1; echo "pid 7 sh: stopped"`, ras: "*worker-0*",
			want: "2 ranks, worker 1-2:\n  pid 7 sh: stopped\n\n1 rank, worker 0: not known: kubectl exec: exit status 1\n", err: noAnswer,
		},
		"NCCL RAS in a rank that is not among the first of its task": {
			change: func(job *v1alpha1.TrainingJob) { job.Spec.Tasks[0].Replicas = 5 }, script: `echo "pid 7 sh: stopped"`, ras: "*worker-[34]*",
			want: "5 ranks, worker 0-4:\n  pid 7 sh: stopped\n\n",
		},
		"NCCL RAS in such a rank, which is the only one": {
			change: func(job *v1alpha1.TrainingJob) { job.Spec.Tasks[0].Replicas = 5 }, script: `echo "pid 7 sh: stopped"`, ras: "*worker-[34]*", args: []string{"worker-4", "--force"},
			want: "1 rank, worker 4:\n  pid 7 sh: stopped\n\nNCCL RAS, asked in worker-4:\n  exec llama-1-worker-4 --container=train SERVER -- /var/run/lockstep/lockstep-run stacks --ras\n  ?[2J\n",
		},
		"a kubectl that is silent": {script: "exit 3", want: "3 ranks, worker 0-2: not known: kubectl exec: exit status 3\n", err: noAnswer},
		"by force": {
			script: `echo "pid 7 sh: $@"`, args: []string{"worker-1", "--force"},
			want: "1 rank, worker 1:\n  pid 7 sh: exec llama-1-worker-1 --container=train SERVER -- /var/run/lockstep/lockstep-run stacks --force\n\n",
		},
		"one that prints without end, by a script": {
			script: "cat /dev/zero; true", args: []string{"worker-0"}, want: "1 rank, worker 0: not known: it prints more than 1048576 bytes\n", err: noAnswer,
		},
		"one that prints without end": {script: "exec cat /dev/zero", args: []string{"worker-0"}, want: "1 rank, worker 0: not known: it prints more than 1048576 bytes\n", err: noAnswer},
		"no rank":                     {args: []string{"worker-7"}, err: `"worker-7" names no rank of TrainingJob llama: give one of worker-0 to worker-2, worker-spare-0, or the name of its pod`},
		"a spare":                     {args: []string{"worker-spare-0"}, err: "worker-spare-0 has no supervisor: it is a spare, or its task is independent"},
		"a pod of an attempt before": {
			change: func(job *v1alpha1.TrainingJob) { job.Status.Attempt = 2 }, args: []string{"llama-1-worker-0"},
			err: "pod llama-1-worker-0 is of attempt 1, and TrainingJob llama is in attempt 2: its rank is worker-0",
		},
		"ranks that were given up": {
			change: func(job *v1alpha1.TrainingJob) {
				job.Status.Tasks = []v1alpha1.TaskStatus{{Name: "worker", Shrunk: 1}}
			},
			script: `echo "pid 7 sh: stopped"`, want: "2 ranks, worker 0-1:\n  pid 7 sh: stopped\n\n",
		},
		"independent tasks": {
			change: func(job *v1alpha1.TrainingJob) {
				job.Spec.Tasks = append(job.Spec.Tasks, v1alpha1.Task{Name: "eval", Replicas: 2, Independent: true, Template: job.Spec.Tasks[0].Template})
			},
			script: `echo "pid 7 sh: stopped"`, want: "3 ranks, worker 0-2:\n  pid 7 sh: stopped\n\n",
		},
		"no supervisors": {
			change: func(job *v1alpha1.TrainingJob) { job.Spec.Supervisor = nil },
			err:    "TrainingJob llama has no supervisors, which would say it: set spec.supervisor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kubectl(t, fmt.Sprintf(`case "$*" in %s--ras) echo "$*"; printf '\033[2J\n'; exit;; *--ras) exit 125;; esac; %s`, cmp.Or(tc.ras, "none"), tc.script))
			objects := logged()
			job := objects[theJobs+"/llama"].(v1alpha1.TrainingJob)
			job.Spec.Supervisor, job.Status.Attempt = &v1alpha1.Supervisor{}, 1
			job.Spec.Tasks[0].Template.Spec.Containers = []corev1.Container{{Name: "train"}}
			job.Spec.Tasks[0].Spares = new(int32(1))
			job.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
			if tc.change != nil {
				tc.change(&job)
			}
			objects[theJobs+"/llama"] = job
			s := &server{objects: objects}
			address := s.serve(t, core, product)
			out, err := lockstep(append([]string{"stacks", "llama", address}, tc.args...)...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "printed", tc.want, strings.ReplaceAll(out, address, "SERVER"))
		})
	}
}
