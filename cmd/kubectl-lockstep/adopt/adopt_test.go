package adopt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"
)

// objects are those of YAML documents.
func objects(t *testing.T, files ...string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, file := range files {
		infos, err := resource.NewLocalBuilder().Unstructured().Flatten().Stream(bytes.NewReader([]byte(file)), "test").Do().Infos()
		if err != nil {
			t.Fatalf("%v in:\n%s", err, file)
		}
		for _, info := range infos {
			out = append(out, info.Object.(*unstructured.Unstructured))
		}
	}
	return out
}

// Beginnings of jobs, and pods.
const (
	aVolcanoJob = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec:\n"
	aJobSet     = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\nspec:\n  failurePolicy: {maxRestarts: 3}\n"
	aPyTorchJob = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: j}\nspec:\n"
	aTrainJob   = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: j}\nspec:\n  runtimeRef: {name: r}\n"
	aRuntime    = "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r}\nspec:\n"
	pods        = "template: {spec: {containers: [{name: c, image: i}]}}"
	budget      = ", restartPolicy: {budget: {maxRestarts: 3, windowSeconds: 31536000}}"
	pytorch     = ", framework: {pytorch: {master: master, worker: worker}}"
)

// replicated is a replicatedJob.
func replicated(name, spec string) string {
	return fmt.Sprintf("  - {name: %s, template: {spec: {%s%s}}}\n", name, spec, pods)
}

// aNode is a runtime's template with one replicatedJob.
const aNode = "  template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}\n"

func TestJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		manifest string
		// spec is that of the TrainingJob without the templates.
		spec string
		// lost has a part of each line.
		lost []string
		err  string
	}{
		"a Volcano Job": {
			manifest: aVolcanoJob + "  queue: q\n  minAvailable: 3\n  maxRetry: 7\n  priorityClassName: p\n  ttlSecondsAfterFinished: 60\n" +
				"  networkTopology: {mode: hard, highestTierAllowed: 2}\n  tasks: [{name: a, replicas: 3, " + pods + "}]\n",
			spec: "{queue: q, priorityClassName: p, ttlSecondsAfterFinished: 60, networkTopology: {mode: hard, highestTierAllowed: 2}, " +
				"restartPolicy: {budget: {maxRestarts: 7, windowSeconds: 31536000}}, tasks: [{name: a, replicas: 3}]}",
		},
		"one that starts with a part": {
			manifest: aVolcanoJob + "  minAvailable: 2\n  tasks: [{replicas: 3, " + pods + "}]\n",
			spec:     "{minAvailable: 2, tasks: [{name: default0, replicas: 3}]}",
		},
		"what each task needs": {
			manifest: aVolcanoJob + "  tasks:\n  - {name: a, replicas: 3, minAvailable: 1, " + pods + "}\n  - {name: b, replicas: 2, " + pods + "}\n",
			spec:     "{minAvailable: 3, tasks: [{name: a, replicas: 3}, {name: b, replicas: 2}]}",
			lost:     []string{"spec.tasks[0].minAvailable: a TrainingJob has one for all its tasks"},
		},
		"partitions": {
			manifest: aVolcanoJob + "  minAvailable: 2\n  tasks: [{name: a, replicas: 4, partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1, networkTopology: {mode: soft}}, " + pods + "}]\n",
			spec:     "{tasks: [{name: a, replicas: 4, partition: {size: 2, networkTopology: {mode: soft}}}]}",
			lost:     []string{"minPartitions: a TrainingJob needs all its partitions", "spec.minAvailable: a TrainingJob with partitions needs all its pods"},
		},
		"plugins without arguments, and one that is not known": {
			manifest: aVolcanoJob + "  plugins: {svc: [], env: [], gpu-thing: []}\n  tasks: [{name: a, " + pods + "}]\n",
			spec:     "{tasks: [{name: a, replicas: 1}]}",
			lost:     []string{"spec.plugins.gpu-thing: a TrainingJob has no other plugins", "spec.plugins.svc: names of pods"},
		},
		"the pytorch plugin": {
			manifest: aVolcanoJob + "  plugins: {pytorch: [--master=m, --worker=w, --port=1234, --wait-master-enabled=true], svc: []}\n" +
				"  tasks: [{name: m, " + pods + "}, {name: w, replicas: 2, " + pods + "}]\n",
			spec: "{framework: {pytorch: {master: m, worker: w, port: 1234}}, tasks: [{name: m, replicas: 1}, {name: w, replicas: 2}]}",
			lost: []string{"spec.plugins.pytorch: --wait-master-enabled"},
		},
		"two frameworks": {
			manifest: aVolcanoJob + "  plugins: {pytorch: [], ray: []}\n  tasks: [{name: a, " + pods + "}]\n",
			spec:     "{tasks: [{name: a, replicas: 1}]}",
			lost:     []string{"spec.plugins.pytorch", "spec.plugins.ray"},
		},
		"SSH from the task with one pod": {
			manifest: aVolcanoJob + "  plugins: {ssh: [--ssh-private-key=x], svc: []}\n  tasks:\n  - {name: w, replicas: 2, " + pods + "}\n  - {name: m, " + pods + "}\n",
			spec:     "{framework: {mpi: {launcher: m, worker: w}}, tasks: [{name: w, replicas: 2}, {name: m, replicas: 1}]}",
			lost:     []string{"spec.plugins.ssh: --ssh-private-key=x"},
		},
		"a task that completes the job": {
			manifest: aVolcanoJob + "  tasks:\n  - {name: a, policies: [{event: TaskCompleted, action: CompleteJob}], " + pods + "}\n  - {name: b, " + pods + "}\n",
			spec:     "{successPolicy: {tasks: [a]}, tasks: [{name: a, replicas: 1}, {name: b, replicas: 1}]}",
		},
		"tasks of which any one completes the job": {
			manifest: aVolcanoJob + "  tasks:\n  - {name: a, policies: [{events: [TaskCompleted], action: CompleteJob}], " + pods +
				"}\n  - {name: b, policies: [{event: TaskCompleted, action: CompleteJob}], " + pods + "}\n",
			spec: "{tasks: [{name: a, replicas: 1}, {name: b, replicas: 1}]}",
			lost: []string{"spec.tasks[1].policies[0]: a TrainingJob has succeeded when all tasks"},
		},
		"a claim": {
			manifest: aVolcanoJob + "  volumes: [{mountPath: /a, volumeClaimName: c}, {mountPath: /b, volumeClaim: {storageClassName: s}}]\n  tasks: [{name: a, " + pods + "}]\n",
			spec:     "{tasks: [{name: a, replicas: 1}]}",
			lost:     []string{"spec.volumes: create the claims"},
		},
		"a task without pods": {
			manifest: aJobSet + "  successPolicy: {operator: All, targetReplicatedJobs: [a, b]}\n  replicatedJobs:\n  - {name: a, replicas: 0, template: {spec: {" + pods + "}}}\n" + replicated("b", "") + replicated("c", ""),
			spec:     "{successPolicy: {tasks: [b]}, tasks: [{name: b, replicas: 1}, {name: c, replicas: 1}]" + budget + "}",
			lost:     []string{"spec.replicatedJobs[0]: a task without pods is left out"},
		},
		"more pods than a number of 32 bits": {
			manifest: aJobSet + "  replicatedJobs:\n  - {name: a, replicas: 65536, template: {spec: {parallelism: 65536, " + pods + "}}}\n",
			err:      "65536 jobs of 65536 pods: a task has at most 10000 pods",
		},
		"a job that no TrainingJob can be": {
			manifest: aVolcanoJob + "  tasks: [{name: a, replicas: two, " + pods + "}]\n",
			err:      "spec.tasks[0].replicas: cannot unmarshal",
		},
		"jobs of several pods": {
			manifest: aJobSet + "  replicatedJobs:\n  - {name: a, replicas: 3, template: {spec: {parallelism: 4, completions: 2, " + pods + "}}}\n",
			spec:     "{tasks: [{name: a, replicas: 6, partition: {size: 2}}]" + budget + "}",
			lost:     []string{"spec.replicatedJobs[0]: JOB_COMPLETION_INDEX: LOCKSTEP_TASK_INDEX counts"},
		},
		"what the Jobs of a JobSet have": {
			manifest: aJobSet + "  replicatedJobs:\n  - {name: a, template: {metadata: {labels: {x: y}, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {" + pods + "}}}\n",
			spec:     "{tasks: [{name: a, replicas: 1}]" + budget + "}",
			lost:     []string{"exclusive-topology]: spec.networkTopology keeps", "template.metadata: a TrainingJob makes no Jobs"},
		},
		"pods that run in turn": {
			manifest: aJobSet + "  replicatedJobs:\n" + replicated("a", "parallelism: 2, completions: 8, "),
			spec:     "{tasks: [{name: a, replicas: 2}]" + budget + "}",
			lost:     []string{"completions: all pods of a TrainingJob run together"},
		},
		"no restarts": {
			manifest: strings.Replace(aJobSet, "3", "0", 1) + "  replicatedJobs:\n" + replicated("a", ""),
			spec:     "{tasks: [{name: a, replicas: 1}], restartPolicy: {budget: {maxRestarts: 0, windowSeconds: 31536000}}}",
		},
		"more restarts than a budget has": {
			manifest: strings.Replace(aJobSet, "3", "5000", 1) + "  replicatedJobs:\n" + replicated("a", ""),
			spec:     "{tasks: [{name: a, replicas: 1}], restartPolicy: {budget: {maxRestarts: 1000, windowSeconds: 31536000}}}",
			lost:     []string{"spec.failurePolicy.maxRestarts: a budget is 1000 restarts at most"},
		},
		"any job is a success": {
			manifest: aJobSet + "  successPolicy: {operator: Any, targetReplicatedJobs: [a]}\n  replicatedJobs:\n  - {name: a, replicas: 2, template: {spec: {" + pods + "}}}\n" + replicated("b", ""),
			spec:     "{successPolicy: {tasks: [a]}, tasks: [{name: a, replicas: 2}, {name: b, replicas: 1}]" + budget + "}",
			lost:     []string{"spec.successPolicy.operator", "JOB_COMPLETION_INDEX"},
		},
		"what another operator decides by default": {
			manifest: aJobSet + "  startupPolicy: {startupPolicyOrder: AnyOrder}\n  suspend: false\n  replicatedJobs:\n  - {name: a, groupName: default, template: {spec: {completionMode: Indexed, " + pods + "}}}\n",
			spec:     "{tasks: [{name: a, replicas: 1}]" + budget + "}",
		},
		"a rendezvous by variables": {
			manifest: aJobSet + "  replicatedJobs:\n  - name: w\n    template: {spec: {parallelism: 3, template: {spec: {containers: [{name: c, image: i, env: [{name: MASTER_ADDR, value: j-w-0-0.j}, " +
				"{name: MASTER_PORT, value: \"29500\"}, {name: WORLD_SIZE, value: \"24\"}]}]}}}}\n",
			spec: "{framework: {pytorch: {master: master, worker: w, port: 29500}}, tasks: [{name: master, replicas: 1}, {name: w, replicas: 2}]" + budget + "}",
			lost: []string{"WORLD_SIZE: spec.framework.pytorch sets it to the number of pods"},
		},
		"a rendezvous of several jobs": {
			manifest: aJobSet + "  replicatedJobs:\n  - name: w\n    replicas: 2\n    template: {spec: {parallelism: 2, template: {spec: {containers: [{name: c, image: i, env: [{name: MASTER_ADDR, value: j-w-0-0.j}]}]}}}}\n",
			spec:     "{framework: {pytorch: {master: master, worker: w}}, tasks: [{name: master, replicas: 1}, {name: w, replicas: 3}]" + budget + "}",
			lost:     []string{"JOB_COMPLETION_INDEX", "task w: its pods have no partitions"},
		},
		"a rendezvous with another task": {
			manifest: aJobSet + "  replicatedJobs:\n" + replicated("m", "") + "  - name: w\n    template: {spec: {parallelism: 3, template: {spec: {containers: [{name: c, image: i, env: [{name: MASTER_ADDR, value: j-m-0-0.j}]}]}}}}\n",
			spec:     "{framework: {pytorch: {master: m, worker: w}}, tasks: [{name: m, replicas: 1}, {name: w, replicas: 3}]" + budget + "}",
		},
		"a rendezvous elsewhere": {
			manifest: aJobSet + "  replicatedJobs:\n  - name: w\n    template: {spec: {parallelism: 3, template: {spec: {containers: [{name: c, image: i, env: [{name: MASTER_ADDR, value: etcd.example}]}]}}}}\n",
			spec:     "{tasks: [{name: w, replicas: 3}]" + budget + "}",
		},
		"a PyTorchJob": {
			manifest: aPyTorchJob + "  runPolicy: {backoffLimit: 3, activeDeadlineSeconds: 9, suspend: true, schedulingPolicy: {queue: q, priorityClass: p, minAvailable: 4}}\n" +
				"  pytorchReplicaSpecs:\n    Master: {" + pods + "}\n    Worker: {replicas: 3, " + pods + "}\n",
			spec: "{suspend: true, queue: q, priorityClassName: p, activeDeadlineSeconds: 9, framework: {pytorch: {}}, successPolicy: {tasks: [master]}, " +
				"tasks: [{name: master, replicas: 1}, {name: worker, replicas: 3}]" + budget + "}",
		},
		"one whose sidecar has a port of that name": {
			manifest: aPyTorchJob + "  pytorchReplicaSpecs:\n    Master: {template: {spec: {containers: [{name: pytorch, image: i}, {name: side, image: i, ports: [{name: pytorchjob-port, containerPort: 22}]}]}}}\n    Worker: {" + pods + "}\n",
			spec:     "{framework: {pytorch: {}}, successPolicy: {tasks: [master]}, tasks: [{name: master, replicas: 1}, {name: worker, replicas: 1}]}",
		},
		"one with replica types in another case, and a port": {
			manifest: aPyTorchJob + "  pytorchReplicaSpecs:\n    master: {template: {spec: {containers: [{name: pytorch, image: i, ports: [{name: pytorchjob-port, containerPort: 77}]}]}}}\n    WORKER: {" + pods + "}\n",
			spec:     "{framework: {pytorch: {port: 77}}, successPolicy: {tasks: [master]}, tasks: [{name: master, replicas: 1}, {name: worker, replicas: 1}]}",
		},
		"one without a Master succeeds with all its workers": {
			manifest: aPyTorchJob + "  pytorchReplicaSpecs: {Worker: {replicas: 3, " + pods + "}}\n",
			spec:     "{tasks: [{name: master, replicas: 1}, {name: worker, replicas: 2}]" + pytorch + "}",
		},
		"one whose program is not torchrun": {
			manifest: aPyTorchJob + "  nprocPerNode: \"8\"\n  pytorchReplicaSpecs: {Worker: {replicas: 2, " + pods + "}}\n",
			spec:     "{tasks: [{name: master, replicas: 1}, {name: worker, replicas: 1}]" + pytorch + "}",
			lost:     []string{"--nproc_per_node=8"},
		},
		"a Master alone": {
			manifest: aPyTorchJob + "  pytorchReplicaSpecs: {Master: {" + pods + "}}\n",
			spec:     "{tasks: [{name: master, replicas: 1}]}",
		},
		"several Masters": {
			manifest: aPyTorchJob + "  pytorchReplicaSpecs: {Master: {replicas: 2, " + pods + "}}\n",
			err:      "spec.pytorchReplicaSpecs.Master.replicas: 2: a PyTorchJob has one master",
		},
		"a TrainJob without its runtime": {
			manifest: aTrainJob,
			err:      "spec.runtimeRef: ClusterTrainingRuntime r is not among the files",
		},
		"a TrainJob": {
			manifest: aTrainJob + "  trainer: {numNodes: 3}\n" + aRuntime + "  mlPolicy: {numNodes: 1, torch: {}}\n" + aNode,
			spec:     "{framework: {pytorch: {master: master, worker: node}}, tasks: [{name: master, replicas: 1}, {name: node, replicas: 2}]}",
		},
		"one that succeeds with its nodes": {
			manifest: aTrainJob + aRuntime + "  mlPolicy: {numNodes: 2, torch: {}}\n  template:\n    spec:\n      successPolicy: {operator: All, targetReplicatedJobs: [node]}\n      replicatedJobs:\n" +
				"      - {name: node, template: {spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}\n      - {name: master, template: {spec: {" + pods + "}}}\n",
			spec: "{framework: {pytorch: {master: node-master, worker: node}}, successPolicy: {tasks: [node, node-master]}, " +
				"tasks: [{name: node-master, replicas: 1}, {name: node, replicas: 1}, {name: master, replicas: 1}]}",
		},
		"one that Volcano schedules": {
			manifest: strings.Replace(aTrainJob, "{name: j}", "{name: j, annotations: {scheduling.volcano.sh/queue-name: q}}", 1) + aRuntime +
				"  podGroupPolicy: {volcano: {networkTopology: {mode: hard, highestTierAllowed: 1}}}\n" + strings.Replace(aNode, "{containers", "{priorityClassName: p, containers", 1),
			spec: "{queue: q, priorityClassName: p, networkTopology: {mode: hard, highestTierAllowed: 1}, tasks: [{name: node, replicas: 1}]}",
		},
		"one of MPI": {
			manifest: aTrainJob + "  trainer: {numNodes: 2, numProcPerNode: 4}\n" + aRuntime + "  mlPolicy: {mpi: {}}\n  template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}, " +
				"{name: launcher, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}\n",
			spec: "{framework: {mpi: {launcher: launcher, worker: node}}, tasks: [{name: node, replicas: 2}, {name: launcher, replicas: 1}]}",
			lost: []string{"spec.trainer.numProcPerNode: give it", "spec.mlPolicy.mpi: spec.framework.mpi has keys"},
		},
		"one of MPI whose launcher is a node": {
			manifest: aTrainJob + "  trainer: {numNodes: 4}\n  runtimePatches: []\n" + aRuntime + "  mlPolicy: {mpi: {runLauncherAsNode: true}}\n  template: {spec: {replicatedJobs: [{name: node, template: {spec: {" + pods + "}}}, " +
				"{name: launcher, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}\n",
			spec: "{framework: {mpi: {launcher: launcher, worker: node}}, tasks: [{name: node, replicas: 3}, {name: launcher, replicas: 1}]}",
			lost: []string{"spec.mlPolicy.mpi: spec.framework.mpi has keys"},
		},
		"a policy for replicas that are not there": {
			manifest: aPyTorchJob + "  pytorchReplicaSpecs: {Master: {" + pods + "}, Worker: {replicas: 0, restartPolicy: ExitCode, " + pods + "}}\n",
			spec:     "{tasks: [{name: master, replicas: 1}]}",
			lost:     []string{"Worker: a task without pods is left out"},
		},
		"suspended for Kueue": {
			manifest: strings.Replace(aTrainJob, "{name: j}", "{name: j, labels: {kueue.x-k8s.io/queue-name: q}}", 1) + "  suspend: true\n  managedBy: kueue.x-k8s.io/multikueue\n" + aRuntime + aNode,
			spec:     "{managedBy: kueue.x-k8s.io/multikueue, tasks: [{name: node, replicas: 1}]}",
			lost:     []string{"spec.suspend: Kueue admits a TrainingJob without it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, _ := Jobs(objects(t, tt.manifest))
			got := jobs[0]
			if tt.err != "" {
				if got.Err == nil || !strings.Contains(got.Err.Error(), tt.err) {
					t.Errorf("the error is %v, want %q", got.Err, tt.err)
				}
				return
			}
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			for i := range got.Job.Spec.Tasks {
				got.Job.Spec.Tasks[i].Template = corev1.PodTemplateSpec{}
			}
			if diff := cmp.Diff(specOf(t, []byte(tt.spec)), withoutTemplates(t, got)); diff != "" {
				t.Errorf("the TrainingJob (-want +got):\n%s", diff)
			}
			missing := len(tt.lost) != len(got.Lost)
			for _, want := range tt.lost {
				missing = missing || !strings.Contains(strings.Join(got.Lost, "\n"), want)
			}
			if missing {
				t.Errorf("lost is\n%s\nwant\n%s", strings.Join(got.Lost, "\n"), strings.Join(tt.lost, "\n"))
			}
		})
	}
}

func specOf(t *testing.T, raw []byte) (spec map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func withoutTemplates(t *testing.T, job Adopted) map[string]any {
	t.Helper()
	raw, err := yaml.Marshal(job.Job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf(t, raw)
	for _, task := range spec["tasks"].([]any) {
		delete(task.(map[string]any), "template")
	}
	return spec
}
