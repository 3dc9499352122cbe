package why

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// worker1 is the second worker.
var worker1 = Subject{Rank: gang.Rank{Task: "worker", Index: 1}, Attempt: 1, Pod: "llm-1-worker-1"}

func askFor(sub Subject) func(*Snapshot) []Fact {
	return func(s *Snapshot) []Fact { return Rank(s, sub) }
}

func TestARankThatWasNeverRestarted(t *testing.T) {
	s := running()
	s.Events = []corev1.Event{{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "llm-1-worker-1", UID: "uid-llm-1-worker-1"}, LastTimestamp: before(60),
		Reason: "Scheduled", Message: "Successfully assigned research/llm-1-worker-1 to n1", Source: corev1.EventSource{Component: "volcano"},
	}}
	check.Equal(t, "answer", []string{
		"Rank worker-1 is pod llm-1-worker-1, which was created at 11:00:00 UTC (60m ago) and is Running on node n1 of HyperNode rack-a of tier 1. [Pod llm-1-worker-1]",
		"volcano bound it at 11:00:00 UTC (60m ago): Successfully assigned research/llm-1-worker-1 to n1. [Event]",
		"The manager opened its gate at 11:00:00 UTC (60m ago), and left its node to the scheduler, in one HyperNode of tier 1 at most. [Pod llm-1-worker-1]",
		"It is the first pod of the rank: nothing of the job had been restarted before. [Pod llm-1-worker-1]",
		"Lockstep has never restarted the rank: it is at incarnation 0, in attempt 1. [status.tasks]",
	}, sentences(Rank(s, worker1)))
}

// restartedOnce is the job after its second worker was restarted, on its own node.
func restartedOnce() *Snapshot {
	s := running()
	s.Job.Status.Incidents = []v1alpha1.Incident{over(anIncident())}
	s.Job.Status.Tasks[0].Ranks = []v1alpha1.RankStatus{{Indexes: "1", Incarnation: 1, Reason: v1alpha1.RestartByStep}}
	pinned(&s.Pods[1], "n1")
	return s
}

func TestARankThatWasRestarted(t *testing.T) {
	check.Equal(t, "answer", []string{
		"Rank worker-1 is pod llm-1-worker-1, which was created at 11:00:00 UTC (60m ago) and is Running on node n1 of HyperNode rack-a of tier 1. [Pod llm-1-worker-1]",
		"Who bound it to its node is not known: no event of that is left. [Events]",
		"The manager opened its gate at 11:00:00 UTC (60m ago), and allowed it node n1 only. [Pod llm-1-worker-1]",
		"It went back to its own node: when incident 7 began, the rank was on node n1, too. [status.incidents]",
		"The rank is at incarnation 1, and the job in attempt 1. [status.tasks]",
		"The last step that restarted it was RestartPod of incident 7 at 11:51:00 UTC (9m ago), step 1 of rule everything-else: the pod before was deleted for that, unless it was gone already. [status.incidents]",
		recovered("RestartPod at 11:51:00 UTC (9m ago)"),
	}, sentences(Rank(restartedOnce(), worker1)))
}

// recovered is what is told of the incident of the second worker that took these steps.
func recovered(steps string) string {
	return "Incident 7 has been Recovered since 11:52:00 UTC (8m ago): PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else " +
		"of the default restart policy. Steps taken: " + steps + ". [status.incidents]"
}

