// Gangs that hang: every pod runs, and no step comes.

package real

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// TestAStalledGang has one of eight ranks spin on a processor for good. The job says that it has stalled and names the rank, and no pod and no program is touched for
// that. With a rule for Stalled it is still left alone, for it may evaluate. Another one that is stopped by a signal beside it has all programs restarted in their pods.
func TestAStalledGang(t *testing.T) {
	if err := ground.LoadTorch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &scenario{Training: ground.NewTorchrun("stalled", 8, 100_000), t: t, ctx: context.WithoutCancel(t.Context())}
	s.Supervise()
	s.WithoutAgents()
	s.removedAtTheEnd()
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(s.awaitPrinted("event=step rank=0 step=200 "))
	before := s.pods()

	s.signal(5, syscall.SIGUSR1)
	s.stalls(": the only rank that uses a processor", 5)
	shown := s.stacks()
	s.t.Log(shown)
	s.isAlone(shown, "worker 4", "spin")
	s.survivorsStay(before)
	s.neverRestarted()
	if n := len(s.Job.Status.Incidents); n > 0 || s.Job.Status.Epoch != 1 {
		s.errorf("%d incidents, epoch %d: nothing is done for a stall", n, s.Job.Status.Epoch)
	}

	was := s.Job.DeepCopy()
	s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
		Name: "hangs", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.Stalled}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartProcesses}},
	}}
	s.must(ground.Client().Patch(s.ctx, s.Job, client.MergeFrom(was)))
	s.signal(3, syscall.SIGSTOP) // one that computes may evaluate
	s.must(s.AwaitJob(s.ctx, "the programs are started again", func(job *v1alpha1.TrainingJob) bool {
		return len(job.Status.Incidents) > 0 && job.Status.Incidents[0].Outcome == v1alpha1.OutcomeRecovered
	}))
	s.survivorsStay(before)
	s.neverRestarted()
	s.keptStacks(0, "/train.py")
	s.keptStacks(5, " in spin\n")
	s.keptStacks(3, ": stopped; its threads wait in ")
	inc := s.Job.Status.Incidents[0]
	if got := []string{string(inc.Trigger), inc.Cause.Pod, inc.Cause.Reason, inc.Rule}; !slices.Equal(got, []string{string(v1alpha1.Stalled), s.key(3).Name, "Stopped", "hangs"}) {
		s.errorf("trigger, pod, reason and rule of the incident: %v", got)
	}
	if s.Job.Status.Epoch != 2 || s.Job.Status.Restarts.Charged != 0 || meta.IsStatusConditionTrue(s.Job.Status.Conditions, v1alpha1.ConditionStalled) {
		s.errorf("epoch %d, %d restarts charged, conditions %v", s.Job.Status.Epoch, s.Job.Status.Restarts.Charged, s.Job.Status.Conditions)
	}
}

// signal sends the program of a rank a signal.
func (s *scenario) signal(rank int, signal syscall.Signal) {
	s.t.Helper()
	pids, err := ground.Programs(s.ctx, s.key(rank))
	s.must(err)
	for _, pid := range pids {
		s.must(syscall.Kill(pid, signal))
	}
}

// stalls waits until the job says that it has stalled, and checks what it says of a rank.
func (s *scenario) stalls(what string, rank int) {
	s.t.Helper()
	var story string
	s.must(s.AwaitJob(s.ctx, "the job has stalled", func(job *v1alpha1.TrainingJob) bool {
		if c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == "True" {
			story = c.Message
		}
		return story != ""
	}))
	s.t.Log(story)
	if want := "; " + s.key(rank).Name + what; !strings.HasSuffix(story, want) {
		s.errorf("the job says %q, and not %q", story, want)
	}
}
