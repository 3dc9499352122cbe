// Nodes that several jobs share.

package policies

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

const otherHold = v1alpha1.HoldTaintPrefix + "other-4567"

// heldByAnother has another job hold nodes.
func (s *scene) heldByAnother(nodes ...string) {
	for _, name := range nodes {
		s.node(name, func(n *gang.Node) {
			n.Taints = append(n.Taints, corev1.Taint{Key: otherHold, Value: "standing", Effect: corev1.TaintEffectNoSchedule})
		})
	}
}

// letGo lifts the gate of a pod as the plan says.
func (s *scene) letGo(i int) {
	for _, l := range s.plan().Lift {
		if p := &s.Pods[i]; p.Name == l.Pod {
			s.search(i)
			p.Pins, p.Tolerates = l.Target.In, l.Tolerate
		}
	}
}

func TestWhoPassesTheHoldOfAnotherJob(t *testing.T) {
	restarted := func(rules ...v1alpha1.Rule) *scene {
		s := running(3, append(rules, rule("all", step(v1alpha1.RestartPod, 0)))...)
		s.crash(1, 1)
		s.decide()
		s.heldAsRecorded()
		s.replace(1)
		return s
	}
	tests := map[string]struct {
		story func() *scene
		want  []string
	}{
		"a rank that returns to its own node": {func() *scene {
			s := restarted()
			s.heldByAnother("n01", "n02")
			s.decide()
			return s
		}, []string{otherHold}},
		"not before that is seen to be held, too": {func() *scene {
			s := restarted()
			s.heldByAnother("n01")
			s.node("n01", func(n *gang.Node) { n.Hold = "" })
			s.decide()
			return s
		}, nil},
		"not while a pod of the job has still to leave it": {func() *scene {
			s := restarted()
			s.heldByAnother("n01")
			s.Pods[2].Node, s.Pods[2].Deleting = "n01", true
			s.decide()
			return s
		}, nil},
		"not where nobody else holds that": {func() *scene {
			s := restarted()
			s.heldByAnother("n02")
			s.decide()
			return s
		}, nil},
		"not where its own job does not hold it": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
			s.Job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldOnRecovery, Seconds: new(int32(0))}
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.heldByAnother("n01")
			s.decide()
			return s
		}, nil},
		"not one that was preempted": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
			s.Pods[1].Disrupted = corev1.PodReasonPreemptionByScheduler
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.heldByAnother("n01")
			s.decide()
			return s
		}, nil},
		"not one that may go to other nodes, too": {func() *scene {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartPod, 60)))
			s.crash(1, 1)
			s.decide()
			s.replace(1)
			s.heldByAnother("n01")
			s.after(time.Minute).decide()
			return s
		}, nil},
		"not what it has looked for in vain, where the other is older": {func() *scene {
			s := restarted()
			s.heldByAnother("n03")
			s.fill("n03")
			s.decide()
			s.letGo(1)
			s.after(placement.NoRoomAfter).decide()
			return s
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := tc.story()
			var got []string
			for _, l := range s.plan().Lift {
				got = append(got, l.Tolerate...)
			}
			for _, l := range s.plan().Tolerate {
				got = append(got, l.Keys...)
			}
			check.Equal(t, "passes", tc.want, got)
		})
	}
}

// A node may be held after the gate was lifted, and before the pod is bound.
func TestAPodThatLooksPassesALaterHold(t *testing.T) {
	s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	s.heldAsRecorded()
	s.replace(1)
	s.decide()
	s.letGo(1)
	s.decide()
	check.Equal(t, "tolerates", nil, s.plan().Tolerate)
	s.heldByAnother("n01")
	s.decide()
	check.Equal(t, "tolerates", []placement.Toleration{{Pod: "llm-1-worker-1", UID: "4", Keys: []string{otherHold}}}, s.plan().Tolerate)
	s.Pods[1].Tolerates = []string{otherHold}
	check.Equal(t, "once", nil, s.plan().Tolerate)
	s.Pods[1].Tolerates = nil
	s.bind(1, "n01")
	check.Equal(t, "nor with a node", nil, s.plan().Tolerate)
}

