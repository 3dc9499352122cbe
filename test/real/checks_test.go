// What has to hold after a failure, whatever it was.

package real

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// survivorsStay checks that every rank has the pod that it had before, on its node. The excepted ranks
// have other pods on other nodes.
func (s *scenario) survivorsStay(before map[int]corev1.Pod, except ...int) {
	s.t.Helper()
	after := s.pods()
	for rank, pod := range before {
		same := after[rank].UID == pod.UID
		if lost := slices.Contains(except, rank); !lost && !same {
			s.errorf("the pod of rank %d was replaced", rank)
		} else if lost && (same || after[rank].Spec.NodeName == pod.Spec.NodeName) {
			s.errorf("rank %d is pod %s on node %s, where it was before", rank, after[rank].UID, after[rank].Spec.NodeName)
		}
	}
}

// atHome checks that the gang has a home, the one that it had at first, and that every rank is there.
func (s *scenario) atHome(before map[int]corev1.Pod) {
	s.t.Helper()
	s.must(s.Refresh(s.ctx))
	if s.Job.Status.Placement == nil {
		s.t.Fatal("the job has no placement")
	}
	home := ground.nodesUnder(s.Job.Status.Placement.HyperNode)
	for _, pods := range []map[int]corev1.Pod{before, s.pods()} {
		for rank, pod := range pods {
			if !slices.Contains(home, pod.Spec.NodeName) {
				s.errorf("rank %d is on node %s, and %s has the nodes %v", rank, pod.Spec.NodeName, s.Job.Status.Placement.HyperNode, home)
			}
		}
	}
}

// nodesUnder are the nodes of a HyperNode: a rack, or the spine with all of them.
func (g *Ground) nodesUnder(hyperNode string) []string {
	for rack := range g.Nodes.Racks {
		if g.Nodes.Rack(rack) == hyperNode {
			return g.Nodes.RackNodes(rack)
		}
	}
	return g.Nodes.NodeNames()
}

// blames checks that every incident has a culprit, which is one of the ranks, brings back nothing but
// these, and counts none of them as a victim.
func (s *scenario) blames(before map[int]corev1.Pod, ranks ...int) {
	s.t.Helper()
	s.must(s.Refresh(s.ctx))
	var culprits []string
	for _, rank := range ranks {
		culprits = append(culprits, before[rank].Name)
	}
	if len(s.Job.Status.Incidents) == 0 {
		s.errorf("no incident tells of the failure of %v", culprits)
	}
	for _, incident := range s.Job.Status.Incidents {
		s.t.Logf("incident %d: trigger %s, rule %s, cause %s, %d pods, %d victims", incident.ID, incident.Trigger,
			incident.Rule, incident.Cause.Pod, len(incident.Pods), incident.VictimCount)
		if !slices.Contains(culprits, incident.Cause.Pod) {
			s.errorf("incident %d names %s as its cause, and %v failed", incident.ID, incident.Cause.Pod, culprits)
		}
		if slices.ContainsFunc(incident.Pods, func(p v1alpha1.IncidentPod) bool { return !slices.Contains(culprits, p.Name) }) {
			s.errorf("incident %d brings back %v, and %v failed", incident.ID, incident.Pods, culprits)
		}
		if slices.ContainsFunc(incident.Victims, func(v string) bool { return slices.Contains(culprits, v) }) {
			s.errorf("incident %d has the victims %v, and %v failed", incident.ID, incident.Victims, culprits)
		}
	}
}

// powerOff powers nodes off until the end of the test. The next one finds them as they were: a node has its GPUs a moment after it is ready.
func (s *scenario) powerOff(nodes ...string) error {
	s.t.Cleanup(func() {
		s.must(ground.PowerOn(s.ctx, nodes...))
		s.must(ground.AwaitGPUs(s.ctx, nodes...))
	})
	return ground.PowerOff(s.ctx, nodes...)
}

// knownFailure records something that the product does wrong today. The test fails once it holds, so
// that the mark goes with the fault.
func (s *scenario) knownFailure(what string, holds bool, format string, args ...any) {
	s.t.Helper()
	if holds {
		s.errorf("%s: this was a known failure, and holds now: take the mark away", what)
		return
	}
	s.t.Logf("KNOWN FAILURE: not so: %s: "+format, append([]any{what}, args...)...)
}

// inOneRack has the gang live in one rack, so that the other one is not home.
func inOneRack(t *Training) { t.Job.Spec.NetworkTopology.HighestTierAllowed = new(int32(1)) }
