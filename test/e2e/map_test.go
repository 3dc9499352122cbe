// What kubectl lockstep map draws.

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// rowOf returns the marks of the nodes of a HyperNode, as kubectl lockstep map draws them.
func (s *scenario) rowOf(hyperNode string, args ...string) string {
	s.t.Helper()
	out, err := s.lockstep(append(append([]string{"map", "--all"}, args...), "-n", namespace)...)
	s.must(err, "draw the map: "+out)
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == hyperNode {
			return strings.TrimSpace(lines[i+1])
		}
	}
	s.t.Fatalf("no HyperNode %s on the map:\n%s", hyperNode, out)
	return ""
}

// rowIs checks the marks of the nodes of the first rack, as far as they are there, in their order.
func (s *scenario) rowIs(what, hyperNode string, want map[string]rune, args ...string) {
	s.t.Helper()
	marks := ""
	for _, node := range s.pool.RackNodes(0) {
		if mark, there := want[node]; there {
			marks += string(mark)
		}
	}
	if got := s.rowOf(hyperNode, args...); got != marks {
		s.t.Errorf("%s: %s is %q on the map, want %q", what, hyperNode, got, marks)
	}
}

func TestTheMapOfAFleetAndOfAJob(t *testing.T) {
	s := newScenario(t, "mapped", 1, 8)
	s.run(s.trainingJob(3, spares(1), func(j *v1alpha1.TrainingJob) { j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} }))
	spare, rack, name := s.sparesRun(1)[0], s.pool.Rack(0), s.job.Name
	nodes := s.nodesOfRanks()
	idle := slices.DeleteFunc(s.pool.RackNodes(0), func(n string) bool { return n == spare || slices.Contains(nodes, n) })
	fleet, job := map[string]rune{spare: 's'}, map[string]rune{spare: 's'}
	for _, n := range idle {
		fleet[n], job[n] = '.', '.'
	}
	for i, n := range nodes {
		fleet[n], job[n] = '#', rune('0'+i)
	}
	s.rowIs("a job runs", rack, fleet)
	s.rowIs("a job runs", rack, job, name)

	s.must(testCluster.Cordon(s.ctx, idle[0]), "cordon a node")
	s.reported(idle[1], v1alpha1.NodeHealthStatus{
		Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthHealthy}},
		Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateFailed)},
	})
	s.awaitAny("the node is in quarantine", func(ctxT) (bool, error) { return slices.Equal(s.quarantined(), idle[1:2]), nil })
	fleet[idle[0]], job[idle[0]] = 'c', 'c'
	fleet[idle[1]], job[idle[1]] = 'q', 'q'
	s.rowIs("nodes are ill", rack, fleet)

	s.must(testCluster.DeleteNode(s.ctx, nodes[1]), "delete a node")
	s.recovered(1)
	if s.pod(1).Spec.NodeName != spare {
		t.Fatalf("the rank is on node %s, and the spare had %s", s.pod(1).Spec.NodeName, spare)
	}
	again := s.sparesRun(1)[0]
	delete(job, nodes[1])
	job[spare], job[again] = '1', 's'
	out, err := s.lockstep("map", name, "-n", namespace)
	s.must(err, "draw the map of the job: "+out)
	t.Logf("the map of the job:\n%s", out)
	s.rowIs("a rank has moved", rack, job, name)
	for _, want := range []string{"TrainingJob default/mapped: Running", rack + " (home)", "0-2 worker-0 to worker-2", "s: " + again + " (" + rack + ")"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = s.lockstep("map", "nowhere", "-n", namespace)
	if err == nil || !strings.Contains(out, `trainingjobs.lockstep.dev "nowhere" not found`) {
		t.Errorf("of a job that is not there: %v, %s", err, out)
	}
}

// While Volcano makes no pods, a rank that failed has no pod: its node is held for it.
func TestTheMapShowsAHeldNode(t *testing.T) {
	s := newScenarioAlone(t, "mapped-held", 1, 3)
	s.run(s.trainingJob(2))
	victim, other := s.pod(1), s.pod(0).Spec.NodeName
	node := victim.Spec.NodeName
	controller := testCluster.Component(cluster.VolcanoControllerManager)
	s.must(controller.Kill(), "kill Volcano's controller")
	s.must(testCluster.FailPod(s.ctx, keyOf(victim), 1), "fail a pod")
	s.awaitAny("the pod is deleted, and its node is held", func(ctxT) (bool, error) {
		_, there := s.pods()[victim.Name]
		return !there && slices.Contains(s.held(), node), nil
	})

	s.snapshot("node-held")
	want := map[string]rune{node: 'h', other: '#'}
	for _, n := range s.pool.RackNodes(0) {
		if want[n] == 0 {
			want[n] = '.'
		}
	}
	s.rowIs("a node is held", s.pool.Rack(0), want)
	want[other] = '0'
	s.rowIs("a node is held", s.pool.Rack(0), want, s.job.Name)
	s.answers([]string{"pod/" + victim.Name}, "There is no pod "+victim.Name, "It has been recovering since",
		"The job holds node "+node+" for it, until", "was RestartPod of incident 1", "PodFailed of pod "+victim.Name, "Incident 1 is open")
	s.answers([]string{s.job.Name}, "TrainingJob default/mapped-held: Recovering", "The next step of incident 1 is RestartTask at",
		"follows rule everything-else (RestartPod, RestartTask after 7m, RestartJob after 10m, RelocateJob after 15m) of the default restart policy",
		"It holds 1 node until its ranks are back")

	s.must(controller.Start(s.ctx), "start Volcano's controller")
	s.recovered(1)
	if got := s.pod(1).Spec.NodeName; got != node {
		t.Errorf("the rank is on node %s, and was on %s", got, node)
	}
}
