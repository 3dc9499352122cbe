// What kubectl lockstep why answers.

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// answers waits until kubectl lockstep why says all of these, broken into lines as it likes: events come later than what they
// tell of.
func (s *scenario) answers(args []string, wants ...string) {
	s.t.Helper()
	s.awaitAny(fmt.Sprintf("why %v answers", args), func(ctxT) (bool, error) {
		out, err := s.lockstep(append(append([]string{"why"}, args...), "-n", s.job.Namespace)...)
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, out)
		}
		text := strings.Join(strings.Fields(out), " ")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				return false, fmt.Errorf("no %q in\n%s", want, out)
			}
		}
		return true, nil
	})
}

func TestWhyARankIsWhereItIs(t *testing.T) {
	s := newScenario(t, "why", 2, 4, 2)
	s.keepManager()
	s.run(s.trainingJob(3))
	name, home := s.job.Name, s.pool.Rack(s.rackOf(s.pod(0).Spec.NodeName))
	s.answers([]string{name},
		"TrainingJob default/why: Running", "It has been running since", "Home is HyperNode "+home+" of tier 1, the lowest that holds all its nodes.",
		"It has never relocated: the scheduler chose the nodes when the gang was first placed, in one HyperNode of tier 1 at most.")
	first := s.pod(1)
	s.answers([]string{name, "worker-1"},
		"Rank worker-1 is pod "+first.Name, "is Running on node "+first.Spec.NodeName+" of HyperNode "+home,
		"Successfully assigned", "It is the first pod of the rank", "Lockstep has never restarted the rank")

	s.must(testCluster.FailPod(s.ctx, keyOf(first), 1), "fail a pod")
	s.recovered(1)
	s.answers([]string{"pod/" + first.Name},
		"allowed it node "+first.Spec.NodeName+" only",
		"It went back to its own node: when incident 1 began, the rank was on node "+first.Spec.NodeName,
		"The rank is at incarnation 1", "was RestartPod of incident 1", "step 1 of rule everything-else", "of the default restart policy",
		"PodFailed of pod "+first.Name, "is of class User", "has been Recovered since")

	lost := s.pod(2).Spec.NodeName
	s.must(testCluster.DeleteNode(s.ctx, lost), "delete a node")
	s.recovered(2)
	s.answers([]string{name, "worker-2"},
		"It took node "+s.pod(2).Spec.NodeName+" in place of node "+lost+", on which the rank was when incident 2 began",
		"Node "+lost+" does not exist any more", "RestartPod of incident 2", ": NodeGone of pod", "is of class Infrastructure")
	s.answers([]string{name}, "Incident 2 has been Recovered since", "The job keeps away from node "+lost)

	s.snapshot("recovered")
	s.change("suspend it", func(j *v1alpha1.TrainingJob) { j.Spec.Suspend = true })
	s.awaitAny("its pods are gone", func(ctxT) (bool, error) { return len(s.pods()) == 0, nil })
	s.await("it is suspended", func() bool { return s.job.Status.State == v1alpha1.StateSuspended })
	s.answers([]string{"pod/" + first.Name}, "There is no pod "+first.Name, "It has been suspended since", "was RestartPod of incident 1")
	s.answers([]string{name}, "TrainingJob default/why: Suspended", "It has been suspended since", "reason SuspendedBySpec")
	s.snapshot("suspended")
}

func TestWhyAJobWaits(t *testing.T) {
	s := newScenario(t, "why-waits", 1, 3)
	queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: s.pool.Name}, Spec: scheduling.QueueSpec{
		Weight: 1, Capability: corev1.ResourceList{gpuResource: resource.MustParse("9")}, // too little for the gang
	}}
	s.must(testCluster.Client().Create(s.ctx, queue), "create the queue")
	t.Cleanup(func() { s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, queue)), "delete the queue") })
	s.job = s.trainingJob(2, func(j *v1alpha1.TrainingJob) { j.Spec.Queue = queue.Name })
	s.must(testCluster.Client().Create(s.ctx, s.job), "create the job")
	s.await("it is queued", func() bool { return s.job.Status.State == v1alpha1.StateQueued })
	s.answers([]string{s.job.Name}, "It has not been scheduled since", "reason Queued: waits for room in queue why-waits",
		"Queue why-waits is too small for the gang: it may not use more than 9 of nvidia.com/gpu (spec.capability), and the gang needs 16 at once.",
		"The queue has not admitted the gang of 2 pods yet",
		"The topology is hard: all pods have to fit into one HyperNode of tier 1 at most.")
	s.snapshot("queue-too-small")
	s.operate(queue, bus.CloseQueueAction)
	s.await("it says that the queue is closed", func() bool { return strings.HasSuffix(s.job.Status.Message, "is closed") })
	s.answers([]string{s.job.Name}, "reason Queued: queue why-waits is closed", "Queue why-waits is Clos")
	s.snapshot("queue-closed")
}

