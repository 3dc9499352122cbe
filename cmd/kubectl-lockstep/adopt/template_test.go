package adopt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// pod is the template of a job's last task, and what was lost of it.
func pod(t *testing.T, manifest string) (corev1.PodSpec, string) {
	t.Helper()
	jobs, _ := Jobs(objects(t, manifest))
	if jobs[0].Err != nil {
		t.Fatal(jobs[0].Err)
	}
	tasks := jobs[0].Job.Spec.Tasks
	return tasks[len(tasks)-1].Template.Spec, strings.Join(jobs[0].Lost, "\n")
}

func TestTorchrunGetsItsFlags(t *testing.T) {
	static := "--nnodes=$(WORLD_SIZE) --node_rank=$(RANK) --master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT) "
	for name, tt := range map[string]struct{ policy, command, want string }{
		"none of them given": {"", "torchrun train.py --lr 1", "torchrun " + static + "--nproc_per_node=auto train.py --lr 1"},
		"a path, and flags in both spellings": {"  nprocPerNode: \"4\"\n", "/opt/torchrun --nnodes 2 --node-rank=$(RANK) train.py",
			"/opt/torchrun --master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT) --nproc_per_node=4 --nnodes 2 --node-rank=$(RANK) train.py"},
		"the module": {"", "python -m torch.distributed.launch train.py", "python -m torch.distributed.launch " + static + "--nproc_per_node=auto train.py"},
		"a rendezvous of its own": {"", "torchrun --rdzv_backend=c10d train.py",
			"torchrun --nnodes=$(WORLD_SIZE) --rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT) --nproc_per_node=auto --rdzv_conf=is_host=false --rdzv_backend=c10d train.py"},
		"an elastic policy": {"  elasticPolicy: {rdzvBackend: c10d, nProcPerNode: 2, maxRestarts: 3, rdzvConf: [{key: timeout, value: \"9\"}]}\n", "torchrun train.py",
			"torchrun --nnodes=$(WORLD_SIZE) --rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT) --nproc_per_node=2 --rdzv_backend=c10d --max_restarts=3 --rdzv_conf=timeout=9,is_host=false train.py"},
		"on one node":     {"", "torchrun --standalone train.py", "torchrun --standalone train.py"},
		"another program": {"", "python train.py", "python train.py"},
	} {
		t.Run(name, func(t *testing.T) {
			words := `["` + strings.Join(strings.Fields(tt.command), `", "`) + `"]`
			got, _ := pod(t, aPyTorchJob+tt.policy+"  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: i, command: "+words+"}]}}}}\n")
			if diff := cmp.Diff(tt.want, strings.Join(got.Containers[0].Command, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The module may be named in the arguments.
func TestTorchrunInArguments(t *testing.T) {
	got, _ := pod(t, aPyTorchJob+"  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: i, command: [python], args: [-m, torch.distributed.run, a.py]}]}}}}\n")
	want := "-m torch.distributed.run --nnodes=$(WORLD_SIZE) --node_rank=$(RANK) --master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT) --nproc_per_node=auto a.py"
	if diff := cmp.Diff(want, strings.Join(got.Containers[0].Args, " ")); diff != "" || len(got.Containers[0].Command) != 1 {
		t.Error(diff)
	}
}

// A program of a TrainJob starts as many processes as Kubeflow's trainer has it start.
func TestProcessesOfATrainJob(t *testing.T) {
	for name, tt := range map[string]struct{ trainer, want string }{
		"GPUs":              {"resourcesPerNode: {limits: {nvidia.com/gpu: 8}}", "auto"},
		"CPUs":              {"resourcesPerNode: {limits: {cpu: 4}, requests: {cpu: 2}}", "2"},
		"nothing is said":   {"image: i2", "1"},
		"a number is given": {"numProcPerNode: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := pod(t, aTrainJob+"  trainer: {command: [torchrun, a.py], "+tt.trainer+"}\n"+aRuntime+"  mlPolicy: {torch: {}}\n"+aNode)
			if diff := cmp.Diff([]string{"torchrun", "--nproc_per_node=" + tt.want, "a.py"}, got.Containers[0].Command); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The resources of a TrainJob replace those of its runtime, and a patch is laid over its templates.
func TestATrainJobIsLaidOverItsRuntime(t *testing.T) {
	got, lost := pod(t, aTrainJob+`  trainer: {image: mine, env: [{name: A, value: "2"}], resourcesPerNode: {requests: {cpu: 1}}}
  runtimePatches:
  - manager: me
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {serviceAccountName: sa, containers: [{name: node, env: [{name: B, value: "3"}]}]}}}}}]}}}
`+aRuntime+`  template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: i, resources: {limits: {memory: 1Gi}}, env: [{name: A, value: "1"}]}]}}}}}]}}
`)
	c := got.Containers[0]
	values := map[string]string{}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	if diff := cmp.Diff(map[string]string{"A": "2", "B": "3", "JOB_COMPLETION_INDEX": "$(LOCKSTEP_TASK_INDEX)"}, values); diff != "" || c.Image != "mine" || got.ServiceAccountName != "sa" || len(c.Resources.Limits) > 0 || c.Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("%s\n%+v\nlost: %s", diff, got, lost)
	}
}

func TestVariablesOfOtherOperators(t *testing.T) {
	for name, tt := range map[string]struct{ manifest, env, lost string }{
		"the index of a Job": {aJobSet + "  replicatedJobs:\n  - {name: w, template: {spec: {parallelism: 2, template: {spec: {containers: [{name: c, image: i, command: [sh, -c, echo $JOB_COMPLETION_INDEX]}]}}}}}\n",
			"JOB_COMPLETION_INDEX", ""},
		"the index over several Jobs": {aJobSet + "  replicatedJobs:\n  - {name: w, replicas: 2, template: {spec: {parallelism: 2, template: {spec: {containers: [{name: c, image: i, command: [sh, -c, echo $JOB_COMPLETION_INDEX]}]}}}}}\n",
			"", "LOCKSTEP_TASK_INDEX counts the pods of all jobs"},
		"the index of Volcano": {aVolcanoJob + "  plugins: {env: []}\n  tasks: [{name: a, template: {spec: {containers: [{name: c, image: i, args: [$(VC_TASK_INDEX)]}]}}}]\n", "VC_TASK_INDEX VK_TASK_INDEX", ""},
		"hosts of Volcano":     {aVolcanoJob + "  tasks: [{name: a, template: {spec: {containers: [{name: c, image: i, args: [$VC_A_HOSTS]}]}}}]\n", "", "VC_A_HOSTS: Volcano's svc plugin sets it"},
		"the name of a pod":    {aVolcanoJob + "  tasks: [{name: a, template: {spec: {containers: [{name: c, image: i, args: [j-a-0.j]}]}}}]\n", "", "j-a-0: the names of pods differ here"},
		"torchrun's variables": {aJobSet + "  replicatedJobs:\n  - {name: w, template: {spec: {template: {spec: {containers: [{name: c, image: i, args: [$PET_NNODES]}]}}}}}\n", "JOB_COMPLETION_INDEX", "PET_NNODES: Kubeflow sets it"},
		"no other word":        {aJobSet + "  replicatedJobs:\n  - {name: w, template: {spec: {template: {spec: {containers: [{name: c, image: i, args: [CARPET_SIZE, MY_JOBSET_X]}]}}}}}\n", "JOB_COMPLETION_INDEX", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, lost := pod(t, tt.manifest)
			names := []string{}
			for _, e := range got.Containers[0].Env {
				names = append(names, e.Name)
			}
			if strings.Join(names, " ") != tt.env || (lost == "") != (tt.lost == "") || !strings.Contains(lost, tt.lost) {
				t.Errorf("variables %v, lost %q; want %q, %q", names, lost, tt.env, tt.lost)
			}
		})
	}
}

func TestATemplateLosesWhatATrainingJobMayNotHave(t *testing.T) {
	got, lost := pod(t, aVolcanoJob+`  tasks:
  - name: a
    template:
      metadata: {labels: {app: x, volcano.sh/task-spec: a}, annotations: {lockstep.dev/epoch: "1"}}
      spec: {schedulerName: other, nodeName: n1, restartPolicy: Always, schedulingGates: [{name: g}], priorityClas: typo, containers: [{name: c, image: i}]}
`)
	for _, want := range []string{"schedulerName", "nodeName", "restartPolicy", "schedulingGates", "volcano.sh/task-spec", "lockstep.dev/epoch", "priorityClas"} {
		if !strings.Contains(lost, want) {
			t.Errorf("%s is not reported: %s", want, lost)
		}
	}
	want := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The policy of a PyTorchJob's replicas goes before that of their template.
func TestRestartPoliciesOfReplicas(t *testing.T) {
	for policy, want := range map[string]corev1.RestartPolicy{"Never": corev1.RestartPolicyNever, "OnFailure": corev1.RestartPolicyOnFailure, "ExitCode": ""} {
		got, _ := pod(t, aPyTorchJob+"  pytorchReplicaSpecs: {Master: {restartPolicy: "+policy+", template: {spec: {restartPolicy: Always, containers: [{name: c, image: i}]}}}}\n")
		if got.RestartPolicy != want {
			t.Errorf("%s: %q, want %q", policy, got.RestartPolicy, want)
		}
	}
}
