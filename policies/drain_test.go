// Ranks that leave cordoned nodes.

package policies

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/check"
)

var maintained = rule("maintenance", on(v1alpha1.NodeCordoned), step(v1alpha1.MigratePod, 0))

// cordon cordons a node, as the control plane shows it in the end.
func (s *scene) cordon(name string) {
	s.node(name, func(n *gang.Node) {
		n.Unschedulable, n.CordonedSince = true, s.Now
	})
}

// No rank leaves a cordoned node where no rule lists the event. One for any event does not.
func TestACordonIsNoFailure(t *testing.T) {
	for name, rules := range map[string][]v1alpha1.Rule{
		"any":        {atOnce},
		"degraded":   {rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 0)), atOnce},
		"ignored":    {rule("left-alone", on(v1alpha1.NodeCordoned), step(v1alpha1.Ignore, 0))},
		"other task": {rule("maintenance", on(v1alpha1.NodeCordoned), ofTasks("master"), step(v1alpha1.MigratePod, 0))},
	} {
		t.Run(name, func(t *testing.T) {
			s := aScene(aJob().tasks(task("master", 1), task("worker", 3)).policy(withRules(rules...))).started().placed()
			s.cordon("n02")
			s.decide()
			check.Equal(t, "incidents", 0, len(s.status().Incidents))
		})
	}
}

// The rank moves, and no other. A policy that has no other rule keeps the default ones.
func TestARankLeavesACordonedNode(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(maintained))).started().placed()
	s.cordon("n01")
	s.decide()
	inc := s.incident(t)
	check.Equal(t, "trigger", v1alpha1.NodeCordoned, inc.Trigger)
	check.Equal(t, "class", v1alpha1.ClassMaintenance, inc.Class)
	check.Equal(t, "charged", int32(0), s.status().Restarts.Charged)
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
	check.Equal(t, "excluded", "n01", s.status().ExcludedNodes[0].Name)

	s.replace(1)
	s.bind(1, "n03")
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	s.crash(2, 1)
	s.decide()
	check.Equal(t, "rule of another failure", "everything-else", s.incident(t).Rule)
}

// A rank that has yet to move stays where its node takes pods again.
func TestACordonThatEndsMovesNobody(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(rule("maintenance", on(v1alpha1.NodeCordoned), step(v1alpha1.MigratePod, 60))))).started().placed()
	s.cordon("n01")
	s.decide()
	s.node("n01", func(n *gang.Node) { n.Unschedulable, n.CordonedSince = false, time.Time{} })
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "deleted", 0, len(s.deleted()))
}

// A node is kept from for its cordon only: once it takes pods again, it is one of home as before.
func TestAnExclusionForACordonEndsWithIt(t *testing.T) {
	for name, tc := range map[string]struct {
		returns func(*gang.Node)
		want    []string
	}{
		"still cordoned":             {func(*gang.Node) {}, []string{"n01"}},
		"uncordoned":                 {func(n *gang.Node) { n.Unschedulable = false }, nil},
		"another node of its name":   {func(n *gang.Node) { n.Unschedulable, n.UID = false, "new" }, nil},
		"not ready":                  {func(n *gang.Node) { n.Unschedulable, n.Ready = false, false }, []string{"n01"}},
		"something there has failed": {func(n *gang.Node) { n.Unschedulable, n.Ill = false, true }, []string{"n01"}},
		"its agent has not reported": {func(n *gang.Node) { n.Unschedulable, n.AwaitsReport = false, true }, []string{"n01"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(maintained))).started().placed()
			s.cordon("n01")
			s.decide()
			s.node("n01", tc.returns)
			s.after(time.Second).decide()
			check.Equal(t, "excluded", tc.want, s.excluded())
		})
	}
}

// A node beside it, where a rank has failed meanwhile, is no cordoned one.
func TestAnIncidentOfACordonExcludesAnotherNodeForItsTime(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(maintained))).started().placed()
	s.cordon("n01")
	s.decide()
	inc := s.incident(t)
	check.Equal(t, "cause", v1alpha1.EventType(""), incident.ExclusionCause(&s.Observation, inc, "n02"))
}

// A later step of the incident does not exclude the node again.
func TestAnUncordonedNodeIsNotExcludedAgain(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(rule("maintenance", on(v1alpha1.NodeCordoned), step(v1alpha1.MigratePod, 0), step(v1alpha1.MigratePod, 300))))).started().placed()
	s.cordon("n01")
	s.decide()
	s.replace(1)
	s.node("n01", func(n *gang.Node) { n.Unschedulable, n.CordonedSince = false, time.Time{} })
	s.after(time.Minute).decide()
	s.after(4 * time.Minute).decide()
	check.Equal(t, "steps", []string{"MigratePod@0", "MigratePod@300"}, s.fired(t))
	check.Equal(t, "excluded", nil, s.excluded())
}

