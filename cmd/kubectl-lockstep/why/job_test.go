package why

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestARunningJob(t *testing.T) {
	check.Equal(t, "answer", []string{
		"It has been running since 11:00:00 UTC (60m ago), reason PodsReady: every pod of the gang is ready. [condition Running]",
		"Home is HyperNode rack-a of tier 1, the lowest that holds all its nodes. Replacements go there. [status.placement]",
		"It has never relocated: the scheduler chose the nodes when the gang was first placed, in one HyperNode of tier 1 at most. [status.restarts]",
	}, sentences(Job(running())))
}

func TestAQueuedJob(t *testing.T) {
	check.Equal(t, "answer", []string{
		"It has not been scheduled since 11:00:00 UTC (60m ago), reason Queued: waits for room in queue default. [condition Scheduled]",
		"Queue default is open, and its limits leave room for the gang. What share of the cluster the scheduler allows it is only in the scheduler's metrics volcano_queue_*. [Queue default]",
		"The queue has not admitted the gang of 4 pods yet: its pods are only created after that. [PodGroup llm-1-uid, phase Pending]",
		"The topology is hard: all pods have to fit into one HyperNode of tier 1 at most. [spec.networkTopology]",
	}, sentences(Job(queued())))
}

func TestARecoveringJob(t *testing.T) {
	check.Equal(t, "answer", []string{
		"It has been recovering since 11:00:00 UTC (60m ago), reason IncidentOpen: incident 7, PodFailed of pod llm-1-worker-1. [condition Recovering]",
		"Incident 7 is open: PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else (RestartPod, RestartTask after 7m, RestartJob after 10m, RelocateJob after 15m) of the default restart policy. Steps taken: RestartPod at 11:51:00 UTC (9m ago). [status.incidents]",
	}, sentences(Job(recoveringFrom(anIncident())))[:2])
}

