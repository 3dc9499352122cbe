package policies

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// boundTo are the names of the nodes that the plan binds pods to while the scheduler has pods of others to place.
func (s *scene) boundTo() []string {
	s.decide()
	return nodesOf(PlanFor(&s.Observation, s.status()).Bind.Settled())
}

func nodesOf(b Bindings) []string {
	var out []string
	if len(b.Pods) < b.Min {
		return nil
	}
	for _, x := range b.Pods {
		out = append(out, x.Node)
	}
	return out
}

// heldAsRecorded gives the nodes the hold taints that the status lists.
func (s *scene) heldAsRecorded() {
	for _, h := range s.status().Holds {
		n := s.Nodes[h.Node]
		if n.Hold == "" {
			n.HeldSince = s.Now.Truncate(time.Second)
		}
		n.Hold = HoldValue(h)
		s.Nodes[h.Node] = n
	}
}

// returning is a job whose pods of some ranks have failed, are held their nodes, and wait behind their gates.
func returning(hold *v1alpha1.Hold, action v1alpha1.Action, failed ...int) *scene {
	s := running(3, rule("r", step(action, 0)))
	s.BindsDirectly = true
	s.Job.Spec.Hold = hold
	s.decide()
	s.heldAsRecorded()
	for _, i := range failed {
		s.crash(i, 1)
	}
	s.decide()
	s.heldAsRecorded()
	for i := range s.Pods {
		if gang.IsStale(s.status(), &s.Pods[i]) {
			s.replace(i)
		}
	}
	return s
}

