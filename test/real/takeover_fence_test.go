// Ranks that return after a spare has taken over, where nothing but their program's own fence stops them.

package real

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestRanksThatReturnAfterATakeOverAreFenced freezes the nodes of rank 0 and of a worker until spares are these ranks, and then lets them go on
// where they reach neither the API server nor the manager. Each old program has lost its peers by then, and saves what it has: its store has
// to refuse that, and rank 0's losses.
func TestRanksThatReturnAfterATakeOverAreFenced(t *testing.T) {
	s := train(t, "returns", 6, 400, func(tr *Training) {
		tr.TakeOver(1)
		tr.SaveWhenAsked()
		tr.Job.Spec.Supervisor.ManagerTimeoutSeconds = new(int32(3600)) // a supervisor without a manager leaves its program alone
	})
	before, lost := s.pods(), []int{0, 3}
	spares, err := s.AwaitSpares(s.ctx, masterTask, workerTask)
	s.must(err)
	s.must(s.AwaitSteps(s.ctx, 25))
	s.saveNow()
	nodes := []string{before[0].Spec.NodeName, before[3].Spec.NodeName}
	t.Cleanup(func() { s.must(ground.Thaw(s.ctx, nodes...)) })
	unblock := []func(){s.block(cluster.APIServerPort, nodes...), s.block(supervisorsPort, nodes...)} // before anything is on its way
	s.resumes("two nodes frozen that spares take over from", func() error { return ground.Freeze(s.ctx, nodes...) })
	trained, written := time.Now(), s.stepsOf(0)
	s.must(s.AwaitSteps(s.ctx, s.LastStep()+10))
	for _, rank := range lost {
		if now, spare := s.pods()[rank], spares[TaskOf(rank)][0]; now.UID != spare.UID {
			s.errorf("rank %d is pod %s, want %s, which was its spare", rank, now.Name, spare.Name)
		}
	}

	s.must(ground.Thaw(s.ctx, nodes...))
	for _, rank := range lost {
		s.wasRefused(rank, before[rank], trained)
	}

	for _, f := range unblock {
		f()
	}
	s.must(ground.AwaitNodes(s.ctx, corev1.ConditionTrue, nodes...))
	s.must(s.Finish(s.ctx))
	if again := s.stepsOf(0); again != written {
		s.errorf("the old rank 0 had written %d losses, and %d in the end", written, again)
	}
	s.survivorsStay(before, lost...)
	s.atHome(before)
}

// saveNow returns once each rank has saved the same step.
func (s *scenario) saveNow() {
	s.t.Helper()
	url := "http://" + net.JoinHostPort(s.pods()[0].Status.PodIP, "8081") + "/checkpoint"
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, url, http.NoBody)
	s.must(err)
	answer, err := http.DefaultClient.Do(request)
	s.must(err)
	s.must(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("the request for a checkpoint was answered with %s", answer.Status)
	}
}

// ending is the last event of a program that does not complete.
var ending = regexp.MustCompile(`event=(aborted|failed|fenced|terminated) rank=\d+ inc=0 `)

// wasRefused checks that the first program of a rank has tried to write after a time at which it was frozen, that its store has refused each
// try, and that it ended for that.
func (s *scenario) wasRefused(rank int, old corev1.Pod, frozen time.Time) {
	s.t.Helper()
	var log string
	s.must(await(s.ctx, fmt.Sprintf("the old program of rank %d says why it ends", rank), func(context.Context) (ended bool, err error) {
		log, err = nodeLog(&old)
		return ending.MatchString(log), err
	}))
	refused := strings.Count(log, "event=refused ")
	published := s.checkpointsSince(frozen, fmt.Sprintf(".rank-%d.inc-0", rank))
	s.t.Logf("the old rank %d tried to write %d times, and was refused %d times", rank, refused+len(published), refused)
	if refused == 0 || len(published) > 0 {
		s.errorf("the old rank %d was refused %d times, and published %v", rank, refused, published)
	}
	if why := ending.FindStringSubmatch(log)[1]; why != "fenced" {
		s.errorf("the old program of rank %d ended as %q, want \"fenced\"", rank, why)
	}
}
