// Supervisors that cannot reach the manager, and one that the manager refuses.

package real

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// block drops what nodes and their pods send to a port of the host, until the test ends or calls what is returned.
func (s *scenario) block(port uint16, nodes ...string) (unblock func()) {
	s.t.Helper()
	unblock = func() { s.must(ground.Unblock(s.ctx, port, nodes...)) }
	s.t.Cleanup(unblock)
	s.must(ground.Block(s.ctx, port, nodes...))
	return unblock
}

// TestSupervisorsThatMayNotReachTheManager denies the pods the way to the manager, as a NetworkPolicy may. A program that fails is left to
// its kubelet after managerTimeoutSeconds. Once the way is open the programs are restarted together.
func TestSupervisorsThatMayNotReachTheManager(t *testing.T) {
	const managerTimeout = 3 * time.Second
	s := described(t, "denied", 4, 400, (*Training).Supervise, func(tr *Training) {
		tr.Job.Spec.Supervisor.ManagerTimeoutSeconds = new(int32(managerTimeout / time.Second))
	})
	unblock := s.block(supervisorsPort, ground.Nodes.NodeNames()...)
	s.must(s.Run(s.ctx))
	before, generation := s.pods(), s.Generation()
	s.must(s.AwaitSteps(s.ctx, 25))
	s.must(s.Refresh(s.ctx))
	if s.Generation() != generation || len(s.Job.Status.Incidents) > 0 {
		s.errorf("before anything failed: generation %d after %d, incidents %v", s.Generation(), generation, s.Job.Status.Incidents)
	}

	failed := time.Now()
	s.resumes("one program killed behind a firewall", func() error { return ground.KillPrograms(s.ctx, s.key(3)) })
	var last *corev1.ContainerStateTerminated
	s.must(await(s.ctx, "the kubelet reports that the container has ended", func(context.Context) (bool, error) {
		last = s.pods()[3].Status.ContainerStatuses[0].LastTerminationState.Terminated
		return last != nil, nil
	}))
	if last.ExitCode != 137 || last.FinishedAt.Time.Before(failed.Add(managerTimeout-time.Second)) {
		s.errorf("the container ended with %d after %s, want 137 after %s", last.ExitCode, last.FinishedAt.Sub(failed), managerTimeout)
	}

	unblock()
	opened := time.Now()
	s.must(s.awaitLog("every supervisor has a stream", "A stream to the manager is up", s.pods()))
	s.must(s.Refresh(s.ctx))
	t.Logf("every supervisor has a stream after %s; epoch %d", time.Since(opened).Round(100*time.Millisecond), s.Job.Status.Epoch)
	for rank := range before {
		_, err := ground.ContainerProcesses(s.ctx, s.key(rank), "") // once the kubelet has reported what runs
		s.must(err)
	}
	restarts := s.restartCounts()
	s.must(s.AwaitJob(s.ctx, "no incident is open", func(job *v1alpha1.TrainingJob) bool { return job.Status.State == v1alpha1.StateRunning }))
	s.resumes("one program killed once the manager is reached", func() error { return ground.KillPrograms(s.ctx, s.key(3)) })
	if now := s.restartCounts(); now != restarts {
		s.errorf("%d restarts of containers in place of %d", now, restarts)
	}
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before)
}

// restartCounts is how often the containers of the gang were restarted.
func (s *scenario) restartCounts() (n int32) {
	s.t.Helper()
	for _, pod := range s.pods() {
		n += pod.Status.ContainerStatuses[0].RestartCount
	}
	return n
}

// awaitLog waits until the logs of pods have a text, as their nodes keep them.
func (s *scenario) awaitLog(what, text string, pods map[int]corev1.Pod) error {
	s.t.Helper()
	return await(s.ctx, what, func(context.Context) (bool, error) {
		for _, pod := range pods {
			log, err := nodeLog(&pod)
			if err != nil || !strings.Contains(log, text) {
				return false, err
			}
		}
		return true, nil
	})
}

// nodeLog is what a pod's program and its supervisor have printed, as its node keeps it. No kubelet is asked.
func nodeLog(pod *corev1.Pod) (string, error) {
	folder, err := ground.PodLogs(pod)
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(folder, "trainer", "*.log"))
	if err != nil {
		return "", err
	}
	var log strings.Builder
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil { // a kubelet may take it away meanwhile
			log.Write(content)
		}
	}
	return log.String(), nil
}

// TestAFrozenNodeUnderASupervisorIsRefused thaws the node of rank 0 after its rank has another pod. Its kubelet does not hear of that: the
// manager alone stops the old program, which would wait for an hour without one.
func TestAFrozenNodeUnderASupervisorIsRefused(t *testing.T) {
	s := train(t, "refused", 3, 300, inOneRack, (*Training).Supervise, func(tr *Training) {
		tr.Job.Spec.Supervisor.ManagerTimeoutSeconds = new(int32(3600))
	})
	before := s.pods()
	node := before[0].Spec.NodeName
	s.must(s.AwaitSteps(s.ctx, 25))
	old, err := ground.ContainerProcesses(s.ctx, s.key(0), "")
	s.must(err)
	t.Cleanup(func() { s.must(ground.Thaw(s.ctx, node)) })
	unblock := s.block(cluster.APIServerPort, node) // before anything is on its way
	s.resumes("one node frozen under a supervisor", func() error { return ground.Freeze(s.ctx, node) })
	written := s.stepsOf(0)
	thawed := time.Now()
	s.must(ground.Thaw(s.ctx, node))
	s.must(s.awaitLog("the manager refuses the old pod", "The manager refuses this pod", map[int]corev1.Pod{0: before[0]}))
	s.must(await(s.ctx, "the old program and its supervisor have ended", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(old, func(pid int) bool { return syscall.Kill(pid, 0) == nil }), nil
	}))
	t.Logf("the old program and its supervisor ended %s after the node has thawed", time.Since(thawed).Round(10*time.Millisecond))
	unblock()
	s.must(ground.AwaitNodes(s.ctx, corev1.ConditionTrue, node))
	s.must(s.Finish(s.ctx))
	if again := s.stepsOf(0); again != written {
		t.Errorf("the frozen program had written %d losses, and %d in the end", written, again)
	}
	for _, file := range s.checkpointsSince(thawed, ".rank-0.inc-0") {
		t.Errorf("the frozen program wrote %s after it was thawed", file)
	}
	s.survivorsStay(before, 0)
	s.atHome(before)
	for _, incident := range s.Job.Status.Incidents {
		if incident.Cause.Pod != before[0].Name {
			s.errorf("incident %d names %s as its cause, and the node of %s was frozen", incident.ID, incident.Cause.Pod, before[0].Name)
		}
	}
}