// What a change of these adds to the answer about the second worker.
func TestWhatIsToldOfARank(t *testing.T) {
	incident := func(change func(*v1alpha1.Incident)) func(*Snapshot) {
		return func(s *Snapshot) { change(&s.Job.Status.Incidents[0]) }
	}
	// moved is the rank on node n3, where it was on another one.
	moved := func(change func(*Snapshot)) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Pods[1].Spec.NodeName = "n3"
			pinned(&s.Pods[1], "n2", "n3")
			change(s)
		}
	}
	const (
		onN3    = "Rank worker-1 is pod llm-1-worker-1, which was created at 11:00:00 UTC (60m ago) and is Running on node n3 of HyperNode rack-a of tier 1. [Pod llm-1-worker-1]"
		allowed = "The manager opened its gate at 11:00:00 UTC (60m ago), and allowed it 2 nodes: n2, n3. [Pod llm-1-worker-1]"
		tookN3  = "It took node n3 in place of node n1, on which the rank was when incident 7 began. [status.incidents]"
	)
	for name, tc := range map[string]struct {
		of     func() *Snapshot
		change func(*Snapshot)
		want   []string
	}{
		"moved, for no reason that is left": {restartedOnce, moved(func(*Snapshot) {}), []string{onN3, allowed, tookN3,
			"Nothing keeps the job from node n1 now. What did when incident 7 replaced the pod is not recorded beyond its cause. [Node n1]",
		}},
		"moved from a node that is excluded and gone": {restartedOnce, moved(func(s *Snapshot) {
			s.Nodes = append(s.Nodes[:1], s.Nodes[2:]...)
			s.Job.Status.ExcludedNodes = []v1alpha1.ExcludedNode{{Name: "n1", Until: before(-50), Incident: 7}}
		}), []string{onN3, allowed, tookN3,
			"The job keeps away from node n1 until 12:50:00 UTC (in 50m), because of incident 7. [status.excludedNodes]",
			"Node n1 does not exist any more. [Node n1]",
		}},
		"moved from a node in quarantine to that of a spare": {restartedOnce, moved(func(s *Snapshot) {
			s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintQuarantine}}
			s.Job.Status.Tasks = append(s.Job.Status.Tasks, v1alpha1.TaskStatus{Name: "worker-spare", Ranks: []v1alpha1.RankStatus{{Indexes: "0", Incarnation: 1, Reason: v1alpha1.RestartSpareUsed}}})
		}), []string{onN3, allowed, tookN3,
			"Node n1 is in quarantine. [Node n1]",
			"Of the spares of its task these have given their node to a rank: worker-spare-0. The status does not say to which. [status.tasks]",
		}},
		"moved later, along with others": {restartedOnce, moved(func(s *Snapshot) {
			next := over(anIncident())
			next.ID, next.Pods, next.Steps = 8, []v1alpha1.IncidentPod{{Task: "worker", Name: "llm-1-worker-0", Node: "n0"}}, []v1alpha1.FiredStep{{Action: v1alpha1.RestartJob, Time: micro(0)}}
			s.Job.Status.Incidents = append(s.Job.Status.Incidents, next)
		}), []string{onN3, allowed,
			"Incident 8 restarted it last, and does not say on which node the pod before was. [status.incidents]",
			"The last step that restarted it was RestartJob of incident 8 at 12:00:00 UTC (0s ago), in place of RestartPod, step 1 of rule everything-else, because Volcano had ended its Job, or peers had ended for good: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			"Incident 8 has been Recovered since 11:52:00 UTC (8m ago): incident 7, PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else of the default restart policy. Steps taken: RestartJob at 12:00:00 UTC (0s ago). [status.incidents]",
			"Incident 7 had restarted it before, by RestartPod at 11:51:00 UTC (9m ago): PodFailed of pod llm-1-worker-1. [status.incidents]",
		}},
		"nodes that cannot be read": {restartedOnce, moved(func(s *Snapshot) {
			s.Unread = []Unread{{"nodes", errors.New("forbidden")}}
		}), []string{onN3, allowed, tookN3, "The nodes could not be read: forbidden. []"}},
		"held": {restartedOnce, func(s *Snapshot) {
			s.Job.Status.Holds = []v1alpha1.NodeHold{{Node: "n1", Until: new(before(-5))}}
		}, []string{"The job holds node n1 for it, until 12:05:00 UTC (in 5m) at most. [status.holds]"}},
		"held for good": {restartedOnce, func(s *Snapshot) { s.Job.Status.Holds = []v1alpha1.NodeHold{{Node: "n1"}} }, []string{"The job holds node n1 until it ends. [status.holds]"}},

		"a later step, which came when the pod was back": {restartedOnce, func(s *Snapshot) {
			s.Pods[1].CreationTimestamp, s.Pods[1].Annotations[v1alpha1.AnnotationIncarnation] = before(9), "1"
			s.Job.Status.Incidents[0].Steps = append(s.Job.Status.Incidents[0].Steps, v1alpha1.FiredStep{Action: v1alpha1.MigratePod, Index: 1, Time: micro(8)})
		}, []string{
			"Rank worker-1 is pod llm-1-worker-1, which was created at 11:51:00 UTC (9m ago) and is Running on node n1 of HyperNode rack-a of tier 1. [Pod llm-1-worker-1]",
			recovered("RestartPod at 11:51:00 UTC (9m ago), MigratePod at 11:52:00 UTC (8m ago)"),
		}},
		"a later step, for which the pod is to go": {restartedOnce, func(s *Snapshot) {
			s.Pods[1].CreationTimestamp, s.Pods[1].Annotations[v1alpha1.AnnotationIncarnation] = before(9), "1"
			s.Job.Status.Tasks[0].Ranks[0].Incarnation = 2
			s.Job.Status.Incidents[0].Steps = append(s.Job.Status.Incidents[0].Steps, v1alpha1.FiredStep{Action: v1alpha1.MigratePod, Index: 1, Time: micro(8)})
		}, []string{
			"Rank worker-1 is pod llm-1-worker-1, which was created at 11:51:00 UTC (9m ago) and is Running on node n1 of HyperNode rack-a of tier 1. [Pod llm-1-worker-1]",
			"The rank is at incarnation 2, and the job in attempt 1. [status.tasks]",
			"The last step that restarted it was MigratePod of incident 7 at 11:52:00 UTC (8m ago), step 2 of rule everything-else: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			recovered("RestartPod at 11:51:00 UTC (9m ago), MigratePod at 11:52:00 UTC (8m ago)"),
		}},
		"an incident that is forgotten": {restartedOnce, func(s *Snapshot) { s.Job.Status.Incidents = nil }, []string{
			"No incident that the status remembers names the rank, so it does not tell on which node the pod before was. [status.incidents]",
			"The incident that restarted it is not remembered any more: the status keeps the last 10 that are over. The manager's log has it, and events for about an hour. [status.incidents]",
		}},
		"a pod that was gone": {restartedOnce, func(s *Snapshot) {
			s.Job.Status.Tasks[0].Ranks[0].Reason = v1alpha1.RestartPodGone
		}, []string{"It was last restarted by no step (PodGone): its pod was gone already, alone or with its node: Lockstep deleted nothing. [status.tasks]"}},
		"deleted by somebody else": {restartedOnce, incident(func(inc *v1alpha1.Incident) { inc.Trigger = v1alpha1.PodDeleted }), []string{
			"PodDeleted means that somebody else than Lockstep had deleted or evicted the pod first. [status.incidents]",
		}},
		"a new attempt for which no rule asked": {restartedOnce, incident(func(inc *v1alpha1.Incident) {
			inc.Trigger, inc.Steps = v1alpha1.VolcanoJobEnded, []v1alpha1.FiredStep{{Action: v1alpha1.RestartJob, Index: -1, Time: micro(9)}}
		}), []string{
			"The last step that restarted it was RestartJob of incident 7 at 11:51:00 UTC (9m ago), because Volcano had ended its Job: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			recovered("RestartJob at 11:51:00 UTC (9m ago)"),
		}},
		"a new attempt in place of the rule's step": {restartedOnce, incident(func(inc *v1alpha1.Incident) { inc.Steps[0].Action = v1alpha1.RestartJob }), []string{
			"The last step that restarted it was RestartJob of incident 7 at 11:51:00 UTC (9m ago), in place of RestartPod, step 1 of rule everything-else, because Volcano had ended its Job, or peers had ended for good: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			"Incident 7 has been Recovered since 11:52:00 UTC (8m ago): PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else of the default restart policy. Steps taken: RestartJob at 11:51:00 UTC (9m ago). [status.incidents]",
		}},
		"a job that was resumed, before its rule's first step": {restartedOnce, incident(func(inc *v1alpha1.Incident) {
			inc.Trigger, inc.Steps[0].Action = v1alpha1.JobResumed, v1alpha1.RestartJob
		}), []string{
			"The last step that restarted it was RestartJob of incident 7 at 11:51:00 UTC (9m ago), because the job was resumed: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			recovered("RestartJob at 11:51:00 UTC (9m ago)"),
		}},
		"a step of the rule after a job was resumed": {restartedOnce, incident(func(inc *v1alpha1.Incident) {
			inc.Trigger, inc.Steps[0].Action = v1alpha1.JobResumed, v1alpha1.RestartJob
			inc.Steps = append(inc.Steps, v1alpha1.FiredStep{Action: v1alpha1.RestartTask, Index: 1, Time: micro(8)})
		}), []string{
			"The last step that restarted it was RestartTask of incident 7 at 11:52:00 UTC (8m ago), step 2 of rule everything-else: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			recovered("RestartJob at 11:51:00 UTC (9m ago), RestartTask at 11:52:00 UTC (8m ago)"),
		}},
		"a step between the ladder's, of an open incident": {restartedOnce, incident(func(inc *v1alpha1.Incident) {
			inc.Steps = append(inc.Steps, v1alpha1.FiredStep{Action: v1alpha1.RestartPod, Index: -1, Time: micro(8)})
			inc.Outcome, inc.EndTime = "", nil
		}), []string{
			"The last step that restarted it was RestartPod of incident 7 at 11:52:00 UTC (8m ago), which replaced a pod that failed between the steps of its rule: the pod before was deleted for that, unless it was gone already. [status.incidents]",
			"Incident 7 is open: PodFailed of pod llm-1-worker-1. It began at 11:50:00 UTC (10m ago), is of class User and follows rule everything-else (RestartPod, RestartTask after 7m, RestartJob after 10m, RelocateJob after 15m) of the default restart policy. Steps taken: RestartPod at 11:51:00 UTC (9m ago), RestartPod at 11:52:00 UTC (8m ago). [status.incidents]",
		}},

		"a pod that searches": {restartedOnce, func(s *Snapshot) {
			s.Pods[1].Spec.NodeName, s.Pods[1].Status.Phase = "", corev1.PodPending
			unschedulable(&s.Pods[1], "0/4 nodes are unavailable")
			s.set(v1alpha1.ConditionRecovering, true, v1alpha1.ReasonIncidentOpen, "waits for room in HyperNode rack-a")
		}, []string{
			"Rank worker-1 is pod llm-1-worker-1, which was created at 11:00:00 UTC (60m ago) and is Pending without a node. [Pod llm-1-worker-1]",
			`It has no node: the scheduler says "0/4 nodes are unavailable". [Pod llm-1-worker-1]`,
			"It has been recovering since 11:00:00 UTC (60m ago), reason IncidentOpen: waits for room in HyperNode rack-a. [condition Recovering]",
			"Of 4 nodes, 3 are in use by the job itself (n0, n2, n3), 1 is perhaps in use, as the pods of all namespaces could not be read (n1). [Nodes, Pods]",
		}},
		"a pod that waits, after one that has events": {restartedOnce, func(s *Snapshot) {
			s.Pods[1].Spec.NodeName, s.Pods[1].Status.Phase = "", corev1.PodPending
			s.Events = []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "llm-1-worker-1", UID: "before"}, Reason: "Killing", EventTime: micro(9)}}
		}, []string{
			"Rank worker-1 is pod llm-1-worker-1, which was created at 11:00:00 UTC (60m ago) and is Pending without a node. [Pod llm-1-worker-1]",
			"It has no node: the scheduler has not looked at it yet. [Pod llm-1-worker-1]",
			"Of 4 nodes, 3 are in use by the job itself (n0, n2, n3), 1 is perhaps in use, as the pods of all namespaces could not be read (n1). [Nodes, Pods]",
		}},
		"a container that waits, and a pod that is not ready": {restartedOnce, func(s *Snapshot) {
			s.Pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image."}}}}
			s.Pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: before(3)}}
		}, []string{
			"Its container main waits, reason ImagePullBackOff: no such image. [Pod llm-1-worker-1]",
			"It is not ready since 11:57:00 UTC (3m ago), reason ContainersNotReady. [Pod llm-1-worker-1]",
		}},
		"a container that was restarted in place": {running, func(s *Snapshot) {
			s.Pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 2, LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 134, Reason: "Error", FinishedAt: before(3)},
			}}}
		}, []string{"The kubelet has restarted its container main 2 times. It exited with 134 at 11:57:00 UTC (3m ago), reason Error. [Pod llm-1-worker-1]"}},
		"a container that failed": {running, func(s *Snapshot) {
			s.Pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: before(3)},
			}}}
		}, []string{"Its container main exited with 1 at 11:57:00 UTC (3m ago). [Pod llm-1-worker-1]"}},
		"a pod that cannot go from a silent node": {running, func(s *Snapshot) {
			s.Pods[1].DeletionTimestamp = new(before(2))
			s.Nodes[1].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: before(3)}
		}, []string{
			"Somebody has asked for its deletion: its grace ends at 11:58:00 UTC (2m ago). [Pod llm-1-worker-1]",
			"Node n1 does not answer since 11:57:00 UTC (3m ago), so no kubelet says that the pod has ended. Lockstep removes it when it counts as dead after 1m (unreachableNode.afterSeconds). [Node n1]",
		}},
		"the same, where proof is wanted": {running, func(s *Snapshot) {
			s.Pods[1].DeletionTimestamp = new(before(2))
			s.Nodes[1].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: before(3)}
			s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}}
		}, []string{
			"Somebody has asked for its deletion: its grace ends at 11:58:00 UTC (2m ago). [Pod llm-1-worker-1]",
			"Node n1 does not answer since 11:57:00 UTC (3m ago), so no kubelet says that the pod has ended. Lockstep removes it when it counts as dead once the node is deleted or has the taint node.kubernetes.io/out-of-service: unreachableNode.policy is RequireProof. [Node n1]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "added", tc.want, added(tc.of(), tc.change, askFor(worker1)))
		})
	}
}

