// Gangs with supervisors: their programs are restarted together, in the pods that there are.

package real

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// neverRestarted checks that no container of a gang has been restarted.
func (s *scenario) neverRestarted() {
	s.t.Helper()
	for rank, pod := range s.pods() {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount != 0 {
				s.errorf("rank %d: its container was restarted %d times", rank, status.RestartCount)
			}
		}
	}
}

// TestAKilledProgramUnderASupervisor kills one process ten times in a row, each time after a newer checkpoint. Nothing grows with that.
func TestAKilledProgramUnderASupervisor(t *testing.T) {
	s := train(t, "supervised", 6, 300, (*Training).Supervise, progressBy(checkpoints))
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	var took []time.Duration
	for i := range 10 {
		s.must(s.AwaitSteps(s.ctx, s.LastStep()+12))
		took = append(took, s.resumes(fmt.Sprintf("kill %d of one program", i+1), func() error { return ground.KillPrograms(s.ctx, s.key(3)) }))
	}
	s.must(s.Refresh(s.ctx))
	if got := s.Job.Status.Restarts; got.Process != 10 || got.Total != 10 {
		s.errorf("%d restarts, %d of processes, and one process was killed 10 times", got.Total, got.Process)
	}
	s.neverRestarted()
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
	s.atHome(before)
	s.blames(before, 3)
	slices.Sort(took)
	t.Logf("from the kill to the next step: median %s, worst %s", took[len(took)/2], took[len(took)-1])
}

// TestALostNodeUnderASupervisor loses a node. Only its rank gets another pod, and the programs of the others wait for that in theirs.
func TestALostNodeUnderASupervisor(t *testing.T) {
	s := train(t, "fenced", 6, 200, (*Training).Supervise)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("a node is lost under a supervised rank", func() error { return s.powerOff(before[3].Spec.NodeName) })
	s.survivorsStay(before, 3)
	s.neverRestarted()
	s.must(s.Finish(s.ctx))
	s.atHome(before)
}

// TestAllProgramsAtOnceUnderSupervisors ends every program of a gang, as a fault of the network does.
func TestAllProgramsAtOnceUnderSupervisors(t *testing.T) {
	s := train(t, "together", 6, 150, (*Training).Supervise)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("all programs killed at once", func() error {
		return ground.KillPrograms(s.ctx, s.key(0), s.key(1), s.key(2), s.key(3), s.key(4), s.key(5))
	})
	s.neverRestarted()
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
}

// TestAKilledSupervisor kills a supervisor and its program together, as an out-of-memory killer does. The kubelet starts the container
// again, whose program joins the others in their next epoch.
func TestAKilledSupervisor(t *testing.T) {
	s := train(t, "both", 6, 150, (*Training).Supervise)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("a supervisor and its program killed", func() error { return ground.KillContainers(s.ctx, s.key(3)) })
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
	for rank, pod := range s.pods() {
		if n := pod.Status.ContainerStatuses[0].RestartCount; (n > 0) != (rank == 3) {
			s.errorf("rank %d: its container was restarted %d times", rank, n)
		}
	}
}

// TestTorchrunUnderASupervisor kills the agent of torchrun and its worker in one rank. With --max_restarts=0 the other agents end, too, and
// all meet again in the next epoch. The programs say how far they are, also while no packet reaches the manager: each request is answered in
// the pod, and training opens no connection that leaves it.
func TestTorchrunUnderASupervisor(t *testing.T) {
	const steps = 300
	s := torchrun(t, "torchsupervised", steps, (*Training).Supervise, (*Training).LeaveRestarts, (*Training).PostProgress)
	before := s.pods()
	s.must(s.AwaitJob(s.ctx, "the program says how far it is", func(job *v1alpha1.TrainingJob) bool { return job.Status.Progress != nil }))
	unblock := s.block(supervisorsPort, ground.Nodes.NodeNames()...)
	opened := s.countConnections(0)
	s.must(s.awaitPrinted(fmt.Sprintf("event=step rank=0 step=%d ", s.lastPrinted(before[0])+50))) // with a request each ten
	if inside, outside := opened(); inside < 4 || outside > 0 {
		s.errorf("rank 0 opened %d connections in its pod, where there were five requests, and %d to others", inside, outside)
	}
	unblock()
	s.resumesPrinting("one agent killed under a supervisor", func() error { return ground.KillPrograms(s.ctx, s.key(2)) })
	s.neverRestarted()
	s.survivorsStay(before)
	s.atHome(before)
	p := s.Job.Status.Progress
	if got := []int64{p.Epoch, ptr.Deref(p.Step, 0), ptr.Deref(p.TotalSteps, 0), ptr.Deref(p.CheckpointStep, 0), int64(ptr.Deref(p.Percent, 0))}; !slices.Equal(got, []int64{2, steps, steps, steps, 100}) {
		s.errorf("epoch, step, total, checkpoint and percent at the end: %v", got)
	}
}