// What keeps a job from a node for longer than a cordon does so from then on.
func TestAnExclusionForACordonGivesWay(t *testing.T) {
	s := aScene(aJob().tasks(task("master", 1), task("worker", 3)).policy(withRules(rule("maintenance", on(v1alpha1.NodeCordoned), ofTasks("worker"), step(v1alpha1.MigratePod, 0)), atOnce))).started()
	for i, node := range []string{"n01", "n01", "n02", "n03"} {
		s.bind(i, node)
	}
	s.decide()
	s.cordon("n01")
	s.decide()
	s.breakNode("n01")
	s.after(time.Second).decide()
	check.Equal(t, "excluded", 1, len(s.status().ExcludedNodes))
	check.Equal(t, "cause", v1alpha1.NodeNotReady, s.status().ExcludedNodes[0].Cause)
}

// A rank that leaves a node is not sent back to it alone, where it takes pods again meanwhile: others may be faster.
func TestARankThatLeavesIsNotSentBackAlone(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(maintained))).started().placed()
	s.cordon("n01")
	s.decide()
	s.replace(1)
	s.node("n01", func(n *gang.Node) { n.Unschedulable, n.CordonedSince = false, time.Time{} })
	s.after(time.Second).decide()
	target := s.plan().Lift[0].Target
	if !slices.Contains(target.In, "host-n01") || !slices.Contains(target.In, "host-n03") {
		t.Errorf("it may go to %v only", target.In)
	}
}

// What fails by itself on a cordoned node is not waited with.
func TestAFailureOnACordonedNodeDecides(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(rule("maintenance", on(v1alpha1.NodeCordoned), step(v1alpha1.MigratePod, 600)), atOnce))).started().placed()
	s.cordon("n01")
	s.decide()
	s.crash(1, 1)
	s.after(time.Second).decide()
	check.Equal(t, "trigger", v1alpha1.PodFailed, s.incident(t).Trigger)
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
}

// An open incident of another rank is not kept open by a cordon.
func TestACordonKeepsNoOtherIncidentOpen(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 3)).policy(withRules(rule("maintenance", on(v1alpha1.NodeCordoned), step(v1alpha1.MigratePod, 600)), atOnce))).started().placed()
	s.crash(1, 1)
	s.decide()
	s.replace(1)
	s.bind(1, "n01")
	s.cordon("n01")
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.status().Incidents[0].Outcome)
	check.Equal(t, "trigger of the next", v1alpha1.NodeCordoned, s.incident(t).Trigger)
}

// drained is a gang of which a warm spare takes a rank over, whose node is cordoned.
func drained() *scene {
	s := warm(1, func(job *v1alpha1.TrainingJob) { job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{maintained} })
	s.cordon("n01")
	s.decide()
	return s
}

// The program of a rank that moves may be the last to save: the spare that took the rank over has looked before.
func TestTheProgramOfARankThatMovesSavesLast(t *testing.T) {
	s := drained()
	s.all(gang.ProcessWaiting)
	for _, i := range []int{0, 2, 3} {
		s.reads(i, nil, []int64{5})
	}
	s.reads(1, nil, []int64{9})
	s.decide()
	check.Equal(t, "start", true, s.plan().Order.Start)
	check.Equal(t, "step", int64(9), s.plan().Order.ResumeStep)
}

// A new leader, which has yet to hear the pod that leaves, lets its program save.
func TestAPodThatLeavesMayYetBeHeard(t *testing.T) {
	for name, tc := range map[string]struct{ stop, want time.Duration }{
		"it saves quickly": {10 * time.Second, 20 * time.Second}, "it may save for long": {5 * time.Minute, gang.HeardWithin},
	} {
		t.Run(name, func(t *testing.T) {
			s := drained()
			s.Job.Spec.Supervisor.StopSeconds = new(int32(tc.stop / time.Second))
			s.ListensSince, s.Pods[1].Process = s.Now, nil
			s.decide()
			check.Equal(t, "deleted", 0, len(s.deleted()))
			s.after(tc.want - time.Second).decide()
			check.Equal(t, "deleted early", 0, len(s.deleted()))
			s.after(time.Second).decide()
			check.Equal(t, "deleted, where it is not heard", []string{"2"}, s.deleted())
		})
	}
}

