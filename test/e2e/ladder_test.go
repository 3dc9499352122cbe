// Ladders, budgets and live changes, in real time.

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestNodeThatComesBackInTimeCausesNoRestart(t *testing.T) {
	s := newScenario(t, "comesback", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 3600)))))
	before, node := s.pods(), s.pod(1).Spec.NodeName

	s.must(testCluster.Silence(s.ctx, node), "silence the node")
	s.await("the silence is noticed", func() bool { return s.job.Status.State == v1alpha1.StateRecovering })
	s.must(testCluster.StartHeartbeat(s.ctx, node), "start the heartbeat")
	s.must(testCluster.ContainersReady(s.ctx, keyOf(s.pod(1))), "let the kubelet report again")
	s.recovered(1)

	s.untouched(before)
	if n := len(s.steps()); n != 0 {
		t.Errorf("%d steps were taken", n)
	}
}

// Ranks of two rules fail together: each rule has an incident, with steps and a charge of its own. Without charge Always the second would
// count as a part of the first failure, unless the gang has only just started: starts are known to the second.
func TestTwoIncidentsAtOnce(t *testing.T) {
	s := newScenario(t, "twoincidents", 2, 6)
	workers, launchers := anything(step(v1alpha1.RestartPod, 2)), anything(step(v1alpha1.RestartPod, 0))
	workers.Name, workers.Match.Tasks = "workers", []string{"worker"}
	launchers.Name, launchers.Match.Tasks = "launchers", []string{"launcher"}
	workers.Charge, launchers.Charge = v1alpha1.ChargeAlways, v1alpha1.ChargeAlways
	s.run(s.trainingJob(3, twoTasks, rules(workers, launchers), func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.Backoff = &v1alpha1.Backoff{InitialSeconds: new(int32(0))}
	}))
	before, nodes := s.pods(), s.nodesOfRanks()
	launcher := s.pods()["twoincidents-1-launcher-0"]

	s.must(testCluster.FailPods(s.ctx, 1, keyOf(s.pod(1)), keyOf(launcher)), "fail two pods")
	s.recovered(2)

	s.untouched(before, "twoincidents-1-worker-1", launcher.Name)
	s.sameNodes(nodes)
	if charged := s.job.Status.Restarts.Charged; charged != 2 {
		t.Errorf("%d charges, want one for each incident", charged)
	}
}

func TestBudgetExhausted(t *testing.T) {
	s := newScenario(t, "budget", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 0))), func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.Budget = &v1alpha1.Budget{MaxRestarts: ptr.To[int32](1), WindowSeconds: 3600}
	}))

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 7), "fail a pod")
	s.recovered(1)
	// A rank that has run since before the charge could have failed with the first one, and would not be charged.
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 7), "fail its replacement")
	s.await("the job fails", func() bool { return s.job.Status.State == v1alpha1.StateFailed })

	s.snapshot("budget-exhausted")
	c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionFailed)
	if c.Reason != v1alpha1.ReasonBudgetExhausted || !strings.Contains(c.Message, "worker-1") || !strings.Contains(c.Message, "exited with 7") {
		t.Errorf("condition %s: %q does not tell the story", c.Reason, c.Message)
	}
	s.podsStop()
}

func TestBackoffDelaysTheSecondRestart(t *testing.T) {
	s := newScenario(t, "backoff", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 0))), func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.Backoff = &v1alpha1.Backoff{InitialSeconds: new(int32(4)), MaxSeconds: 60}
	}))

	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
	s.recovered(1)
	s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail it again")
	s.recovered(2)

	first, second := s.job.Status.Incidents[0].Steps[0].Time, s.job.Status.Incidents[1].Steps[0].Time
	// What is charged is written to the second.
	if gap := second.Sub(first.Time).Seconds(); gap < 3 {
		t.Errorf("the second restart came %.1f s after the first, want 4", gap)
	}
}

func TestLiveChangeOfPolicyAppliesToTheOpenIncident(t *testing.T) {
	s := newScenario(t, "livechange", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 3600)))))
	before, victim := s.pods(), s.pod(1)

	s.must(testCluster.FailPod(s.ctx, keyOf(victim), 1), "fail a pod")
	s.await("the incident opens", func() bool { return len(s.job.Status.Incidents) == 1 })
	s.untouched(before)
	s.change("shorten the time", func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{anything(step(v1alpha1.RestartPod, 1))}
	})
	s.recovered(1)

	s.untouched(before, victim.Name)
}

// Who replaces the ladder of an open incident by FailJob wants the job to fail, whatever has been tried.
func TestFailJobThatComesIntoThePolicyLaterFailsTheJob(t *testing.T) {
	s := newScenario(t, "failslater", 1, 3)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 0)))))

	s.must(testCluster.DeleteNode(s.ctx, s.pod(1).Spec.NodeName), "delete a node of a full home")
	s.await("the step fires", func() bool { return len(s.steps()) == 1 })
	s.change("give the job up", func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{anything(step(v1alpha1.FailJob, 0))}
	})
	s.await("the job fails", func() bool { return s.job.Status.State == v1alpha1.StateFailed })

	if c := meta.FindStatusCondition(s.job.Status.Conditions, v1alpha1.ConditionFailed); c.Reason != v1alpha1.ReasonFailedByRule {
		t.Errorf("failed for the reason %s", c.Reason)
	}
	s.podsStop()
}

func TestDryRunRecordsAndDoesNothing(t *testing.T) {
	s := newScenario(t, "dryrun", 1, 4)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 600))), func(j *v1alpha1.TrainingJob) {
		j.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	}))
	before, victim := s.pods(), s.pod(1)

	s.must(testCluster.FailPod(s.ctx, keyOf(victim), 1), "fail a pod")
	s.await("the step is recorded", func() bool { return len(s.steps()) == 1 })
	s.settled()
	s.snapshot("dry-run")
	s.untouched(before)
	if st := s.job.Status; !st.Incidents[0].Steps[0].DryRun || st.Restarts.Total != 0 || st.Restarts.Charged != 0 || len(s.held()) != 0 {
		t.Errorf("step %+v, restarts %+v, held %v: want a dry run and nothing done", st.Incidents[0].Steps[0], st.Restarts, s.held())
	}

	s.change("end the dry run", func(j *v1alpha1.TrainingJob) { delete(j.Annotations, v1alpha1.DryRun) })
	s.recovered(1)
	s.untouched(before, victim.Name)
}

// A job that cannot bear two copies of a rank waits for proof that the first is dead.
func TestUnreachableNodeWithProofDemanded(t *testing.T) {
	s := newScenario(t, "proof", 1, 5)
	s.run(s.trainingJob(3, rules(anything(step(v1alpha1.RestartPod, 0))), func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.RequireProof}
	}))
	before, victim := s.pods(), s.pod(1)

	s.must(testCluster.Silence(s.ctx, victim.Spec.NodeName), "silence the node")
	s.await("the step fires", func() bool { return len(s.steps()) == 1 })
	s.settled()
	s.snapshot("node-silent")
	if got := s.pods()[victim.Name]; got.UID != victim.UID {
		t.Fatal("the pod was replaced without proof of its death")
	}
	s.must(testCluster.Taint(s.ctx, corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	}, victim.Spec.NodeName), "declare the node out of service")
	s.recovered(1)
	s.untouched(before, victim.Name)
}