// TestTorchrunThatLosesANodeUnderASupervisor powers the node of an agent off. The agents of its peers hang and do not end. They make no steps, which
// shows that the gang is down: the rank is replaced as soon as its node has been silent for long enough, and not after the default's 90 s.
func TestTorchrunThatLosesANodeUnderASupervisor(t *testing.T) {
	s := torchrun(t, "torchsteps", 100_000, (*Training).Supervise, (*Training).LeaveRestarts, (*Training).PostProgress)
	before := s.pods()
	s.must(s.awaitPrinted("event=step rank=0 step=200 ")) // the manager knows within how long the next one is expected
	began := time.Now()
	s.must(s.powerOff(before[1].Spec.NodeName))
	s.must(s.AwaitJob(s.ctx, "the gang trains again", func(job *v1alpha1.TrainingJob) bool {
		return len(job.Status.Incidents) > 0 && job.Status.Incidents[0].Outcome == v1alpha1.OutcomeRecovered
	}))
	t.Logf("the node of one agent killed: trains again after %s", time.Since(began).Round(10*time.Millisecond))
	s.survivorsStay(before, 1)
	s.neverRestarted()
	s.blames(before, 1)
	if inc := s.Job.Status.Incidents[0]; inc.Trigger != v1alpha1.NodeNotReady || inc.Rule != "everything-else" || len(s.Job.Status.Incidents) != 1 {
		s.errorf("%d incidents, the first by %s under rule %q: its gang makes no steps", len(s.Job.Status.Incidents), inc.Trigger, inc.Rule)
	}
	s.must(s.awaitPrinted("event=resumed rank=[0-2] step=([2-9][0-9]{2}|[1-9][0-9]{3,})"))
	s.atHome(before)
}

// TestTheManagerDiesWhileAGangRestarts kills the manager as soon as it has recorded the step, and starts it again. The next process learns
// from the supervisors where they are.
func TestTheManagerDiesWhileAGangRestarts(t *testing.T) {
	s := train(t, "leaderless", 6, 200, (*Training).Supervise)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	for i := range 3 {
		s.must(s.AwaitSteps(s.ctx, s.LastStep()+12))
		s.resumes("one program killed, then the manager", func() error {
			s.must(ground.KillPrograms(s.ctx, s.key(3)))
			s.must(s.AwaitJob(s.ctx, "the epoch is raised", func(job *v1alpha1.TrainingJob) bool { return job.Status.Epoch > int64(i)+1 }))
			s.must(ground.Manager.Kill())
			return ground.Manager.Start(s.ctx)
		})
	}
	s.neverRestarted()
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
}

// TestSupervisorsWithoutAManager has no manager when a program fails. Its container, and those of the ranks that abort with it, end after
// managerTimeoutSeconds, and their kubelets start them again.
func TestSupervisorsWithoutAManager(t *testing.T) {
	s := train(t, "alone", 4, 150, (*Training).Supervise, func(tr *Training) {
		tr.Job.Spec.Supervisor.ManagerTimeoutSeconds = new(int32(2))
	})
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.must(ground.Manager.Kill())
	s.resumes("one program killed without a manager", func() error { return ground.KillPrograms(s.ctx, s.key(3)) })
	s.must(ground.Manager.Start(s.ctx))
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
}
