// What a job may say of its supervisors: that survivors are kept, and how progress is seen.

package real

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// progressBy has one restart without a newer checkpoint climb the ladder.
func progressBy(file func(*Training) string) func(*Training) {
	return func(tr *Training) {
		tr.Job.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: file(tr), MaxRestarts: new(int32(1))}
	}
}

// checkpoints is the folder of a training that gets a file with each checkpoint of a rank.
func checkpoints(tr *Training) string { return cluster.SharedPath + "/" + tr.folder + "/checkpoints" }

// printed are the lines of the trainer that say how far it is.
func printed(tr *Training) {
	tr.Job.Spec.Supervisor.Progress.Logs = &v1alpha1.ProgressLogs{TrainingStep: &v1alpha1.LogPattern{
		Regex: ` event=step .*\bstep=(?P<globalStep>[0-9]+) `, Example: "time=2026-01-02T03:04:05Z event=step rank=0 step=7 loss=0.5",
	}}
}

// TestRestartsWithoutProgress names a file that no checkpoint changes. The second failure in a row gets the rank another pod. The steps that are printed
// are known all the while, and the log still has them.
func TestRestartsWithoutProgress(t *testing.T) {
	s := train(t, "fruitless", 4, 200, (*Training).Supervise, progressBy(func(*Training) string { return "/nowhere/latest" }), printed)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("one program killed", func() error { return ground.KillPrograms(s.ctx, s.key(3)) })
	s.survivorsStay(before)
	s.must(s.AwaitJob(s.ctx, "the incident is over", func(job *v1alpha1.TrainingJob) bool { return job.Status.State == v1alpha1.StateRunning }))
	s.resumes("the same again, without a newer checkpoint", func() error { return ground.KillPrograms(s.ctx, s.key(3)) })
	s.must(s.Finish(s.ctx))
	if p := s.Job.Status.Progress; p == nil || p.Step == nil || *p.Step != 200 {
		s.errorf("the job says of its progress: %v", p)
	}
	if after := s.pods(); after[3].UID == before[3].UID {
		s.errorf("rank 3 has still its pod")
	}
	var steps []string
	for _, inc := range s.Job.Status.Incidents {
		for _, f := range inc.Steps {
			steps = append(steps, string(f.Action))
		}
	}
	if got := strings.Join(steps, ", "); got != "RestartProcesses, RestartPod" {
		s.errorf("the steps were %s", got)
	}
	s.blames(before, 3)
}

// TestTorchrunHealsItselfUnderASupervisor kills an agent of torchrun, and leaves the others to their own restarts.
func TestTorchrunHealsItselfUnderASupervisor(t *testing.T) {
	s := torchrun(t, "torchheals", 120, (*Training).Supervise, func(tr *Training) { tr.Job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep })
	before := s.pods()
	s.resumesPrinting("one agent killed, and survivors are kept", func() error { return ground.KillPrograms(s.ctx, s.key(2)) })
	s.neverRestarted()
	s.survivorsStay(before)
	if s.Job.Status.Epoch != 2 {
		s.errorf("epoch %d", s.Job.Status.Epoch)
	}
	for rank, pod := range s.pods() {
		log, err := s.Log(s.ctx, pod, 1000)
		s.must(err)
		// A rank that starts again waits first. It is not told to stop where nothing is left of its program.
		if again := strings.Contains(log, "state=WAITING"); again != (rank == 2) {
			s.errorf("rank %d: its supervisor has started the program again: %v\n%s", rank, again, log)
		}
	}
}