func TestBindings(t *testing.T) {
	always := &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	onePod := func(hold *v1alpha1.Hold) func() *scene {
		return func() *scene { return returning(hold, v1alpha1.RestartPod, 1) }
	}
	wholeJob := func() *scene { return returning(always, v1alpha1.RestartJob, 1) }
	tests := map[string]struct {
		scene func() *scene
		story func(*scene)
		want  []string
	}{
		"a pod whose node was held all along":                                {onePod(always), nil, []string{"n01"}},
		"one whose node was free before it was held":                         {onePod(nil), nil, nil},
		"the same after 9 s":                                                 {onePod(nil), func(s *scene) { s.after(9 * time.Second) }, nil},
		"the same after 10 s":                                                {onePod(nil), func(s *scene) { s.after(10 * time.Second) }, []string{"n01"}},
		"all pods of a job that restarts":                                    {wholeJob, nil, []string{"n00", "n01", "n02"}},
		"those of healthy ranks that a step restarts, by any hold":           {func() *scene { return returning(nil, v1alpha1.RestartTask, 1) }, func(s *scene) { s.after(10 * time.Second) }, []string{"n00", "n01", "n02"}},
		"the others, where one node of the gang was free before it was held": {func() *scene { return returning(nil, v1alpha1.RestartJob, 1) }, nil, []string{"n00", "n02"}},
		"all, once that has been held for 10 s":                              {func() *scene { return returning(nil, v1alpha1.RestartJob, 1) }, func(s *scene) { s.after(10 * time.Second) }, []string{"n00", "n01", "n02"}},
		"none where all nodes of the gang were free before they were held":   {func() *scene { return returning(nil, v1alpha1.RestartJob, 0, 1, 2) }, nil, nil},
		"these, where the pod of that node is still to come":                 {func() *scene { return returning(nil, v1alpha1.RestartJob, 1) }, func(s *scene) { s.Pods = slices.Delete(s.Pods, 1, 2) }, []string{"n00", "n02"}},
		"those that are there, where the nodes of the others are kept":       {wholeJob, func(s *scene) { s.Pods = s.Pods[:2] }, []string{"n00", "n01"}},
		"none where the node of one that is to come is not":                  {wholeJob, func(s *scene) { s.Pods = s.Pods[:2]; s.changeNode("n02", func(n *gang.Node) { n.Hold = "" }) }, nil},
		"none where that is no good any more": {wholeJob, func(s *scene) {
			s.Pods = s.Pods[:2]
			s.changeNode("n02", func(n *gang.Node) { n.Unschedulable = true })
		}, nil},
		"the rest, where a part is bound":                             {wholeJob, func(s *scene) { s.bind(0, "n00") }, []string{"n01", "n02"}},
		"none where one of a gang was refused":                        {wholeJob, func(s *scene) { s.Pods[0].BindingTried = true }, nil},
		"none that was tried":                                         {onePod(always), func(s *scene) { s.Pods[1].BindingTried = true }, nil},
		"none where pods are not bound directly":                      {onePod(always), func(s *scene) { s.BindsDirectly = false }, nil},
		"a pod whose gate is lifted":                                  {onePod(always), func(s *scene) { s.lift(1) }, []string{"n01"}},
		"none whose gate was lifted for other nodes, too":             {onePod(always), func(s *scene) { s.lift(1); s.Pods[1].Pins = []string{"host-n01", "host-n02"} }, nil},
		"none whose gate was lifted in an earlier life":               {onePod(always), func(s *scene) { s.lift(1); s.Pods[1].Incarnation-- }, nil},
		"none that is being deleted":                                  {onePod(always), func(s *scene) { s.Pods[1].Deleting = true }, nil},
		"none while a pod of the job is leaving its node":             {onePod(always), func(s *scene) { s.leavesNode("n01") }, nil},
		"none where the hold is not there yet":                        {onePod(always), func(s *scene) { s.changeNode("n01", func(n *gang.Node) { n.Hold = "" }) }, nil},
		"none where it has another value":                             {onePod(always), func(s *scene) { s.changeNode("n01", func(n *gang.Node) { n.Hold = "1" }) }, nil},
		"none where the hold was put back after the pod was made":     {onePod(always), func(s *scene) { s.changeNode("n01", func(n *gang.Node) { n.HeldSince = s.Now.Add(time.Second) }) }, nil},
		"none on a node that is no good":                              {onePod(always), func(s *scene) { s.changeNode("n01", func(n *gang.Node) { n.Unschedulable = true }) }, nil},
		"none of a job of which another rank was preempted":           {onePod(always), func(s *scene) { s.after(5 * time.Minute).preempt(2) }, nil},
		"none whose rank has no node, because it is new":              {func() *scene { return grown(always) }, nil, nil},
		"none while the Volcano Job is being stopped":                 {onePod(always), func(s *scene) { s.VolcanoJobs[0].Stopping = true }, nil},
		"none where another pod of the rank may run":                  {onePod(always), func(s *scene) { s.anotherPodOf(1) }, nil},
		"one that has its node is no business of the manager":         {onePod(always), func(s *scene) { s.bind(1, "n01") }, nil},
		"none where the rank goes elsewhere, its own node in the way": {func() *scene { return returning(always, v1alpha1.MigratePod, 1) }, nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.scene()
			if tc.story != nil {
				tc.story(s)
			}
			check.Equal(t, "bound to", tc.want, s.boundTo())
		})
	}
}

// A node that was free before it was held is no reason to wait where the scheduler has no pods of others to place.
func TestEarlyBindings(t *testing.T) {
	tests := map[string]struct {
		scene          *scene
		early, settled []string
		min            int
	}{
		"a pod that failed":                   {returning(nil, v1alpha1.RestartPod, 1), []string{"n01"}, nil, 0},
		"one of a gang":                       {returning(nil, v1alpha1.RestartJob, 1), []string{"n00", "n01", "n02"}, []string{"n00", "n02"}, 3},
		"all of a gang":                       {returning(nil, v1alpha1.RestartJob, 0, 1, 2), []string{"n00", "n01", "n02"}, nil, 3},
		"one whose hold was put back since":   {lostHold(), []string{"n01"}, nil, 0},
		"one whose node was held all the way": {returning(&v1alpha1.Hold{Policy: v1alpha1.HoldAlways}, v1alpha1.RestartPod, 1), []string{"n01"}, []string{"n01"}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.scene.decide()
			b := PlanFor(&tc.scene.Observation, tc.scene.status()).Bind
			check.Equal(t, "early", tc.early, nodesOf(b))
			check.Equal(t, "min", tc.min, b.Min)
			check.Equal(t, "settled", tc.settled, nodesOf(b.Settled()))
		})
	}
}