// A gang that no HyperNode has room for, because another one holds a node, and one is cordoned.
func TestWhyAJobFindsNoNode(t *testing.T) {
	s := newScenario(t, "why-full", 1, 4)
	s.keepManager()
	s.run(s.trainingJob(2, func(j *v1alpha1.TrainingJob) { j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} }))
	idle := slices.DeleteFunc(s.pool.RackNodes(0), func(n string) bool { return slices.Contains(s.nodesOfRanks(), n) })
	s.must(testCluster.Cordon(s.ctx, idle[0]), "cordon a node")
	victim := s.pod(0)
	s.must(testCluster.FailPod(s.ctx, keyOf(victim), 1), "fail a pod")
	s.recovered(1)
	s.answers([]string{s.job.Name, "worker-0"}, "The job holds node "+victim.Spec.NodeName+" until it ends.",
		" bound it at ", "It went back to its own node") // by the manager, or by a scheduler that was faster

	other := s.trainingJob(2)
	other.Name = "why-full-other"
	s.must(testCluster.Client().Create(s.ctx, other), "create another job")
	t.Cleanup(func() {
		s.must(client.IgnoreNotFound(testCluster.Client().Delete(s.ctx, other)), "delete the other job")
	})
	s.awaitAny("it is told that no node fits", func(ctx ctxT) (bool, error) {
		err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(other), other)
		return strings.Contains(other.Status.Message, "no node fits"), err
	})
	s.answers([]string{other.Name}, "reason PodsPending", "Of 4 nodes", "2 are held by other TrainingJobs",
		"1 is cordoned ("+idle[0]+")", "1 is free for its pods ("+idle[1]+")", "The scheduler has found no place for the whole gang since",
		"Of the HyperNodes up to tier 1, "+s.pool.Rack(0)+" has the most free nodes: 1 of 4. The gang is 2 pods.")
	s.snapshot("no-node-fits")
	for _, rank := range []string{"launcher-0", "worker-2"} {
		out, err := s.lockstep("why", other.Name, rank, "-n", namespace)
		if err == nil || !strings.Contains(out, `"`+rank+`" names no rank of TrainingJob why-full-other: give one of worker-0 to worker-1`) {
			t.Errorf("of a rank that is not there: %v, %s", err, out)
		}
	}
	out, err := s.lockstep("why", "pod/why-full-1-worker-7", "-n", namespace)
	if err == nil || !strings.Contains(out, "there is no pod why-full-1-worker-7, and nothing that is recorded tells of one") {
		t.Errorf("of a pod that never was: %v, %s", err, out)
	}
	out, err = s.lockstep("submit", "why-never", "--image=x", "--gpus=64", "--queue=nope", "--dry-run=server", "-n", namespace)
	for _, want := range []string{"Warning: Queue nope does not exist", "Warning: No node is large enough for a pod of task worker"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q: %v, %s", want, err, out)
		}
	}
	out, err = s.lockstep("why", "pod/nobody", "-n", namespace)
	if err == nil || !strings.Contains(out, `"nobody" is no name of a pod of a TrainingJob in namespace default`) {
		t.Errorf("of a pod of nobody: %v, %s", err, out)
	}
}

// Who may read the TrainingJobs of a namespace alone gets the answer of their status, and is told what it lacks.
func TestWhyWithFewRights(t *testing.T) {
	s := newScenario(t, "why-rights", 1, 2)
	s.run(s.trainingJob(2))
	meta := metav1.ObjectMeta{Namespace: namespace, Name: s.pool.Name}
	given := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"trainingjobs"}, Verbs: []string{"get", "list"}}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{given}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "why-reader"}},
		},
	} {
		s.must(testCluster.Client().Create(s.ctx, object), "give a user rights")
		t.Cleanup(func() { s.must(testCluster.Client().Delete(s.ctx, object), "take the rights away") })
	}
	s.awaitRight("why-reader", given)
	kubeconfig, err := testCluster.KubeconfigFor("why-reader")
	s.must(err, "make a kubeconfig")
	out, err := s.lockstepWith(kubeconfig, "why", s.job.Name, "-n", namespace)
	s.must(err, "ask why: "+out)
	text := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"It has been running since", "Home is HyperNode " + s.pool.Rack(0), "The pods could not be read: pods is forbidden",
		"The PodGroups could not be read", "The Queue default could not be read", "The Events could not be read",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = s.lockstepWith(kubeconfig, "map", "-n", namespace)
	if err == nil || !strings.Contains(out, "list nodes: nodes is forbidden") {
		t.Errorf("a map without a right to nodes: %v, %s", err, out)
	}
}