// A pod keeps its tolerations: one that still looks for its node when the hold of its job ends would take what others hold later.
func TestAHoldThatEndsTakesItsTolerationsWithIt(t *testing.T) {
	for name, tc := range map[string]struct {
		tolerates []string
		dryRun    bool
		after     time.Duration
		restarted int32
	}{
		"it passes another hold":     {[]string{otherHold}, false, 10 * time.Minute, 1},
		"before that":                {[]string{otherHold}, false, 9 * time.Minute, 0},
		"it passes none":             {nil, false, 10 * time.Minute, 0},
		"a dry run restarts no rank": {[]string{otherHold}, true, 10 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("all", step(v1alpha1.RestartPod, 0)))
			s.crash(1, 1)
			s.decide()
			s.heldAsRecorded()
			s.replace(1)
			s.heldByAnother("n01")
			s.decide()
			s.letGo(1)
			check.Equal(t, "passes", []string{otherHold}, s.Pods[1].Tolerates)
			s.Pods[1].Tolerates = tc.tolerates
			s.dryRun(tc.dryRun)
			before := s.lives()[1]
			s.after(tc.after).decide()
			check.Equal(t, "restarted", tc.restarted, s.lives()[1]-before)
			if tc.restarted == 0 {
				return
			}
			check.Equal(t, "reason", v1alpha1.RestartHoldEnded, gang.LastRestart(s.status(), gang.Rank{Task: "worker", Index: 1}))
			check.Equal(t, "held", nil, s.held())
			s.replace(1)
			s.decide()
			s.letGo(1)
			check.Equal(t, "the next one passes", nil, s.Pods[1].Tolerates)
			s.decide()
			check.Equal(t, "restarted again", before+1, s.lives()[1])
		})
	}
}

// A rank that has looked for room in vain passes the holds of younger jobs that have, too.
func TestAYoungerJobGivesWay(t *testing.T) {
	s := searching(rule("all", step(v1alpha1.RestartPod, 0)))
	s.heldByAnother("n03")
	s.Younger = []gang.YoungerHold{{Key: otherHold, Since: s.Now.Add(-time.Hour)}}
	check.Equal(t, "passes none before it has waited", nil, s.plan().Tolerate)
	s.Younger = nil
	s.after(placement.NoRoomAfter).decide()
	check.Equal(t, "passes none", nil, s.plan().Tolerate)
	check.Equal(t, "looks again, for nothing tells", placement.NoRoomAfter, Decide(&s.Observation).Next.Sub(s.Now))
	s.Younger = []gang.YoungerHold{{Key: otherHold, Since: s.Now.Add(-20 * time.Second)}}
	check.Equal(t, "passes none yet", nil, s.plan().Tolerate)
	check.Equal(t, "looks again when it does", 10*time.Second, Decide(&s.Observation).Next.Sub(s.Now))
	s.after(10 * time.Second).decide()
	check.Equal(t, "passes", []placement.Toleration{{Pod: "llm-1-worker-1", UID: "4", Keys: []string{otherHold}}}, s.plan().Tolerate)
}

func TestASpareStaysOnANodeThatAnotherJobHolds(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 2, withSpares(1)))).started().placed()
	s.heldByAnother("n02")
	s.decide()
	check.Equal(t, "deleted", nil, s.deleted())
}

func TestPrecedes(t *testing.T) {
	made := func(second int64, uid types.UID) *v1alpha1.TrainingJob {
		j := aJob()
		j.CreationTimestamp, j.UID = metav1.Unix(second, 0), uid
		return j.TrainingJob
	}
	check.Equal(t, "the older one", true, placement.Precedes(made(1, "b"), made(2, "a")))
	check.Equal(t, "the younger one", false, placement.Precedes(made(2, "a"), made(1, "b")))
	check.Equal(t, "of one age, by UID", true, placement.Precedes(made(1, "a"), made(1, "b")))
	check.Equal(t, "of one age, by UID", false, placement.Precedes(made(1, "b"), made(1, "a")))
}