func lostHold() *scene {
	s := returning(&v1alpha1.Hold{Policy: v1alpha1.HoldAlways}, v1alpha1.RestartPod, 1)
	s.changeNode("n01", func(n *gang.Node) { n.HeldSince = s.Now.Add(time.Second) })
	return s
}

// The manager looks again when a node that was held late has been left to the scheduler for long enough.
func TestALateHoldIsLookedAtAgain(t *testing.T) {
	s := returning(nil, v1alpha1.RestartPod, 1)
	check.Equal(t, "next", s.Now.Truncate(time.Second).Add(10*time.Second), Decide(&s.Observation).Next)
}

// A hold keeps what it began as: one that was late stays so, and one that was not stays so too.
func TestAHoldIsLateOnce(t *testing.T) {
	late := func(s *scene) bool { return s.status().Holds[0].Late }
	s := returning(nil, v1alpha1.RestartPod, 1)
	s.bind(1, "n01")
	s.unready(1)
	s.decide()
	check.Equal(t, "late, once its pod is there", true, late(s))

	s = returning(&v1alpha1.Hold{Policy: v1alpha1.HoldAlways}, v1alpha1.RestartPod, 0)
	check.Equal(t, "late, though it stood before", false, late(s))

	s = running(3)
	s.BindsDirectly, s.Job.Spec.Hold = true, &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	s.decide()
	check.Equal(t, "late, before its taint is there", false, late(s))
	s.crash(0, 1)
	s.decide()
	check.Equal(t, "late, when its pod has failed before its taint was there", true, late(s))
	s.heldAsRecorded()
	s.decide()
	check.Equal(t, "late, once its taint is there", true, late(s))
}

// The cache was behind when the hold was recorded: the deletion has found no pod there.
func TestAHoldOfAVacatedNodeIsLate(t *testing.T) {
	late := func(id string) bool {
		s := returning(&v1alpha1.Hold{Policy: v1alpha1.HoldAlways}, v1alpha1.RestartPod, 1)
		s.Vacated = map[string]string{"n01": s.status().Holds[1].ID + id}
		s.decide()
		check.Equal(t, "late, of a node that was not vacated", false, s.status().Holds[0].Late)
		return s.status().Holds[1].Late
	}
	check.Equal(t, "late", true, late(""))
	check.Equal(t, "late, by an earlier hold of the node", false, late("0"))
}

func (s *scene) lift(i int) {
	p := &s.Pods[i]
	r := p.Rank()
	p.Gated, p.PlacedTime, p.Incarnation = false, s.Now, gang.Incarnation(s.status(), r.Task, r.Index)
	p.Pins = []string{"host-" + gang.NodeOf(s.status().Placement, r)}
}

func (s *scene) changeNode(name string, change func(*gang.Node)) {
	n := s.Nodes[name]
	change(&n)
	s.Nodes[name] = n
}

// preempt has a pod taken away for a job of a higher priority.
func (s *scene) preempt(i int) {
	s.Pods[i].Deleting, s.Pods[i].Disrupted = true, corev1.PodReasonPreemptionByScheduler
}

// leavesNode has a spare on a node that is on its way out.
func (s *scene) leavesNode(node string) {
	s.Pods = append(s.Pods, gang.Pod{Name: "leaving", UID: "leaving", Task: "worker", Spare: true, Attempt: s.status().Attempt, Node: node, Deleting: true})
}

// anotherPodOf has a pod of an earlier attempt.
func (s *scene) anotherPodOf(i int) {
	other := s.Pods[i]
	other.Name, other.UID, other.Attempt, other.Gated, other.Node = "other", "other", 0, false, "n05"
	s.Pods = append(s.Pods, other)
}

// grown is a job to which a rank was added.
func grown(hold *v1alpha1.Hold) *scene {
	s := running(3)
	s.BindsDirectly = true
	s.Job.Spec.Hold = hold
	s.Job.Spec.Tasks[0].Replicas = 4
	s.decide()
	s.heldAsRecorded()
	s.make(gang.Rank{Task: "worker", Index: 3}, false)
	return s
}