// A warm spare takes a planned move over at once, and its gang starts once the old program has ended, and that is known.
func TestAPlannedMoveIsTakenOver(t *testing.T) {
	s := drained()
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "pod of the rank", "llm-1-worker-spare-0", s.podOfRank(1))
	for _, i := range []int{0, 2, 3} {
		s.reports(i, gang.ProcessWaiting)
	}
	s.decide()
	check.Equal(t, "start beside the old program", false, s.plan().Order.Start)
	s.Pods[1].Process = nil
	s.decide()
	check.Equal(t, "deleted, where it is not heard any more", []string{"2"}, s.deleted())
	s.Pods[1].Deleting = true
	s.decide()
	check.Equal(t, "start beside one that is not heard any more", false, s.plan().Order.Start)
	s.Pods = append(s.Pods[:1], s.Pods[2:]...)
	s.decide()
	check.Equal(t, "start without it", true, s.plan().Order.Start)
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// A pod whose rank was moved is deleted once the gang runs. Before, the kubelet would end it, and Volcano make the next one, while the gang starts.
func TestAMovedPodIsDeletedOnceTheGangRuns(t *testing.T) {
	s := drained()
	check.Equal(t, "deleted while its program runs", 0, len(s.deleted()))
	s.all(gang.ProcessWaiting)
	s.decide()
	check.Equal(t, "start beside a pod whose program has stopped", true, s.plan().Order.Start)
	check.Equal(t, "deleted while the gang starts", 0, len(s.deleted()))
	for _, i := range []int{0, 2, 3} {
		s.reports(i, gang.ProcessRunning)
	}
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
}

// evictable are the pods that the plan labels as such, by their UIDs.
func (s *scene) evictable() (uids []string) {
	for _, d := range s.plan().Evictable {
		uids = append(uids, d.UID)
	}
	return uids
}

// isLeft checks that a pod is left to a drain, and deleted where none evicts it in time.
func (s *scene) isLeft(t *testing.T, i int) {
	t.Helper()
	s.isLeftFor(t, i, 7*time.Second)
}

func (s *scene) isLeftFor(t *testing.T, i int, within time.Duration) {
	t.Helper()
	uid := s.Pods[i].UID
	check.Equal(t, "deleted before a drain may evict it", 0, len(s.deleted()))
	check.Equal(t, "evictable", []string{uid}, s.evictable())
	s.Pods[i].EvictableFrom = s.Now.Truncate(time.Second)
	check.Equal(t, "evictable then", 0, len(s.evictable()))
	check.Equal(t, "looks again", s.Pods[i].EvictableFrom.Add(within), s.decide().Next)
	check.Equal(t, "deleted while the drain may ask", 0, len(s.deleted()))
	s.Now = s.Pods[i].EvictableFrom.Add(within)
	s.decide()
	check.Equal(t, "deleted", []string{uid}, s.deleted())
}