// What a change of a running, queued or recovering job adds to the answer.
func TestWhatIsToldOfAJob(t *testing.T) {
	open := func() *Snapshot { return recoveringFrom(anIncident()) }
	queueOf := func(change func(*scheduling.Queue)) func(*Snapshot) { return func(s *Snapshot) { change(s.Queue) } }
	incident := func(change func(*v1alpha1.Incident)) func(*Snapshot) {
		return func(s *Snapshot) { change(&s.Job.Status.Incidents[0]) }
	}
	gpus := func(n string) corev1.ResourceList { return corev1.ResourceList{gpu: resource.MustParse(n)} }
	for name, tc := range map[string]struct {
		of     func() *Snapshot
		change func(*Snapshot)
		want   []string
	}{
		"no status": {running, func(s *Snapshot) { s.Job.Status = v1alpha1.TrainingJobStatus{} }, []string{
			"The manager has not looked at the job yet: its status is empty. `kubectl lockstep check` finds out whether the manager runs. [status]",
		}},
		"a job of another controller": {running, func(s *Snapshot) { s.Job.Spec.ManagedBy = "kueue.x-k8s.io/multikueue" }, []string{
			"kueue.x-k8s.io/multikueue manages the job: Lockstep does nothing with it in this cluster. What follows is what kueue.x-k8s.io/multikueue has written to its status. [spec.managedBy]",
		}},
		"a change that nobody has looked at": {running, func(s *Snapshot) { s.Job.Generation = 2 }, []string{
			"The manager has not looked at the last change of the job yet: what follows is about the job before it. [status.observedGeneration]",
		}},
		"a program that counts its steps": {running, func(s *Snapshot) {
			s.Job.Status.Epoch = 2
			s.Job.Status.Progress = &v1alpha1.ProgressStatus{
				Phase: v1alpha1.PhaseTrain, Step: new(int64(1200)), TotalSteps: new(int64(5000)), CheckpointStep: new(int64(1000)), Percent: new(int32(24)),
				Epoch: 2, UpdateTime: before(3), EstimatedEndTime: new(before(-30)),
			}
		}, []string{
			"The program said by 11:57:00 UTC (3m ago), in epoch 2: phase Train, step 1200 of 5000, 24 %, the last checkpoint at step 1000. [status.progress]",
			"At the pace of that epoch it ends at 12:30:00 UTC (in 30m). [status.progress]",
		}},
		"a program that hangs": {running, func(s *Snapshot) {
			s.set(v1alpha1.ConditionStalled, true, "NoSteps", "no training step for 1m0s after step 120; llm-1-worker-2: stopped, by a signal or a debugger")
		}, []string{
			"It has stalled since 11:00:00 UTC (60m ago), reason NoSteps: no training step for 1m0s after step 120; llm-1-worker-2: stopped, by a signal or a debugger. [condition Stalled]",
		}},
		"a program that counts nothing": {running, func(s *Snapshot) {
			s.Job.Status.Epoch = 2
			s.Job.Status.Progress = &v1alpha1.ProgressStatus{Percent: new(int32(24)), Epoch: 1, UpdateTime: before(3), EstimatedEndTime: new(before(-30))}
		}, []string{
			"The program said by 11:57:00 UTC (3m ago), in epoch 1: 24 %. [status.progress]",
		}},
		"what cannot be read": {running, func(s *Snapshot) { s.Unread = []Unread{{"nodes", errors.New("nodes is forbidden")}} }, []string{
			"The nodes could not be read: nodes is forbidden. []",
		}},
		"what may not be read": {running, func(s *Snapshot) {
			s.Unread = []Unread{{"nodes", apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("not you"))}}
		}, []string{
			"The nodes could not be read: nodes is forbidden: not you. []",
			"The ClusterRole lockstep-explain has the rights to all of that. []",
		}},
		"a violated topology": {running, func(s *Snapshot) { s.set(v1alpha1.ConditionTopologyViolated, true, "TierExceeded", "ranks are apart") }, []string{
			"Its topology has been violated since 11:00:00 UTC (60m ago), reason TierExceeded: ranks are apart. [condition TopologyViolated]",
		}},
		"pods that do not start": {running, func(s *Snapshot) { s.set(v1alpha1.ConditionRunning, false, "PodsNotStarted", "pod a cannot start") }, []string{
			"It has not been running since 11:00:00 UTC (60m ago), reason PodsNotStarted: pod a cannot start. [condition Running]",
		}},
		"more ranks": {running, func(s *Snapshot) {
			s.Job.Status.Ready = "3/5"
			s.Job.Status.Availability = &v1alpha1.Availability{Interruption: &v1alpha1.Interruption{StartTime: micro(2), Cause: v1alpha1.CauseResized}}
		}, []string{
			"It has been growing since 11:58:00 UTC (2m ago), and 3/5 ranks are ready. Only ranks that were added to it are not ready yet. Until they are, its state is Starting and the time counts as lost to Resized, although the ranks that it had before may train on. [status.availability]",
		}},
		"no home": {running, func(s *Snapshot) { s.Job.Status.Placement.HyperNode = "" }, []string{
			"It has no home: no HyperNode holds all its nodes. [status.placement]",
		}},
		"homes of partitions": {running, func(s *Snapshot) {
			s.Job.Status.Placement.Tasks[0].Partitions = []v1alpha1.PartitionPlacement{{HyperNode: "rack-a"}, {HyperNode: "rack-b"}}
		}, []string{"The partitions of task worker have homes of their own: 0 in rack-a, 1 in rack-b. [status.placement]"}},
		"relocated": {running, func(s *Snapshot) {
			inc := over(anIncident())
			inc.Steps = append(inc.Steps, v1alpha1.FiredStep{Action: v1alpha1.RelocateJob, Index: 3, Time: micro(9)})
			s.Job.Status.Incidents, s.Job.Status.Restarts.Relocations = []v1alpha1.Incident{inc}, 2
			s.Job.Status.LeftHyperNodes = []v1alpha1.LeftHyperNode{{Name: "rack-b", Until: before(-20)}}
		}, []string{
			"It relocated 2 times, the last time at 11:51:00 UTC (9m ago), for incident 7: PodFailed of pod llm-1-worker-1. [status.incidents]",
			"It relocated from HyperNode rack-b, and keeps away from there until 12:20:00 UTC (in 20m). [status.leftHyperNodes]",
			"Incident 7 has been Recovered since 11:52:00 UTC (8m ago): PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else of the default restart policy. Steps taken: RestartPod at 11:51:00 UTC (9m ago), RelocateJob at 11:51:00 UTC (9m ago). [status.incidents]",
		}},
		"a home that it left long ago": {running, func(s *Snapshot) {
			s.Job.Status.LeftHyperNodes = []v1alpha1.LeftHyperNode{{Name: "rack-b", Until: before(2)}}
		}, []string{
			"It relocated from HyperNode rack-b, and keeps away from there until 11:58:00 UTC (2m ago, and the manager has yet to notice). [status.leftHyperNodes]",
		}},
		"relocated long ago": {running, func(s *Snapshot) { s.Job.Status.Restarts.Relocations = 1 }, []string{
			"It relocated 1 time. The incidents of that are not remembered any more. [status.restarts]",
		}},
		"holds": {running, func(s *Snapshot) {
			s.Job.Status.Holds = []v1alpha1.NodeHold{{Node: "n0"}, {Node: "n1"}, {Node: "n2", Until: new(before(-5))}}
		}, []string{
			"It holds 2 nodes until it ends: n0, n1. [status.holds]",
			"It holds 1 node until its ranks are back, and the last no longer than until 12:05:00 UTC (in 5m): n2. [status.holds]",
		}},
		"exclusions": {running, func(s *Snapshot) {
			for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
				s.Job.Status.ExcludedNodes = append(s.Job.Status.ExcludedNodes, v1alpha1.ExcludedNode{Name: n, Until: before(-24 * 60), Incident: 7})
			}
		}, []string{
			"The job keeps away from node a until 2026-01-03 12:00:00 UTC (in 24h), because of incident 7. [status.excludedNodes]",
			"The job keeps away from node b until 2026-01-03 12:00:00 UTC (in 24h), because of incident 7. [status.excludedNodes]",
			"The job keeps away from node c until 2026-01-03 12:00:00 UTC (in 24h), because of incident 7. [status.excludedNodes]",
			"The job keeps away from node d until 2026-01-03 12:00:00 UTC (in 24h), because of incident 7. [status.excludedNodes]",
			"Nodes that the job keeps away from beside these: 2. [status.excludedNodes]",
		}},
		"suspended": {running, func(s *Snapshot) {
			s.Job.Spec.Suspend = true
			s.set(v1alpha1.ConditionSuspended, true, "SuspendedBySpec", "spec.suspend is true")
		}, []string{
			"It has been suspended since 11:00:00 UTC (60m ago), reason SuspendedBySpec: spec.suspend is true. [condition Suspended]",
			"It still has 4 pods, which are being stopped. [Pods]",
		}},
		"waiting for Kueue": {running, func(s *Snapshot) {
			s.Pods = nil
			s.set(v1alpha1.ConditionSuspended, true, "NotAdmitted", "Kueue has not admitted Workload w to queue q yet: insufficient quota")
		}, []string{
			"It has been suspended since 11:00:00 UTC (60m ago), reason NotAdmitted: Kueue has not admitted Workload w to queue q yet: insufficient quota. [condition Suspended]",
		}},
		"being suspended": {running, func(s *Snapshot) { s.Job.Spec.Suspend = true }, []string{
			"spec.suspend is true, and its pods are being stopped. [spec.suspend]", "It still has 4 pods, which are being stopped. [Pods]",
		}},
		"completed": {running, func(s *Snapshot) { s.set(v1alpha1.ConditionCompleted, true, "TasksSucceeded", "all have succeeded") }, []string{
			"It completed at 11:00:00 UTC (60m ago), reason TasksSucceeded: all have succeeded. [condition Completed]",
		}},
		"failed": {running, func(s *Snapshot) {
			inc := over(anIncident())
			inc.Outcome = v1alpha1.OutcomeFailed
			s.Job.Status.Incidents = []v1alpha1.Incident{inc}
			s.set(v1alpha1.ConditionFailed, true, "BudgetExhausted", "20 restarts are used")
			s.Job.Status.Restarts.ChargedTimes = []metav1.Time{before(3000), before(9)}
		}, []string{
			"It failed at 11:00:00 UTC (60m ago), reason BudgetExhausted: 20 restarts are used. [condition Failed]",
			"Incident 7 has been Failed since 11:52:00 UTC (8m ago): PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else (RestartPod, RestartTask after 7m, RestartJob after 10m, RelocateJob after 15m) of the default restart policy. Steps taken: RestartPod at 11:51:00 UTC (9m ago). [status.incidents]",
			"Used of the budget of the job: 1 of 20 charged restarts within 24h. 19 of 20 are left. [status.restarts]",
		}},
		"a budget of a task": {running, func(s *Snapshot) {
			s.Job.Spec.Tasks[0].RestartPolicy = &v1alpha1.RestartPolicy{Budget: &v1alpha1.Budget{MaxRestarts: new(int32(1)), WindowSeconds: 7200}}
			s.Job.Status.Tasks[0].ChargedTimes = []metav1.Time{before(9)}
		}, []string{"Used of the budget of task worker: 1 of 1 charged restart within 120m. 0 of 1 are left. [status.restarts]"}},

		"no step yet, and a rule that is gone": {open, incident(func(inc *v1alpha1.Incident) { inc.Steps, inc.Rule = nil, "mine" }), []string{
			"Incident 7 is open: PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule mine (which is not there any more) of the default restart policy. Steps taken: none. [status.incidents]",
		}},
		"a rule of the job, in a dry run": {open, func(s *Snapshot) {
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{Name: "everything-else", Steps: []v1alpha1.Step{{Action: v1alpha1.FailJob, AfterSeconds: 5}}}}}
			s.Job.Status.Incidents[0].Steps[0].DryRun = true
			s.Job.Status.NextStep = &v1alpha1.NextStep{Incident: 7, Action: v1alpha1.FailJob, Time: before(-1), DryRun: true}
		}, []string{
			"Incident 7 is open: PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else (FailJob after 5s) of the job's restartPolicy. Steps taken: RestartPod at 11:51:00 UTC (9m ago), only recorded: a dry run. [status.incidents]",
			"The next step of incident 7 is FailJob at 12:01:00 UTC (in 60s), and will only be recorded: the job has the annotation lockstep.dev/dry-run. [status.nextStep]",
		}},
		"a rule of the task": {open, func(s *Snapshot) {
			s.Job.Spec.Tasks[0].RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{Name: "everything-else", Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob}}}}}
			s.Job.Status.Incidents[0].PolicyTask = "worker"
		}, []string{
			"Incident 7 is open: PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else (RestartJob) of the restartPolicy of task worker. Steps taken: RestartPod at 11:51:00 UTC (9m ago). [status.incidents]",
		}},
		"victims and the words of Kubernetes": {open, incident(func(inc *v1alpha1.Incident) {
			inc.VictimCount, inc.Victims, inc.Cause.Message = 1, []string{"llm-1-worker-2"}, "CUDA error\n"
		}), []string{
			`The message of the cause of incident 7: "CUDA error". [status.incidents]`,
			"Incident 7 has 1 victim that fell only because of it (llm-1-worker-2): the kubelet restarts them in place. [status.incidents]",
		}},
		"a silent node": {open, incident(func(inc *v1alpha1.Incident) { inc.Trigger = v1alpha1.NodeNotReady }), []string{
			"A pod on a silent node counts as dead after 1m (unreachableNode.afterSeconds). [spec.restartPolicy]",
		}},
		"a silent node, and a fence": {open, func(s *Snapshot) {
			s.Job.Status.Incidents[0].Trigger = v1alpha1.NodeNotReady
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{GangDownAfterSeconds: new(int32(5))}}
		}, []string{
			"A pod on a silent node counts as dead after 1m (unreachableNode.afterSeconds), and where the rest of the gang is down after 5s (gangDownAfterSeconds). [spec.restartPolicy]",
		}},
		"a silent node, and proof": {open, func(s *Snapshot) {
			s.Job.Status.Incidents[0].Trigger = v1alpha1.NodeNotReady
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}}
		}, []string{
			"A pod on a silent node counts as dead once the node is deleted or has the taint node.kubernetes.io/out-of-service: unreachableNode.policy is RequireProof. [spec.restartPolicy]",
		}},
		"a next step": {open, func(s *Snapshot) {
			s.Job.Status.NextStep = &v1alpha1.NextStep{Incident: 7, Action: v1alpha1.RestartTask, Time: before(-1)}
		}, []string{"The next step of incident 7 is RestartTask at 12:01:00 UTC (in 60s), unless all its ranks are back by then. [status.nextStep]"}},
		"a next step that is due": {open, func(s *Snapshot) {
			s.Job.Status.NextStep = &v1alpha1.NextStep{Incident: 7, Action: v1alpha1.RestartTask, Time: metav1.NewTime(t0.Add(-12 * time.Second))}
		}, []string{"The next step of incident 7 is RestartTask, due since 11:59:48 UTC (12s ago), unless all its ranks are back. [status.nextStep]"}},
		"a next step that nobody takes": {open, func(s *Snapshot) {
			s.Job.Status.NextStep = &v1alpha1.NextStep{Incident: 7, Action: v1alpha1.RestartTask, Time: before(5)}
		}, []string{
			"The next step of incident 7 is RestartTask, due since 11:55:00 UTC (5m ago), unless all its ranks are back. [status.nextStep]",
			"The manager takes a step within seconds, so it may not be running: `kubectl lockstep check` finds out. []",
		}},

		"a closed queue": {queued, queueOf(func(q *scheduling.Queue) { q.Status.State = scheduling.QueueStateClosed }), []string{
			"Queue default is Closed: Volcano starts nothing from it until it is open again. [Queue default]",
		}},
		"too little capability": {queued, queueOf(func(q *scheduling.Queue) { q.Spec.Capability, q.Status.Allocated = gpus("40"), gpus("9") }), []string{
			"All pods of the job ask for 32 of nvidia.com/gpu. Queue default may not use more than 40 (spec.capability), and 9 are allocated. [spec.tasks, Queue default]",
		}},
		"enough capability": {queued, queueOf(func(q *scheduling.Queue) { q.Spec.Capability, q.Status.Allocated = gpus("41"), gpus("9") }), nil},
		"too little deserved": {queued, queueOf(func(q *scheduling.Queue) { q.Spec.Deserved = gpus("31") }), []string{
			"All pods of the job ask for 32 of nvidia.com/gpu. Queue default deserves 31 (spec.deserved), and 0 are allocated. [spec.tasks, Queue default]",
		}},
		"no PodGroup": {queued, func(s *Snapshot) { s.PodGroup = nil }, []string{"Volcano has not begun with attempt 1 yet: there is no PodGroup for it. [PodGroups]"}},
		"PodGroups that cannot be read": {queued, func(s *Snapshot) {
			s.PodGroup, s.Unread = nil, []Unread{{"PodGroups", errors.New("no")}}
		}, []string{"The PodGroups could not be read: no. []"}},
		"an unschedulable gang": {queued, func(s *Snapshot) {
			s.PodGroup.Status = scheduling.PodGroupStatus{Phase: scheduling.PodGroupInqueue, Conditions: []scheduling.PodGroupCondition{{
				Type: scheduling.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: "NotEnoughResources", Message: "4/4 tasks in gang unschedulable", LastTransitionTime: before(1),
			}}}
			s.Pods = []corev1.Pod{podOn(0, ""), podOn(1, ""), podOn(2, "")}
			s.Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.PlacementGate}}
			unschedulable(&s.Pods[1], "0/4 nodes are unavailable")
			unschedulable(&s.Pods[2], "0/4 nodes are unavailable")
		}, []string{
			"The queue has admitted the gang of 4 pods: the scheduler looks for nodes for all of them at once. [PodGroup llm-1-uid, phase Inqueue]",
			`The scheduler has found no place for the whole gang since 11:59:00 UTC (60s ago): "4/4 tasks in gang unschedulable". [PodGroup llm-1-uid, phase Inqueue]`,
			"Volcano has made 3 of the 4 pods of the gang. [Pods]",
			"llm-1-worker-0 has no node: the manager has yet to open the gate lockstep.dev/placement. [Pods]",
			`llm-1-worker-1, llm-1-worker-2 have no node: the scheduler says "0/4 nodes are unavailable". [Pods]`,
		}},
		"nodes that are kept from it": {queued, func(s *Snapshot) {
			s.Nodes[0].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintQuarantine}, {Key: corev1.TaintNodeOutOfService}}
			s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: v1alpha1.HoldTaintPrefix + "other-1234"}, {Key: v1alpha1.HoldTaintPrefix + "another-1234"}}
			s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: v1alpha1.HoldTaintPrefix + "llm-11111111"}} // its own
			s.Nodes[3].Spec.Unschedulable, s.Nodes[3].Status.Conditions[0].Status = true, corev1.ConditionUnknown
		}, []string{
			"Of 4 nodes, 1 is held by other TrainingJobs (n1), 1 is not ready (n3), 1 is out of service (n0), 1 is perhaps in use, as the pods of all namespaces could not be read (n2). [Nodes, Pods]",
		}},
		"no HyperNodes": {queued, func(s *Snapshot) { s.Topology = topology.New(nil) }, []string{"highestTierAllowed 1 lets Volcano spread the gang over all nodes: the cluster has no HyperNodes. [HyperNodes]"}},
		"no HyperNode of its tier": {queued, func(s *Snapshot) {
			s.Topology = topology.New([]topology.HyperNode{{Name: "spine", Tier: 2, Nodes: []string{"n0"}}})
		}, []string{"No HyperNode is of tier 1 at most, as networkTopology.highestTierAllowed of the gang asks: the lowest is of tier 2. [HyperNodes]"}},
		"refused": {queued, func(s *Snapshot) { s.set(v1alpha1.ConditionScheduled, false, "VolcanoJobRefused", "no queue") }, []string{
			"It has not been scheduled since 11:00:00 UTC (60m ago), reason VolcanoJobRefused: no queue. [condition Scheduled]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "added", tc.want, added(tc.of(), tc.change, Job))
		})
	}
}
