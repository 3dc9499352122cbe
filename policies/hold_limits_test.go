package policies

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func cpus(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}
}

// standing is a job that always holds its nodes, placed on n00, n01 and so on.
func standing(replicas int32) *scene {
	s := running(replicas)
	s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	return s
}

// refusal is the reason and the message of the holds that the job is refused; empty where it is refused none.
func (s *scene) refusal() string {
	if c := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionHoldsRefused); c != nil && c.Status == "True" {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// A hold keeps all other jobs from a node, so that a job that uses little of it gets none.
func TestAJobHoldsANodeThatItUsesHalfOf(t *testing.T) {
	together := func(s *scene) { s.bind(1, "n00") }
	tests := map[string]struct {
		request corev1.ResourceList
		change  func(*scene)
		want    []string
	}{
		"all GPUs":                            {gpus(8), func(*scene) {}, []string{"n00", "n01"}},
		"half of the GPUs":                    {corev1.ResourceList{gpuResource: resource.MustParse("4")}, func(*scene) {}, []string{"n00", "n01"}},
		"less than half of the GPUs":          {gpus(3), func(*scene) {}, nil},
		"two pods of 2 GPUs on one node":      {gpus(2), together, []string{"n00"}},
		"two pods of 1 GPU on one node":       {gpus(1), together, nil},
		"a thousandth of a CPU":               {cpus("1m"), func(*scene) {}, nil},
		"nothing":                             {nil, func(*scene) {}, nil},
		"half of the CPUs":                    {cpus("64"), func(*scene) {}, []string{"n00", "n01"}},
		"less than half of the CPUs":          {cpus("63900m"), func(*scene) {}, nil},
		"a resource that does not decide":     {corev1.ResourceList{"example.com/nic": resource.MustParse("8")}, func(*scene) {}, nil},
		"GPUs that do not decide":             {corev1.ResourceList{gpuResource: resource.MustParse("8")}, func(s *scene) { s.HoldLimits.Resources = nil }, nil},
		"GPUs that the node does not report":  {gpus(1), func(s *scene) { s.node("n00", func(n *gang.Node) { n.Allocatable = cpus("128") }) }, []string{"n00"}},
		"a node that reports nothing":         {gpus(1), func(s *scene) { s.node("n00", func(n *gang.Node) { n.Allocatable = nil }) }, []string{"n00"}},
		"nothing of a node that reports none": {nil, func(s *scene) { s.node("n00", func(n *gang.Node) { n.Allocatable = nil }) }, nil},
		"a pod that will not return":          {gpus(8), func(s *scene) { s.succeed(0) }, []string{"n01"}},
		"what is left of two pods is half":    {gpus(4), func(s *scene) { together(s); s.succeed(0) }, []string{"n00"}},
		"what is left of two pods is little":  {gpus(2), func(s *scene) { together(s); s.succeed(0) }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := standing(2)
			s.Requests["worker"] = tc.request
			tc.change(s)
			s.decide()
			check.Equal(t, "held", tc.want, s.held())
		})
	}
}

// What counts is what the pods take of the node, and the template only where a rank has none.
func TestAJobHoldsByWhatItsPodsRequest(t *testing.T) {
	requests := func(lists ...corev1.ResourceList) func(*scene) {
		return func(s *scene) {
			for i, list := range lists {
				s.Pods[i].Requests = list
			}
		}
	}
	for name, tc := range map[string]struct {
		template corev1.ResourceList
		change   func(*scene)
		want     []string
	}{
		"as the template":               {gpus(8), requests(gpus(8), gpus(8)), []string{"n00", "n01"}},
		"one was made smaller":          {gpus(8), requests(gpus(3), gpus(8)), []string{"n01"}},
		"one is not the job's":          {gpus(8), requests(corev1.ResourceList{}, gpus(8)), []string{"n01"}},
		"one was made larger":           {gpus(3), requests(gpus(4), gpus(3)), []string{"n00"}},
		"nothing is known of one":       {gpus(8), requests(nil, cpus("1m")), []string{"n00"}},
		"one is missing":                {gpus(8), func(s *scene) { requests(gpus(8), gpus(8))(s); s.Pods = s.Pods[1:] }, []string{"n00", "n01"}},
		"two on a node take half of it": {gpus(1), func(s *scene) { s.bind(1, "n00"); requests(gpus(1), gpus(3))(s) }, []string{"n00"}},
		"two on a node take less of it": {gpus(8), func(s *scene) { s.bind(1, "n00"); requests(gpus(1), gpus(2))(s) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := standing(2)
			s.Requests["worker"] = tc.template
			tc.change(s)
			s.decide()
			check.Equal(t, "held", tc.want, s.held())
		})
	}
}