// Kubectl asks for an eviction by the pod's name, every 5 s. A pod that goes is left to it for that long, and its budget opens for it: Volcano would make the next one of
// that name on another node, which the drain would evict, or wait for.
func TestAPodThatLeavesIsLeftToTheDrain(t *testing.T) {
	protected := func(s *scene) *scene {
		s.ProtectedTasks = []string{"worker"}
		s.cordon("n01")
		s.decide()
		return s
	}
	unspared := func() *scene {
		return protected(aScene(aJob().tasks(task("worker", 3)).policy(withRules(maintained))).started().placed())
	}
	t.Run("without a spare", func(t *testing.T) { unspared().isLeft(t, 1) })
	t.Run("on a node that Cluster Autoscaler removes", func(t *testing.T) {
		s := unspared()
		s.node("n01", func(n *gang.Node) { n.EvictionRetry = 10 * time.Second })
		s.isLeftFor(t, 1, 12*time.Second)
	})
	t.Run("by an incident that is open", func(t *testing.T) {
		s := unspared()
		s.Pods[1].Deleting = true
		s.cordon("n02")
		s.after(9 * time.Second).decide()
		check.Equal(t, "incidents", 1, len(s.status().Incidents))
		s.isLeft(t, 2)
	})
	t.Run("taken over", func(t *testing.T) {
		s := protected(warm(1, func(job *v1alpha1.TrainingJob) { job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{maintained} }))
		for i := range s.Pods {
			s.Pods[i].SpareLabel = false
			s.reports(i, gang.ProcessRunning)
		}
		check.Equal(t, "evictable while the gang restarts", 0, len(s.evictable()))
		s.reports(1, gang.ProcessWaiting)
		s.decide()
		s.isLeft(t, 1)
	})
	for name, change := range map[string]func(s *scene){
		"not protected":        func(s *scene) { s.ProtectedTasks = nil },
		"labelled a spare's":   func(s *scene) { s.Pods[1].SpareLabel = true },
		"node takes pods":      func(s *scene) { s.node("n01", func(n *gang.Node) { n.Unschedulable = false }) },
		"node does not answer": func(s *scene) { s.node("n01", func(n *gang.Node) { n.Ready = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := unspared()
			change(s)
			check.Equal(t, "deleted", []string{"2"}, s.deleted())
			check.Equal(t, "evictable", 0, len(s.evictable()))
		})
	}
	t.Run("by a clock that is ahead", func(t *testing.T) {
		s := unspared()
		s.Pods[1].EvictableFrom = s.Now.Add(time.Hour)
		s.isLeft(t, 1)
	})
}

// It is deleted at once where the kubelet has started its container again, which may start its program without a manager.
func TestAMovedPodWhoseContainerIsRestartedIsDeleted(t *testing.T) {
	s := drained()
	s.reports(1, gang.ProcessFailed)
	s.Pods[1].StartedTime = s.status().EpochTime.Add(time.Second)
	s.decide()
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
}

// It is deleted sooner where its program does not stop.
func TestAMovedPodThatDoesNotStopIsDeleted(t *testing.T) {
	s := drained()
	s.reports(1, gang.ProcessStopping)
	d := s.decide()
	check.Equal(t, "looks again", s.status().EpochTime.Add(10*time.Second+stopsWithin), d.Next)
	s.Now = d.Next
	s.decide()
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
}

// A pod that was made as a spare's, and has had a rank, may run on as any other: its label may yet have to show what it became.
func TestAPlannedMoveOfASpareThatTookOver(t *testing.T) {
	s := warm(2, func(job *v1alpha1.TrainingJob) { job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{maintained, atOnce} })
	s.takesOver(t, "n01")
	named := func(name string) int {
		return slices.IndexFunc(s.Pods, func(p gang.Pod) bool { return p.Name == name })
	}
	s.reports(named("llm-1-worker-spare-1"), gang.ProcessWaiting)
	at := named(s.podOfRank(1))
	check.Equal(t, "it is called a spare's", true, s.Pods[at].SpareLabel)
	s.cordon(s.Pods[at].Node)
	s.decide()
	if now := s.podOfRank(1); now == s.Pods[at].Name {
		t.Fatalf("the rank still has pod %s", now)
	}
	for i := range s.Pods {
		s.reports(i, gang.ProcessWaiting)
	}
	s.Pods[at].Process, s.Pods[at].Deleting = nil, true
	s.decide()
	check.Equal(t, "start beside one that is not heard any more", false, s.plan().Order.Start)
	s.Pods = slices.Delete(s.Pods, at, at+1)
	s.decide()
	check.Equal(t, "start without it", true, s.plan().Order.Start)
}

// Where the old program may run on behind a node that went silent meanwhile, the gang waits until that counts as dead.
func TestAPlannedMoveWaitsForProofOfDeath(t *testing.T) {
	s := warm(1, func(job *v1alpha1.TrainingJob) { job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{maintained} })
	s.cordon("n01")
	s.decide()
	for _, i := range []int{0, 2, 3} {
		s.reports(i, gang.ProcessWaiting)
	}
	s.Pods[1].Process, s.Pods[1].Deleting = nil, true
	s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince, n.SilentSeen = false, s.Now, s.Now })
	s.decide()
	check.Equal(t, "start", false, s.plan().Order.Start)
	s.after(2 * time.Minute).decide()
	check.Equal(t, "start once it is dead", true, s.plan().Order.Start)
}