// Why there is no pod of a rank.
func TestWhyThereIsNoPod(t *testing.T) {
	const (
		none     = "There is no pod llm-1-worker-1. [Pods]"
		noEvents = "There is no event of pod llm-1-worker-1: Kubernetes keeps events for an hour, unless it is configured otherwise. [Events]"
	)
	for name, tc := range map[string]struct {
		sub    Subject
		change func(*Snapshot)
		want   []string
	}{
		"it is being replaced": {worker1, func(s *Snapshot) {
			s.set(v1alpha1.ConditionRecovering, true, v1alpha1.ReasonIncidentOpen, "incident 7")
			s.set(v1alpha1.ConditionScheduled, false, v1alpha1.ReasonPodsPending, "some pods are being replaced")
		}, []string{
			none, "It has been recovering since 11:00:00 UTC (60m ago), reason IncidentOpen: incident 7. [condition Recovering]",
			"It has not been scheduled since 11:00:00 UTC (60m ago), reason PodsPending: some pods are being replaced. [condition Scheduled]", noEvents,
		}},
		"with events": {worker1, func(s *Snapshot) {
			about := func(reason string, minutes int) corev1.Event {
				return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "llm-1-worker-1"}, Reason: reason, EventTime: micro(minutes), ReportingController: "kubelet"}
			}
			s.Events = []corev1.Event{about("Killing", 1), about("Pulled", 4), about("Started", 3), about("Created", 5)}
		}, []string{
			none, "Pulled, told by kubelet at 11:56:00 UTC (4m ago). [Event]",
			"Started, told by kubelet at 11:57:00 UTC (3m ago). [Event]",
			"Killing, told by kubelet at 11:59:00 UTC (60s ago). [Event]",
		}},
		"the job has failed": {worker1, func(s *Snapshot) { s.set(v1alpha1.ConditionFailed, true, "FailedByRule", "by rule") }, []string{
			none, "It failed at 11:00:00 UTC (60m ago), reason FailedByRule: by rule. [condition Failed]", noEvents,
		}},
		"the job is suspended": {worker1, func(s *Snapshot) { s.Job.Spec.Suspend, s.Pods = true, nil }, []string{
			none, "spec.suspend is true, and its pods are being stopped. [spec.suspend]", noEvents,
		}},
		"of an attempt before, and the job is suspended": {worker1, func(s *Snapshot) { s.Job.Spec.Suspend, s.Pods, s.Job.Status.Attempt = true, nil, 2 }, []string{
			none, "spec.suspend is true, and its pods are being stopped. [spec.suspend]",
			"The rank is at incarnation 0, and the job in attempt 2. [status.tasks]",
			"The incident that restarted it is not remembered any more: the status keeps the last 10 that are over. The manager's log has it, and events for about an hour. [status.incidents]",
			noEvents,
		}},
		"of an attempt before": {worker1, func(s *Snapshot) { s.Job.Status.Attempt = 2 }, []string{
			none, "It was a pod of attempt 1, and the job is at attempt 2: all pods of an attempt go when its Volcano Job has ended or is deleted. The rank is pod llm-2-worker-1 now. [status.attempt]",
			"The rank is at incarnation 0, and the job in attempt 2. [status.tasks]",
			"The incident that restarted it is not remembered any more: the status keeps the last 10 that are over. The manager's log has it, and events for about an hour. [status.incidents]", noEvents,
		}},
		"of an attempt before, and a spare has taken its rank over": {worker1, func(s *Snapshot) {
			s.Job.Status.Attempt = 2
			s.Job.Status.Tasks = append(s.Job.Status.Tasks, v1alpha1.TaskStatus{Name: "worker-spare"})
			gang.TakeOver(&s.Job.Status, worker1.Rank, gang.SpareRank("worker", 0), "9")
		}, []string{
			none, "It was a pod of attempt 1, and the job is at attempt 2: all pods of an attempt go when its Volcano Job has ended or is deleted. The rank is pod llm-2-worker-spare-0 now. [status.attempt]",
			"The rank is at incarnation 1, and the job in attempt 2. [status.tasks]",
			"It was last restarted by no step (TakenOver): a spare took the rank over. [status.tasks]", noEvents,
		}},
		"another rank of its task has succeeded": {worker1, func(s *Snapshot) {
			s.Job.Spec.Tasks[0].Independent, s.Job.Status.Tasks[0].CompletedIndexes = true, "0"
		}, []string{none, noEvents}},
		"there are fewer replicas": {worker1, func(s *Snapshot) { s.Job.Spec.Tasks[0].Replicas = 1 }, []string{
			none, "Task worker has 1 replica now: Volcano deletes the pods of the highest indexes where they were more. [spec.tasks]", noEvents,
		}},
		"it was given up": {worker1, func(s *Snapshot) { s.Job.Status.Tasks[0].Shrunk = 3 }, []string{
			none, "A step ShrinkTask gave up the last 3 ranks of task worker, as long as nothing brings them back. [status.tasks]", noEvents,
		}},
		"it has succeeded": {worker1, func(s *Snapshot) {
			s.Job.Spec.Tasks[0].Independent, s.Job.Status.Tasks[0].CompletedIndexes = true, "0-1"
		}, []string{none, "Of its task these ranks have succeeded, and are not run again: 0-1. [status.tasks]", noEvents}},
		"a spare that is not wanted": {Subject{Rank: gang.SpareRank("worker", 0), Attempt: 1, Pod: "llm-1-worker-spare-0"}, func(s *Snapshot) {
			s.Job.Status.Tasks = append(s.Job.Status.Tasks, v1alpha1.TaskStatus{Name: "worker-spare", Ranks: []v1alpha1.RankStatus{{Indexes: "0", Incarnation: 1, Reason: v1alpha1.RestartSpareUsed}}})
		}, []string{
			"There is no pod llm-1-worker-spare-0. [Pods]", "Task worker has 0 spares now. [spec.tasks]", "The rank is at incarnation 1, and the job in attempt 1. [status.tasks]",
			"It was last restarted by no step (SpareUsed): a spare gave up its node, or the rank that got this node needed a new pod to go there. [status.tasks]",
			"There is no event of pod llm-1-worker-spare-0: Kubernetes keeps events for an hour, unless it is configured otherwise. [Events]",
		}},
		"pods that cannot be read": {worker1, func(s *Snapshot) { s.Unread = []Unread{{"pods", errors.New("no")}, {"Events", errors.New("no")}} }, []string{
			"The pods could not be read: no. []", "The Events could not be read: no. []",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			s.Pods = append(s.Pods[:1], s.Pods[2:]...)
			never := "Lockstep has never restarted the rank: it is at incarnation 0, in attempt 1. [status.tasks]"
			tc.change(s)
			var got []string
			for _, one := range sentences(Rank(s, tc.sub)) {
				if one != never {
					got = append(got, one)
				}
			}
			check.Equal(t, "answer", tc.want, got)
		})
	}
}