// A recovery holds by the same rule, and the user sees why it does not.
func TestARecoveryHoldsNoNodeThatItUsesLittleOf(t *testing.T) {
	s := running(2)
	s.Requests["worker"] = gpus(1)
	s.crash(1, 1)
	next := s.decide().Next
	check.Equal(t, "held", nil, s.held())
	check.Equal(t, "looks again when the hold would end", false, next.IsZero() || next.After(s.Now.Add(10*time.Minute)))
	check.Equal(t, "refused", "NodesShared: not held, because the job's pods there request less than half of the cpu or nvidia.com/gpu: n01", s.refusal())
	s.back(1, "n01")
	check.Equal(t, "refused later", "", s.refusal())
	check.Equal(t, "reason", v1alpha1.ReasonHoldsGranted, conditionReason(s, v1alpha1.ConditionHoldsRefused))
}

func TestAJobThatIsRefusedNoHoldHasNoConditionOfThat(t *testing.T) {
	s := standing(2)
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "condition", true, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionHoldsRefused) == nil)
}

func TestStandingHoldsMayBeOff(t *testing.T) {
	s := standing(2)
	s.HoldLimits.NoStanding = true
	s.decide()
	check.Equal(t, "held", nil, s.held())
	check.Equal(t, "refused", "StandingHoldsOff: the manager does not allow hold.policy Always (--allow-standing-holds=false): nodes are held while the job recovers", s.refusal())
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "held while it recovers", []string{"n01"}, s.held())
	s.Job.Spec.Suspend = true
	s.decide()
	check.Equal(t, "refused while it is suspended", "", s.refusal())
}

func TestTheJobsOfAQueueHoldALimitedNumberOfNodes(t *testing.T) {
	tests := map[string]struct {
		limit, others int
		before, want  []string
	}{
		"no limit":            {0, 100, nil, []string{"n00", "n01", "n02"}},
		"room for all":        {7, 4, nil, []string{"n00", "n01", "n02"}},
		"room for two":        {6, 4, nil, []string{"n00", "n01"}},
		"room for none":       {4, 4, nil, nil},
		"less than none":      {4, 9, nil, nil},
		"what is held counts": {6, 4, []string{"n02"}, []string{"n00", "n02"}},
		"what is held stays, though others hold too": {4, 4, []string{"n01", "n02"}, []string{"n01", "n02"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := standing(3)
			for _, node := range tc.before {
				s.status().Holds = append(s.status().Holds, v1alpha1.NodeHold{Node: node})
			}
			s.HoldLimits.MaxPerQueue, s.HeldInQueue = tc.limit, tc.others
			next := s.decide().Next
			check.Equal(t, "held", tc.want, s.held())
			refused := len(tc.want) < 3
			check.Equal(t, "looks again", refused, next.Equal(s.Now.Add(queueLimitCheck)))
			check.Equal(t, "refused", refused, s.refusal() != "")
		})
	}
	s := standing(3)
	s.HoldLimits.MaxPerQueue, s.HeldInQueue = 4, 2
	s.decide()
	check.Equal(t, "refused", "HoldLimitReached: not held, because the jobs of queue default may hold 4 nodes at a time (--max-holds-per-queue): n02", s.refusal())
	s.HeldInQueue = 1
	s.after(time.Minute).decide()
	check.Equal(t, "held once others hold less", []string{"n00", "n01", "n02"}, s.held())
}

func TestARefusalNamesSomeOfManyNodes(t *testing.T) {
	s := standing(6)
	s.Requests["worker"] = cpus("1m")
	s.decide()
	check.Equal(t, "refused", fmt.Sprintf("NodesShared: not held, because the job's pods there request less than half of the cpu or nvidia.com/gpu: %s",
		listed([]string{"n00", "n01", "n02", "n03", "n04", "n05"})), s.refusal())
}

// A program that ends with 0 when its pod is deleted has not succeeded: its rank returns, and its node stays held.
func TestANodeIsHeldWhileItsProgramEndsWellForARestart(t *testing.T) {
	s := running(3, rule("r", on(v1alpha1.AnyEvent), step(v1alpha1.RestartJob, 0)))
	s.unready(1)
	s.decide()
	check.Equal(t, "held", []string{"n00", "n01", "n02"}, s.held())
	for i := range s.Pods {
		s.succeed(i)
		s.Pods[i].Deleting = true
	}
	s.after(time.Second).decide()
	check.Equal(t, "held while they end", []string{"n00", "n01", "n02"}, s.held())
	check.Equal(t, "refused", "", s.refusal())
}