// The pods of the tasks that a rule moves are kept from eviction, for an hour from the cordon.
func TestWhatIsKeptFromEviction(t *testing.T) {
	job := func(rules ...v1alpha1.Rule) *scene {
		return aScene(aJob().tasks(task("worker", 3), task("eval", 1)).policy(withRules(rules...))).started().placed()
	}
	s := job(rule("maintenance", on(v1alpha1.NodeCordoned), ofTasks("worker"), step(v1alpha1.MigratePod, 3600)), atOnce)
	s.decide()
	check.Equal(t, "tasks", &Protection{Tasks: []string{"worker"}}, s.plan().Protect)
	s.ProtectedTasks = []string{"worker"}
	check.Equal(t, "as it is", (*Protection)(nil), s.plan().Protect)
	s.cordon(s.Pods[3].Node) // of the other task
	s.after(2 * time.Hour).decide()
	check.Equal(t, "while a rank that nothing moves stays", (*Protection)(nil), s.plan().Protect)
	s.cordon("n01")
	d := s.decide()
	check.Equal(t, "from the cordon", (*Protection)(nil), s.plan().Protect)
	check.Equal(t, "next", s.Now.Add(time.Hour), d.Next)
	s.Now = d.Next
	check.Equal(t, "after an hour", &Protection{Tasks: []string{"worker"}, Except: []string{"1"}}, s.plan().Protect)

	for name, other := range map[string]*scene{"no rule": job(atOnce), "a rule that does nothing": job(rule("left-alone", on(v1alpha1.NodeCordoned), step(v1alpha1.Ignore, 0)))} {
		other.decide()
		check.Equal(t, name, (*Protection)(nil), other.plan().Protect)
	}
	s = job(maintained)
	s.ProtectedTasks = []string{"eval", "worker"}
	check.Equal(t, "both", (*Protection)(nil), s.plan().Protect)
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	check.Equal(t, "in a dry run", &Protection{}, s.plan().Protect)
	s = job(maintained)
	s.ProtectedTasks = []string{"eval", "worker"}
	s.Job.Spec.Suspend = true
	check.Equal(t, "suspended", &Protection{}, s.plan().Protect)
}

// A drain that has waited for too long takes the protection from the ranks on its node, and from those of their indexes. Others keep it for their own hour.
func TestADrainThatWaitedTooLong(t *testing.T) {
	slow := rule("maintenance", on(v1alpha1.NodeCordoned), step(v1alpha1.MigratePod, 24*3600))
	s := aScene(aJob().tasks(task("worker", 3), task("eval", 1)).policy(withRules(slow, atOnce))).started().placed()
	s.ProtectedTasks = []string{"eval", "worker"}
	s.cordon("n01")
	s.after(time.Minute).cordon("n02")
	s.after(time.Hour - time.Minute)
	check.Equal(t, "next", s.Now.Add(time.Minute), s.decide().Next)
	check.Equal(t, "the first", &Protection{Tasks: []string{"eval", "worker"}, Except: []string{"1"}}, s.plan().Protect)
	s.UnprotectedIndexes = []string{"1"}
	check.Equal(t, "as it is", (*Protection)(nil), s.plan().Protect)
	s.after(time.Minute).decide()
	check.Equal(t, "both", &Protection{Tasks: []string{"eval", "worker"}, Except: []string{"1", "2"}}, s.plan().Protect)
	s.node("n01", func(n *gang.Node) { n.Unschedulable, n.CordonedSince = false, time.Time{} })
	s.decide()
	check.Equal(t, "once the first takes pods again", []string{"2"}, s.plan().Protect.Except)
	s.Job.Spec.Suspend = true
	check.Equal(t, "suspended", &Protection{}, s.plan().Protect)
}

// Where it is known which pods leave a cordoned node, the others stay, and no rank of theirs moves. They keep their protection for an hour from the cordon, and those that leave
// for an hour from when that is known.
func TestOnlyTheRanksThatLeaveACordonedNodeMove(t *testing.T) {
	s := aScene(aJob().tasks(task("worker", 4)).policy(withRules(maintained))).started()
	for i, node := range []string{"n01", "n01", "n02", "n03"} {
		s.bind(i, node)
	}
	s.ProtectedTasks = []string{"worker"}
	s.decide()
	s.cordon("n01")
	leave := func(pods map[string]time.Time) { s.node("n01", func(n *gang.Node) { n.Leaving = pods }) }

	leave(map[string]time.Time{})
	s.decide()
	check.Equal(t, "protection of pods that stay", (*Protection)(nil), s.plan().Protect)
	s.after(time.Hour).decide()
	check.Equal(t, "incidents while no pod is named", 0, len(s.status().Incidents))
	check.Equal(t, "protection of pods that stay, after an hour", []string{"0", "1"}, s.plan().Protect.Except)
	s.UnprotectedIndexes = []string{"0", "1"}

	leave(map[string]time.Time{s.Pods[1].UID: s.Now})
	s.decide()
	inc := s.incident(t)
	check.Equal(t, "trigger", v1alpha1.NodeCordoned, inc.Trigger)
	check.Equal(t, "pods", 1, len(inc.Pods))
	check.Equal(t, "index", int32(1), inc.Pods[0].Index)
	check.Equal(t, "protection of a pod that leaves", []string{"0"}, s.plan().Protect.Except)
	s.UnprotectedIndexes = []string{"0"}
	s.after(time.Hour).decide()
	check.Equal(t, "protection of one that leaves, after an hour", []string{"0", "1"}, s.plan().Protect.Except)
}
