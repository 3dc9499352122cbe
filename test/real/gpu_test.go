package real

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// oneGPU gives each rank one GPU in one rack, so that some ranks share a node and only the kubelet
// knows which of them holds which GPU.
func oneGPU(t *Training) {
	inOneRack(t)
	for i := range t.Job.Spec.Tasks {
		limits := t.Job.Spec.Tasks[i].Template.Spec.Containers[0].Resources.Limits
		limits["nvidia.com/gpu"] = resource.MustParse("1")
	}
}

// The program is told on its own address, through the network of pods, that it is about to move.
func asksForCheckpoint(t *Training) {
	t.Job.Spec.Checkpoint = &v1alpha1.Checkpoint{Request: v1alpha1.CheckpointRequest{
		HTTPPost: v1alpha1.HTTPPost{Port: 8081, Path: "/checkpoint"}, TimeoutSeconds: 60,
	}}
	t.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{
		{
			Name:  "link",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.HealthFailed, v1alpha1.HealthDegraded}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
		},
		{
			Name:  "everything-else",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{"*"}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod, AfterSeconds: 90}, {Action: v1alpha1.RestartJob, AfterSeconds: 300}},
		},
	}
}

func TestALinkFailureMovesThePodThatHoldsTheGPU(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	states, remove, err := ground.InstallAgent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(ctx); err != nil {
			t.Error(err)
		}
	})
	s := train(t, "link", 6, 400, oneGPU, asksForCheckpoint)
	before := s.pods()
	victim, gpu := s.rankThatSharesItsNode(before)
	node := before[victim].Spec.NodeName
	s.must(s.AwaitSteps(s.ctx, 25))
	t.Logf("rank %d holds GPU %d of %s", victim, gpu, node)
	s.must(s.awaitAgent(node))

	states[node].SetLink(gpu, 0, dcgmsim.LinkDown)
	s.must(s.AwaitJob(s.ctx, "the incident is over", func(job *v1alpha1.TrainingJob) bool {
		return len(job.Status.Incidents) > 0 && job.Status.Incidents[0].Outcome == v1alpha1.OutcomeRecovered
	}))
	incident := s.Job.Status.Incidents[0]
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, victim)
	s.atHome(before)
	s.blames(before, victim)
	if incident.Trigger != v1alpha1.HealthFailed {
		t.Errorf("the incident's trigger is %s", incident.Trigger)
	}
	if incident.Checkpoint == nil || incident.Checkpoint.Outcome != v1alpha1.CheckpointSaved {
		t.Errorf("the checkpoint before the move: %+v", incident.Checkpoint)
	}
}

// rankThatSharesItsNode returns a rank beside which another runs on the same node, and the index of its GPU.
func (s *scenario) rankThatSharesItsNode(pods map[int]corev1.Pod) (rank, gpu int) {
	s.t.Helper()
	for rank, pod := range pods {
		for other, neighbour := range pods {
			if rank == other || rank == 0 || neighbour.Spec.NodeName != pod.Spec.NodeName {
				continue
			}
			gpu, err := ground.GPUOf(s.ctx, pod)
			s.must(err)
			return rank, gpu
		}
	}
	s.t.Fatal("no two ranks share a node")
	return 0, 0
}

// awaitAgent waits until the health agent of a node reports.
func (s *scenario) awaitAgent(node string) error {
	return await(s.ctx, "the health agent of "+node+" reports", func(ctx context.Context) (bool, error) {
		health := &v1alpha1.NodeHealth{}
		err := ground.Client().Get(ctx, client.ObjectKey{Name: node}, health)
		return err == nil && len(health.Status.Sources) == 1 && health.Status.Sources[0].State == v1alpha1.HealthHealthy, err
	})
}
