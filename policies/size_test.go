// Tests of the size of a status: that of the largest job that validation takes fits into etcd.

package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/stored"
)

const (
	// mostRanks is how many ranks validation lets a job have.
	mostRanks = 10000
	// mostStored is how many bytes a job may take. etcd takes one and a half times as many.
	mostStored = 1 << 20
)

// widest is a running job of as many ranks as there may be, so many to a node.
func widest(perNode int) *scene {
	job := aJob().tasks(task("worker", mostRanks))
	job.Spec.RestartPolicy = policy(budget(1000, 86400), withRules(
		rule("r", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 420))))
	job.Spec.RestartPolicy.ExcludeNodeSeconds = new(int32(3600))
	s := aScene(job)
	s.Requests["worker"] = gpus(int64(gpusPerNode / perNode))
	s.Nodes = map[string]gang.Node{}
	all := topology.HyperNode{Name: "spine", Tier: 1}
	for i := range mostRanks / perNode {
		name := cloudNode(i)
		s.Nodes[name] = gang.Node{Name: name, Hostname: name, Ready: true, Allocatable: gpus(gpusPerNode)}
		all.Nodes = append(all.Nodes, name)
	}
	s.Topology = topology.New([]topology.HyperNode{all})
	s.started()
	s.bindAll(perNode)
	s.decide()
	return s
}

// cloudNode is a name as clouds give it to a node.
func cloudNode(i int) string {
	return fmt.Sprintf("ip-10-%03d-%03d.us-west-2.compute.internal", i/256, i%256)
}

func (s *scene) bindAll(perNode int) {
	for i := range s.Pods {
		if s.Pods[i].Gated {
			s.bind(i, cloudNode(i/perNode))
		}
	}
}

// failEvery fails every n-th rank.
func (s *scene) failEvery(n int) {
	for i := 0; i < len(s.Pods); i += n {
		s.crash(i, 1)
	}
	s.decide()
}

var troubles = map[string]func(*scene){
	"all abort":        func(s *scene) { s.failEvery(1) },
	"every other rank": func(s *scene) { s.failEvery(2) },
	"the task is restarted": func(s *scene) {
		s.crash(0, 1)
		s.decide()
		s.after(420 * time.Second).decide()
	},
	"standing holds": func(s *scene) {
		s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
		s.decide()
	},
	"every other node is lost": func(s *scene) {
		for i := 0; i < len(s.Nodes); i += 2 {
			s.breakNode(cloudNode(i))
		}
		s.decide()
	},
}

func TestTheStatusOfTheLargestJobFitsIntoEtcd(t *testing.T) {
	for name, trouble := range troubles {
		for _, perNode := range []int{8, 1} {
			t.Run(fmt.Sprintf("%s, %d to a node", name, perNode), func(t *testing.T) {
				s := widest(perNode)
				trouble(s)
				job := s.Job.DeepCopy()
				job.APIVersion, job.Kind = v1alpha1.GroupVersion.String(), "TrainingJob"
				size, err := stored.Size(job)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d bytes, %d incidents, %d holds, %d nodes excluded", size, len(s.status().Incidents), len(s.status().Holds), len(s.status().ExcludedNodes))
				if size > mostStored {
					t.Errorf("the job takes %d bytes, and may take %d", size, mostStored)
				}
			})
		}
	}
}

// An incident that is over keeps a part of its sets: there are up to ten of them.
func TestIncidentsThatAreOverStaySmall(t *testing.T) {
	s := widest(8)
	s.failEvery(2)
	all := s.incident(t).Ranks[0].Failed
	check.Equal(t, "ranks of the open incident", mostRanks/2, gang.ParseIndexes(all).Len())
	for i := 0; i < len(s.Pods); i += 2 {
		s.replace(i)
	}
	s.bindAll(8)
	s.after(time.Minute).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	kept := s.incident(t).Ranks[0].Failed
	check.Equal(t, "the first ranks are kept", true, len(kept) > 4000 && len(kept) <= 4096 && strings.HasPrefix(all, kept+","))
	check.Equal(t, "count", int32(mostRanks/2), s.incident(t).PodCount)
}

// A job holds as many nodes as its status has room for, and those that it holds already come first.
func TestAJobHoldsALimitedNumberOfNodes(t *testing.T) {
	s := widest(1)
	s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	s.decide()
	check.Equal(t, "holds", 5000, len(s.status().Holds))
	first := s.held()
	s.after(time.Minute).decide()
	check.Equal(t, "holds later", first, s.held())
	check.Equal(t, "refused", true, strings.HasPrefix(s.refusal(), "HoldLimitReached: not held, because a job holds 5000 nodes at most: "))
}