// Which steps restart a rank that the incident does not name.
func TestTheReachOfSteps(t *testing.T) {
	step := func(action v1alpha1.Action) v1alpha1.FiredStep {
		return v1alpha1.FiredStep{Action: action, Time: micro(1)}
	}
	s := running()
	s.Job.Spec.Tasks[0].Partition = &v1alpha1.Partition{Size: 2}
	s.Job.Spec.Tasks = append(s.Job.Spec.Tasks, v1alpha1.Task{Name: "launcher", Replicas: 1})
	for action, want := range map[v1alpha1.Action][]string{
		v1alpha1.RestartPod:       {"worker-1"},
		v1alpha1.MigratePod:       {"worker-1"},
		v1alpha1.RestartPartition: {"worker-0", "worker-1"},
		v1alpha1.RestartTask:      {"worker-0", "worker-1", "worker-2", "worker-3"},
		v1alpha1.RestartJob:       {"worker-0", "worker-1", "worker-2", "worker-3", "launcher-0"},
		v1alpha1.RelocateJob:      {"worker-0", "worker-1", "worker-2", "worker-3", "launcher-0"},
		v1alpha1.Ignore:           nil,
		v1alpha1.ShrinkTask:       nil,
		v1alpha1.FailJob:          nil,
	} {
		inc := anIncident()
		inc.Steps = []v1alpha1.FiredStep{step(action), {Action: v1alpha1.RestartJob, Time: micro(0), DryRun: true}}
		s.Job.Status.Incidents = []v1alpha1.Incident{inc}
		var got []string
		gang.EachRank(s.Job, func(r gang.Rank) {
			if len(s.restartsOf(Subject{Rank: r})) > 0 {
				got = append(got, Name(r))
			}
		})
		check.Equal(t, string(action), want, got)
	}
	many := anIncident()
	many.PodCount, many.Ranks = 40, []v1alpha1.IncidentRanks{{Task: "worker", Failed: "1,3-41"}}
	s.Job.Status.Incidents = []v1alpha1.Incident{many}
	if len(s.restartsOf(Subject{Rank: gang.Rank{Task: "worker", Index: 3}})) == 0 {
		t.Error("a rank of an incident that does not name it was restarted by nothing")
	}
}

