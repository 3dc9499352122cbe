// How long one decision and its plan take, and that what they allocate for a pod does
// not grow with the job.

package policies

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// crowd is a running job of n pods and 2 % of spares, 18 on a node, in racks of 16 nodes.
func crowd(n int32) *scene {
	perNode := min(18, n/2)
	nodes := int(n/perNode) * 9 / 8
	s := aScene(aJob().tasks(task("head", 1), task("worker", n-1, withSpares(n/50))))
	s.Nodes = map[string]gang.Node{}
	all := topology.HyperNode{Name: "spine", Tier: 2}
	var racks []topology.HyperNode
	for i := range nodes + 2 {
		name := fmt.Sprintf("node-%04d", i)
		s.Nodes[name] = gang.Node{Name: name, Hostname: "host-" + name, Ready: true}
		all.Nodes = append(all.Nodes, name)
		if i%16 == 0 {
			racks = append(racks, topology.HyperNode{Name: fmt.Sprintf("rack-%d", i/16), Tier: 1})
		}
		racks[i/16].Nodes = append(racks[i/16].Nodes, name)
	}
	s.Topology = topology.New(append(racks, all))
	s.started()
	for i := range s.Pods {
		s.bind(i, fmt.Sprintf("node-%04d", i/int(perNode)))
	}
	s.decide()
	return s
}

// moments are what a decision may have to deal with.
var moments = map[string]func(*scene){
	"steady":     func(*scene) {},
	"one failed": func(s *scene) { s.crash(len(s.Pods)/2, 1) },
	"one replaced": func(s *scene) {
		s.crash(len(s.Pods)/2, 1)
		s.decide()
		s.replace(len(s.Pods) / 2)
	},
	"node failed": func(s *scene) { // the step is due
		s.breakNode("node-0001")
		s.decide()
		s.after(90 * time.Second)
	},
	"node replaced": func(s *scene) {
		s.breakNode("node-0001")
		s.decide()
		s.after(90 * time.Second).decide()
		for i := range s.Pods {
			if s.Pods[i].Node == "node-0001" {
				s.replace(i)
			}
		}
	},
	"spares gone": func(s *scene) {
		for i := range s.Pods {
			if s.Pods[i].Spare {
				s.replace(i)
			}
		}
	},
	"supervised":       func(s *scene) { s.standBy() },
	"ranks taken over": func(s *scene) { s.standBy(); s.lose("node-0001") },
	"all wait after take-overs": func(s *scene) {
		s.standBy()
		for i := range 5 {
			s.lose(fmt.Sprintf("node-%04d", 1+i))
			s.decide()
			s.Pods = slices.DeleteFunc(s.Pods, func(p gang.Pod) bool { return s.Nodes[p.Node].Name == "" })
			s.all(gang.ProcessRunning)
			s.decide()
		}
		s.fails(0, 1)
		s.decide()
		s.all(gang.ProcessWaiting)
	},
	"all restarted": func(s *scene) { s.restartsAsOne() },
	"all replaced": func(s *scene) {
		s.restartsAsOne()
		s.decide()
		for i := range s.Pods {
			s.replace(i)
		}
	},
	"all relocated": func(s *scene) {
		s.restartsAsOne()
		s.decide()
		for i := range s.Pods {
			s.replace(i)
		}
		s.status().LeftHyperNodes = []v1alpha1.LeftHyperNode{{Name: s.status().Placement.HyperNode, Until: metav1.NewTime(s.Now.Add(time.Hour))}}
		s.status().Placement = nil
	},
}

// standBy has the programs run under supervisors, and the spares wait to take over.
func (s *scene) standBy() {
	s.Job.Spec.Supervisor = &v1alpha1.Supervisor{TakeOver: &v1alpha1.TakeOver{}}
	s.status().Epoch = 1
	s.all(gang.ProcessRunning)
	for i := range s.Pods {
		if s.Pods[i].Spare {
			s.reports(i, gang.ProcessWaiting)
		}
	}
	s.decide()
}

// restartsAsOne breaks a rank and has a rule that restarts the job.
func (s *scene) restartsAsOne() {
	s.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{rule("all", step(v1alpha1.RestartJob, 0))}}
	s.crash(len(s.Pods)/2, 1)
}

// decideAndPlan is what the manager does with every look.
func (s *scene) decideAndPlan() Plan {
	d := Decide(&s.Observation)
	return PlanFor(&s.Observation, &d.Status)
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int32{10, 1000, 10000} {
		for name, moment := range moments {
			b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
				s := crowd(n)
				moment(s)
				b.ReportAllocs()
				for b.Loop() {
					s.decideAndPlan()
				}
			})
		}
	}
}

func TestAllocationsPerPodDoNotGrowWithTheJob(t *testing.T) {
	small, large := crowd(1000), crowd(10000)
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			perPod := func(s *scene) float64 {
				c := &scene{Observation: s.Observation}
				c.Job, c.Pods, c.Nodes = s.Job.DeepCopy(), slices.Clone(s.Pods), maps.Clone(s.Nodes)
				moment(c)
				return testing.AllocsPerRun(2, func() { c.decideAndPlan() }) / float64(len(c.Pods))
			}
			few, many := perPod(small), perPod(large)
			t.Logf("allocations per pod: %.3f of 1000, %.3f of 10000", few, many)
			if many > few*1.1+0.01 {
				t.Errorf("allocations per pod: %.3f of 1000 pods, %.3f of 10000", few, many)
			}
		})
	}
}

// BenchmarkHeldBack is a job of 1,000 pods that are all called ill, and wait.
func BenchmarkHeldBack(b *testing.B) {
	s := bounded(1000)
	for i := range s.Pods {
		s.ail(failed, i)
	}
	s.decide()
	for b.Loop() {
		Decide(&s.Observation)
	}
}