// Two jobs have restarted whole, each has lost a node, and each needs what the other one holds. A gang is placed as a
// whole or not at all, so that neither would be placed. The older one goes first.
func TestTwoJobsThatNeedWhatTheOtherHolds(t *testing.T) {
	whole := rule("all", step(v1alpha1.RestartJob, 0))
	old, young := running(3, whole), running(3, whole)
	old.Job.CreationTimestamp, young.Job.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	young.Job.Name, young.Job.UID = "other", "4567abcd-0000-4000-8000-000000000000"
	c := &sharedRack{jobs: []*scene{old, young}}
	for i, node := range []string{"n03", "n04", "n05"} {
		young.bind(i, node)
	}
	young.decide()
	for _, s := range c.jobs {
		delete(s.Nodes, "n02")
		delete(s.Nodes, "n05")
	}
	check.Equal(t, "old is back", true, c.runUntil(old, 2*time.Minute))
	check.Equal(t, "young is back", true, c.runUntil(young, 2*time.Minute))
	for i, want := range []string{"n00", "n01"} {
		check.Equal(t, "node of the old job", want, old.Pods[i].Node)
	}
	for i, want := range []string{"n03", "n04"} {
		check.Equal(t, "node of the young job", want, young.Pods[i].Node)
	}
}

// sharedRack is two jobs whose pods take half a node each.
type sharedRack struct{ jobs []*scene }

// runUntil lets time pass until a job has recovered, and reports whether it has in time.
func (c *sharedRack) runUntil(s *scene, limit time.Duration) bool {
	for end := s.Now.Add(limit); s.Now.Before(end); {
		for i, job := range c.jobs {
			c.observe(job, c.jobs[1-i])
			job.decide()
			c.act(job)
			c.schedule(job)
			job.after(time.Second)
		}
		if len(s.status().Incidents) > 0 && !incident.AnyOpen(s.status()) {
			return true
		}
	}
	return false
}

// observe shows a job its own holds and those of the other one.
func (c *sharedRack) observe(s, other *scene) {
	key := HoldKey(other.Job)
	for name := range s.Nodes {
		s.node(name, func(n *gang.Node) { n.Taints = nil })
	}
	for _, h := range other.status().Holds {
		s.node(h.Node, func(n *gang.Node) { n.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} })
	}
	s.Younger = nil
	if since := placement.SearchesSince(other.Pods); placement.Precedes(s.Job, other.Job) && !since.IsZero() {
		s.Younger = []gang.YoungerHold{{Key: key, Since: since}}
	}
}

func (c *sharedRack) act(s *scene) {
	plan := s.plan()
	s.heldAsRecorded()
	for i := range s.Pods {
		p := &s.Pods[i]
		for _, d := range plan.DeletePods {
			if d.UID == p.UID {
				s.replace(i)
			}
		}
		for _, l := range plan.Lift {
			if l.UID == p.UID {
				life, _ := strconv.Atoi(l.Annotations[v1alpha1.AnnotationIncarnation])
				p.Gated, p.PlacedTime, p.Incarnation, p.Pins, p.Tolerates = false, s.Now, int32(life), l.Target.In, l.Tolerate
			}
		}
		for _, l := range plan.Tolerate {
			if l.UID == p.UID {
				p.Tolerates = slices.Concat(p.Tolerates, l.Keys)
			}
		}
	}
}

// schedule binds all pods of a job, or none.
func (c *sharedRack) schedule(s *scene) {
	used := map[string]int{}
	for _, job := range c.jobs {
		for _, p := range job.Pods {
			used[p.Node]++
		}
	}
	chosen := map[int]string{}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Node != "" {
			continue
		}
		for _, n := range s.Nodes {
			if !p.Gated && chosen[i] == "" && used[n.Name] < 2 && slices.Contains(p.Pins, n.Hostname) &&
				!slices.ContainsFunc(n.HoldsOfOthers(), func(key string) bool { return !slices.Contains(p.Tolerates, key) }) {
				chosen[i] = n.Name
				used[n.Name]++
			}
		}
		if chosen[i] == "" {
			for i := range s.Pods {
				s.Pods[i].Unschedulable = s.Pods[i].Node == "" && !s.Pods[i].Gated
			}
			return
		}
	}
	for i, node := range chosen {
		s.bind(i, node)
	}
}