func TestFind(t *testing.T) {
	job := running().Job
	job.Name, job.Status.Attempt = "a-1", 2
	job.Spec.Tasks[0].Spares = new(int32(1))
	for text, want := range map[string]*Subject{
		"worker-3":              {gang.Rank{Task: "worker", Index: 3}, 2, "a-1-2-worker-3"},
		"pod/a-1-1-worker-0":    {gang.Rank{Task: "worker", Index: 0}, 1, "a-1-1-worker-0"},
		"a-1-2-worker-spare-0":  {gang.Rank{Task: "worker-spare", Index: 0}, 2, "a-1-2-worker-spare-0"},
		"worker-spare-0":        {gang.Rank{Task: "worker-spare", Index: 0}, 2, "a-1-2-worker-spare-0"},
		"launcher-0":            nil,
		"worker":                nil,
		"worker--1":             nil,
		"pod/other-1-worker-0":  nil,
		"pod/a-1-x-worker-0":    nil,
		"pod/a-1-0-worker-0":    nil,
		"pod/a-1-1-launcher-0":  nil,
		"worker-99999999999999": nil,
		"worker-4":              nil,
		"worker-spare-1":        nil,
		"pod/a-1-1-worker-4":    {gang.Rank{Task: "worker", Index: 4}, 1, "a-1-1-worker-4"}, // before the task shrank
	} {
		got, err := Find(job, text)
		if want == nil {
			want = &Subject{}
		}
		check.Equal(t, text, *want, got)
		check.Equal(t, text+" is found", *want != (Subject{}), err == nil)
	}
	check.Equal(t, "ranks", "worker-0 to worker-3, worker-spare-0", Ranks(job))
	check.Equal(t, "names", []string{"worker-0", "worker-1", "worker-2", "worker-3", "worker-spare-0"}, RankNames(job))
}

