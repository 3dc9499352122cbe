// Nodes that are lost, silent, or cut off.

package real

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestAKilledNodeIsReplacedAtHome(t *testing.T) {
	s := train(t, "node", 3, 200, inOneRack)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("one node killed", func() error { return s.powerOff(before[2].Spec.NodeName) })
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, 2)
	s.atHome(before)
	s.blames(before, 2)
}

func TestTwoNodesAtOnce(t *testing.T) {
	s := train(t, "two", 6, 200)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("two nodes killed", func() error { return s.powerOff(before[1].Spec.NodeName, before[4].Spec.NodeName) })
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, 1, 4)
	s.atHome(before)
	s.blames(before, 1, 4)
}

// The node's processes go on after their rank has been replaced: there are two of that rank, with
// different incarnations, and the fence keeps the old one from writing. It is rank 0, which alone
// writes losses.
func TestAFrozenNodeThatThawsDoesNotWrite(t *testing.T) {
	s := train(t, "frozen", 3, 300, inOneRack)
	before := s.pods()
	node := before[0].Spec.NodeName
	s.must(s.AwaitSteps(s.ctx, 25))
	t.Cleanup(func() { s.must(ground.Thaw(s.ctx, node)) })
	s.resumes("one node frozen", func() error { return ground.Freeze(s.ctx, node) })
	written := s.stepsOf(0)
	thawed := time.Now()
	s.must(ground.Thaw(s.ctx, node))
	s.must(ground.AwaitNodes(s.ctx, corev1.ConditionTrue, node))
	s.must(s.Finish(s.ctx))
	if again := s.stepsOf(0); again != written {
		t.Errorf("the frozen process had written %d losses, and %d in the end", written, again)
	}
	for _, file := range s.checkpointsSince(thawed, ".rank-0.inc-0") {
		t.Errorf("the frozen process wrote %s after it was thawed", file)
	}
	s.survivorsStay(before, 0)
	s.atHome(before)
	s.blames(before, 0)
}

// stepsOf is how many steps an incarnation of rank 0 has written.
func (s *scenario) stepsOf(incarnation int) int {
	n := 0
	for _, line := range s.Losses() {
		if line.Incarnation == incarnation {
			n++
		}
	}
	return n
}

// checkpointsSince are the files of the shared folder whose names have a mark, and which were written
// since then.
func (s *scenario) checkpointsSince(then time.Time, mark string) (found []string) {
	s.t.Helper()
	s.must(filepath.WalkDir(filepath.Join(ground.SharedFolder(), s.folder), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(entry.Name(), mark) {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(then) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// A node that only the control plane cannot reach trains on, and nothing moves as long as it comes
// back within the default's 90 s.
func TestANodeThatIsCutOffTrainsOn(t *testing.T) {
	s := train(t, "cut", 6, 600)
	before := s.pods()
	node := before[2].Spec.NodeName
	generation := s.Generation()
	t.Cleanup(func() { s.must(ground.Reconnect(s.ctx, node)) })
	s.must(ground.CutOff(s.ctx, node))
	s.must(ground.AwaitNodes(s.ctx, corev1.ConditionUnknown, node))
	s.must(s.AwaitJob(s.ctx, "the manager knows that the node is silent", func(job *v1alpha1.TrainingJob) bool {
		return slices.ContainsFunc(job.Status.Incidents, func(inc v1alpha1.Incident) bool { return inc.Trigger == v1alpha1.NodeNotReady })
	}))
	s.must(s.AwaitSteps(s.ctx, s.LastStep()+20))
	s.must(ground.Reconnect(s.ctx, node))
	s.must(ground.AwaitNodes(s.ctx, corev1.ConditionTrue, node))
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
	s.atHome(before)
	s.blames(before, 2)
	if s.Generation() != generation {
		t.Error("the gang has started again")
	}
}

// All that the manager knows is in the job's status: another one goes on where it was killed, after
// it has decided on the replacement and before that trains.
func TestTheManagerIsKilledDuringARecovery(t *testing.T) {
	s := train(t, "manager", 3, 200, inOneRack)
	before := s.pods()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.resumes("one node killed, then the manager", func() error {
		if err := s.powerOff(before[1].Spec.NodeName); err != nil {
			return err
		}
		s.must(s.AwaitJob(s.ctx, "a step has been taken", func(job *v1alpha1.TrainingJob) bool {
			return len(job.Status.Incidents) > 0 && len(job.Status.Incidents[0].Steps) > 0
		}))
		s.must(ground.Manager.Kill())
		return ground.Manager.Start(s.ctx)
	})
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, 1)
	s.atHome(before)
	s.blames(before, 1)
}