// The time of an event is the last one that it has.
func TestTimeOfEvents(t *testing.T) {
	for name, e := range map[string]corev1.Event{
		"first":  {FirstTimestamp: before(5)},
		"last":   {FirstTimestamp: before(9), LastTimestamp: before(5)},
		"event":  {EventTime: micro(5)},
		"series": {EventTime: micro(9), Series: &corev1.EventSeries{LastObservedTime: micro(5)}},
	} {
		check.Equal(t, name, before(5).Time, metav1.NewTime(lastSeen(&e)).Time)
	}
}

// A pod is known that exists or must have existed, and one of which anything is recorded.
func TestWhichPodsAreKnown(t *testing.T) {
	fifth := Subject{Rank: gang.Rank{Task: "worker", Index: 4}, Attempt: 1, Pod: "llm-1-worker-4"}
	for name, tc := range map[string]struct {
		sub    Subject
		change func(*Snapshot)
		want   bool
	}{
		"a pod":                   {worker1, func(*Snapshot) {}, true},
		"a rank without a pod":    {worker1, func(s *Snapshot) { s.Pods = nil }, true},
		"an attempt before":       {Subject{Rank: worker1.Rank, Attempt: 1, Pod: "llm-1-worker-1"}, func(s *Snapshot) { s.Job.Status.Attempt, s.Pods = 2, nil }, true},
		"an attempt to come":      {Subject{Rank: worker1.Rank, Attempt: 2, Pod: "llm-2-worker-1"}, func(*Snapshot) {}, false},
		"no such rank":            {fifth, func(*Snapshot) {}, false},
		"pods could not be read":  {fifth, func(s *Snapshot) { s.Unread = []Unread{{"pods", errors.New("no")}} }, true},
		"a rank that is given up": {fifth, func(s *Snapshot) { s.Pods[3].Name = fifth.Pod }, true},
		"an event is left": {fifth, func(s *Snapshot) {
			s.Events = []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: fifth.Pod}}}
		}, true},
		"an incident remembers the rank": {fifth, func(s *Snapshot) {
			s.Job.Status.Incidents = []v1alpha1.Incident{{Pods: []v1alpha1.IncidentPod{{Name: fifth.Pod}}}}
		}, true},
	} {
		s := running()
		tc.change(s)
		check.Equal(t, name, tc.want, s.Knows(tc.sub))
	}
}

// Every incident that the status remembers and that restarted the rank is told, the last one at length.
func TestEarlierRestarts(t *testing.T) {
	s := restartedOnce()
	first := over(anIncident())
	first.ID, first.Message = 3, "incident 3, NodeGone of pod llm-1-worker-1 on node n9"
	first.Steps = []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod, Time: micro(50)}}
	other := over(anIncident())
	other.ID, other.Pods[0].Index = 4, 2
	s.Job.Status.Incidents = append([]v1alpha1.Incident{first, other}, s.Job.Status.Incidents...)
	s.Pods[1].CreationTimestamp = before(9)
	var got []string
	for _, one := range sentences(Rank(s, worker1)) {
		if strings.Contains(one, "had restarted it before") {
			got = append(got, one)
		}
	}
	check.Equal(t, "earlier", []string{
		"Incident 3 had restarted it before, by RestartPod at 11:10:00 UTC (50m ago): NodeGone of pod llm-1-worker-1 on node n9. [status.incidents]",
	}, got)
}
