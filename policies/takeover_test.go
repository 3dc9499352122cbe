// Spares that take over ranks.

package policies

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

// warm is a supervised gang of three workers on n00 to n02, and its spares on n03 and so on, whose supervisors wait.
func warm(spares int32, change ...func(*v1alpha1.TrainingJob)) *scene {
	job := aJob().tasks(task("worker", 3, withSpares(spares))).policy(withRules(atOnce))
	job.Spec.Supervisor = &v1alpha1.Supervisor{TakeOver: &v1alpha1.TakeOver{}}
	job.Spec.Framework = &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{Master: "master", Worker: "worker"}}
	for _, c := range change {
		c(job.TrainingJob)
	}
	s := aScene(job).started().placed()
	s.all(gang.ProcessRunning)
	for i := range s.Pods {
		if s.Pods[i].Spare {
			s.reports(i, gang.ProcessWaiting)
		}
	}
	s.decide()
	return s
}

// podOfRank is the pod that the status gives a rank of the workers.
func (s *scene) podOfRank(index int32) string {
	p := gang.View(&s.Observation, s.status()).Pod(gang.Rank{Task: "worker", Index: index})
	if p == nil {
		return ""
	}
	return p.Name
}

// The status that begins the next run gives the rank the spare's pod: none is made, placed or deleted for it.
func TestASpareTakesOverALostRank(t *testing.T) {
	s := warm(1)
	s.lose("n01")
	s.decide()
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "pod of the rank", "llm-1-worker-spare-0", s.podOfRank(1))
	check.Equal(t, "nodes", []string{"n00", "n03", "n02"}, s.nodes())
	check.Equal(t, "deleted, for Volcano to make another one", 0, len(s.deleted()))
	check.Equal(t, "superseded", []string{"2"}, s.plan().Superseded)
	check.Equal(t, "labels to change while the gang is down", 0, len(s.plan().Relabel))
	check.Equal(t, "places", map[string]Place{"4": {Index: 1, Incarnation: 2, PyTorchRank: 2}}, s.plan().Places)
	check.Equal(t, "start", false, s.plan().Order.Start)
	check.Equal(t, "hosts of programs that stop", "", s.plan().Order.Hosts)

	s.Pods = append(s.Pods[:1], s.Pods[2:]...)
	s.all(gang.ProcessWaiting)
	s.decide()
	check.Equal(t, "start, with no other pod", true, s.plan().Order.Start)
	check.Equal(t, "hosts", "10.0.0.4 llm-1-worker-1.llm-1 llm-1-worker-1\n", s.plan().Order.Hosts)
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "state", v1alpha1.StateRunning, s.status().State)
}

// In a container that the kubelet has restarted the program starts without an order to start, where no step starts it again.
func TestTheHostsOfAProgramThatIsReleased(t *testing.T) {
	s := warm(1)
	s.lose("n01")
	s.decide()
	s.Pods = append(s.Pods[:1], s.Pods[2:]...)
	s.all(gang.ProcessRunning)
	s.decide()
	s.Job.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	s.Pods[0].Process = nil
	s.decide()
	o := s.plan().Order
	check.Equal(t, "start, release", []bool{false, true}, []bool{o.Start, o.Release})
	check.Equal(t, "hosts", "10.0.0.4 llm-1-worker-1.llm-1 llm-1-worker-1\n", o.Hosts)
}

// Volcano makes the next pod of the lost one's name once that is deleted: not before the gang runs, which it would keep from starting.
func TestTheLostPodIsDeletedOnceTheGangRuns(t *testing.T) {
	s := warm(1)
	s.lose("n01")
	s.decide()
	for _, state := range []gang.ProcessState{gang.ProcessWaiting, gang.ProcessRunning} {
		check.Equal(t, "deleted before", 0, len(s.deleted()))
		for i := range s.Pods {
			if i != 1 {
				s.reports(i, state)
			}
		}
		s.Pods[1].Process = nil
		s.decide()
	}
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "deleted", []string{"2 by force"}, s.deleted())
}

// The next pod of the lost rank's name is the spare from then on, and takes over another rank.
func TestTheSuccessorOfALostPodIsTheSpare(t *testing.T) {
	s := warm(1)
	s.takesOver(t, "n01")
	successor := len(s.Pods)
	s.Pods = append(s.Pods, gang.Pod{
		Name: "llm-1-worker-1", UID: "9", Task: "worker", Index: 1, Slot: gang.Rank{Task: "worker", Index: 1}, Attempt: 1, Phase: corev1.PodPending, Gated: true, CreatedTime: s.Now,
	})
	s.decide()
	lifts := s.plan().Lift
	check.Equal(t, "lifts", 1, len(lifts))
	check.Equal(t, "standby", "spare", lifts[0].Annotations[v1alpha1.AnnotationStandby])
	s.bind(successor, "n04")
	s.reports(successor, gang.ProcessWaiting)
	s.decide()
	check.Equal(t, "ready", "3/3", s.status().Ready)
	check.Equal(t, "deleted", 0, len(s.deleted()))
	check.Equal(t, "labels to change", []Relabel{{"llm-1-worker-spare-0", "4", false}, {"llm-1-worker-1", "9", true}}, s.plan().Relabel)
	for i := range s.Pods {
		s.Pods[i].SpareLabel = s.Pods[i].UID == "9"
	}
	check.Equal(t, "labels to change then", 0, len(s.plan().Relabel))

	s.takesOver(t, "n00")
	check.Equal(t, "pod of the second rank", "llm-1-worker-1", s.podOfRank(0))
	check.Equal(t, "pod of the first rank", "llm-1-worker-spare-0", s.podOfRank(1))
	check.Equal(t, "places", map[string]Place{
		"4": {Index: 1, Incarnation: 2, PyTorchRank: 2}, "9": {Index: 0, Incarnation: 3, PyTorchRank: 1},
	}, s.plan().Places)
}

// A budget knows a rank's pod by its label, which does not wait for the end of an incident that leaves the gang running.
func TestARankThatTookOverIsLabelledBesideAnIncident(t *testing.T) {
	s := warm(1, func(job *v1alpha1.TrainingJob) {
		job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("ill", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 3600)), atOnce}
	})
	s.takesOver(t, "n01")
	s.Pods[0].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	s.Pods = append(s.Pods, gang.Pod{
		Name: "llm-1-worker-1", UID: "9", Task: "worker", Index: 1, Slot: gang.Rank{Task: "worker", Index: 1}, Attempt: 1, Phase: corev1.PodPending, Gated: true, CreatedTime: s.Now,
	})
	s.decide()
	check.Equal(t, "open incidents", true, incident.AnyOpen(s.status()))
	check.Equal(t, "labels to change", []Relabel{{"llm-1-worker-spare-0", "4", false}}, s.plan().Relabel)
}

// takesOver loses a node, and has the gang run again without another pod.
func (s *scene) takesOver(t *testing.T, node string) {
	t.Helper()
	s.lose(node)
	s.decide()
	for i := range s.Pods {
		if s.Pods[i].Node == node {
			s.Pods = append(s.Pods[:i], s.Pods[i+1:]...)
			break
		}
	}
	s.all(gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// Where a pod may still run on a node that is silent, its rank is taken over only once it counts as dead.
func TestNoRankIsTakenOverBeforeItsPodIsDead(t *testing.T) {
	s := warm(1)
	s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince, n.SilentSeen = false, s.Now, s.Now })
	s.decide()
	check.Equal(t, "pod of the rank", "llm-1-worker-1", s.podOfRank(1))
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
	d := s.decide()
	s.Now = d.Next
	for range 10 {
		if d = s.decide(); !d.Next.IsZero() {
			s.Now = d.Next
		}
	}
	check.Equal(t, "pod of the rank that counts as dead", "llm-1-worker-spare-0", s.podOfRank(1))
}

// Each order of a later run has the spares leave the barrier for a moment, as that which stops the gang beside a node that is silent. One takes over all the same.
func TestASpareOnItsWayToTheBarrierTakesOver(t *testing.T) {
	s := warm(1)
	s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince, n.SilentSeen = false, s.Now, s.Now })
	s.decide()
	s.reports(3, gang.ProcessStopping)
	d := s.decide()
	check.Equal(t, "deleted", []string{"2"}, s.deleted())
	s.Now = d.Next
	for range 10 {
		if d = s.decide(); !d.Next.IsZero() {
			s.Now = d.Next
		}
	}
	check.Equal(t, "pod of the rank that counts as dead", "llm-1-worker-spare-0", s.podOfRank(1))
}

// One that waits already goes before.
func TestASpareThatWaitsGoesBeforeOneOnItsWay(t *testing.T) {
	s := warm(2)
	s.reports(3, gang.ProcessStopping)
	s.lose("n01")
	s.decide()
	check.Equal(t, "pod of the rank", "llm-1-worker-spare-1", s.podOfRank(1))
}

// A spare whose supervisor is not heard, or whose program is not yet at the barrier, gives its node to the pod of the rank, as spares without takeOver do.
func TestASpareThatIsNotWarmGivesItsNode(t *testing.T) {
	for name, story := range map[string]func(*gang.Pod){
		"not heard":  func(p *gang.Pod) { p.Process = nil },
		"has failed": func(p *gang.Pod) { p.Process.State = gang.ProcessFailed },
	} {
		t.Run(name, func(t *testing.T) {
			s := warm(1)
			story(&s.Pods[3])
			s.lose("n01")
			s.decide()
			check.Equal(t, "deleted", []string{"2 by force", "4"}, s.deleted())
			check.Equal(t, "nodes", []string{"n00", "n03", "n02"}, s.nodes())
			check.Equal(t, "moved", 0, len(s.status().Tasks[0].Pods))
		})
	}
}

// A node on which a warm-up has failed is the last one that a rank gets.
func TestASpareThatHasFailedToWarmUpIsTheLast(t *testing.T) {
	s := warm(2)
	s.Pods[3].Process.State, s.Pods[3].Process.WarmUpExit, s.Pods[4].Process = gang.ProcessWarmingUp, &gang.ContainerFailure{ExitCode: 3}, nil
	s.lose("n01")
	s.decide()
	check.Equal(t, "nodes", []string{"n00", "n04", "n02"}, s.nodes())
}

// A pod that warms up when it becomes a rank's keeps its gang from starting until it has stopped, and a warm-up that has failed is no failure of the rank.
func TestAWarmUpIsNoProgram(t *testing.T) {
	s := warm(1)
	s.lose("n01")
	s.decide()
	s.all(gang.ProcessWaiting)
	s.Pods[3].Process.State, s.Pods[3].Process.WarmUpExit = gang.ProcessWarmingUp, &gang.ContainerFailure{ExitCode: 3}
	s.after(time.Second).decide()
	check.Equal(t, "start", false, s.plan().Order.Start)
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
}

// The status names no more than some ranks with the pods of others. Those that come then get the nodes of spares.
func TestTakeOversAreBounded(t *testing.T) {
	for moved, taken := range map[int32]bool{254: true, 256: false} {
		s := warm(1)
		for i := range moved {
			s.status().Tasks[0].Pods = append(s.status().Tasks[0].Pods, v1alpha1.RankPod{Index: 100 + i, Attempt: 1, Pod: fmt.Sprintf("worker-%d", 500+i)})
		}
		s.lose("n01")
		s.decide()
		check.Equal(t, "whether a spare takes over", taken, len(s.status().Tasks[0].Pods) > int(moved))
		check.Equal(t, "nodes", []string{"n00", "n03", "n02"}, s.nodes())
	}
}

// A rank whose next pod has yet to find a node is taken over, too: a spare may be warm only then.
func TestARankThatLooksForANodeIsTakenOver(t *testing.T) {
	s := warm(1)
	s.Pods[3].Process = nil
	s.Pods[3].Node, s.Pods[3].Phase, s.Pods[3].Ready = "", corev1.PodPending, false
	s.lose("n01")
	s.decide()
	check.Equal(t, "pod of the rank", "llm-1-worker-1", s.podOfRank(1))
	s.replace(1)
	s.decide()
	s.search(1)
	s.bind(3, "n03")
	s.reports(3, gang.ProcessWaiting)
	s.after(time.Second).decide()
	check.Equal(t, "pod of the rank", "llm-1-worker-spare-0", s.podOfRank(1))
}

// A spare that waits goes before one that does not.
func TestAWarmSpareGoesBeforeAColdOne(t *testing.T) {
	s := warm(2)
	s.Pods[3].Process = nil
	s.lose("n01")
	s.decide()
	check.Equal(t, "pod of the rank", "llm-1-worker-spare-1", s.podOfRank(1))
	check.Equal(t, "deleted", 0, len(s.deleted()))
}

// Which rank a pod had two attempts ago is not known: all ranks of its task wait for it.
func TestAPodOfTwoAttemptsAgoKeepsItsTaskBehindGates(t *testing.T) {
	s := warm(1)
	s.takesOver(t, "n01")
	i := slices.IndexFunc(s.Pods, func(p gang.Pod) bool { return p.Name == "llm-1-worker-spare-0" })
	s.Pods = []gang.Pod{s.Pods[i]}
	for range 2 {
		gang.NextAttempt(s.status())
	}
	s.VolcanoJobs = []gang.VolcanoJob{{Name: "llm-3", UID: "x3", Attempt: 3, Size: gang.SizeOf(s.Job)}}
	for index := range int32(3) {
		s.make(gang.Rank{Task: "worker", Index: index}, false)
	}
	s.decide()
	check.Equal(t, "lifted", 0, len(s.plan().Lift))
	s.Pods = s.Pods[1:]
	check.Equal(t, "lifted once it is gone", 3, len(s.plan().Lift))
}

// Two ranks that are lost at once take two spares, and a third waits for a node.
func TestSeveralRanksAreTakenOver(t *testing.T) {
	s := warm(2)
	s.lose("n00", "n01", "n02")
	s.decide()
	check.Equal(t, "pods", []string{"llm-1-worker-spare-0", "llm-1-worker-spare-1", "llm-1-worker-2"}, []string{s.podOfRank(0), s.podOfRank(1), s.podOfRank(2)})
}

// Another attempt has all pods under the names of their ranks.
func TestAnotherAttemptAfterATakeOver(t *testing.T) {
	s := warm(1)
	s.takesOver(t, "n01")
	s.VolcanoJobs = nil
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "moved", 0, len(gang.Moved(s.status())))
	check.Equal(t, "places", 0, len(s.plan().Places))

	// The pod of a rank of the attempt before is that rank's as long as it ends.
	i := slices.IndexFunc(s.Pods, func(p gang.Pod) bool { return p.Name == "llm-1-worker-spare-0" })
	s.Pods[i].Deleting, s.Pods[i].Process.State = true, gang.ProcessTerminating
	s.Pods = []gang.Pod{s.Pods[i]}
	s.VolcanoJobs = []gang.VolcanoJob{{Name: "llm-2", UID: "x2", Attempt: 2, Size: gang.SizeOf(s.Job)}}
	for index := range int32(3) {
		s.make(gang.Rank{Task: "worker", Index: index}, false)
	}
	s.decide()
	var lifted []string
	for _, l := range s.plan().Lift {
		lifted = append(lifted, l.Pod)
	}
	check.Equal(t, "lifted", []string{"llm-2-worker-0", "llm-2-worker-2"}, lifted)
}

// successor makes the next pod of a rank's name, the spare by now, which waits on a node.
func (s *scene) successor(index int32, node string) {
	s.make(gang.Rank{Task: "worker", Index: index}, false)
	i := len(s.Pods) - 1
	s.decide()
	s.bind(i, node)
	s.reports(i, gang.ProcessWaiting)
	s.decide()
}

// A rank that was restarted less often than the spare gets an incarnation above both, so that its pod does not outlive its next restart.
func TestASpareOfALaterIncarnationTakesOver(t *testing.T) {
	s := warm(1)
	for range 5 {
		gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 0}, v1alpha1.RestartByStep)
	}
	s.Pods[0].Incarnation = 5
	s.decide()
	s.takesOver(t, "n00")
	s.successor(0, "n04")
	s.takesOver(t, "n01")
	check.Equal(t, "pod of the rank", "llm-1-worker-0", s.podOfRank(1))
	uid := s.Pods[len(s.Pods)-1].UID
	s.lose("n04")
	s.decide()
	check.Equal(t, "deleted with its node", []string{uid + " by force"}, s.deleted())
	check.Equal(t, "superseded", []string{uid}, s.plan().Superseded)
}

// Another pod of a rank does not start before the program of the one before has ended, while that is heard.
func TestATakeOverWaitsForAProgramThatIsHeard(t *testing.T) {
	for _, tc := range []struct {
		state gang.ProcessState
		epoch int64
		start bool
	}{
		{gang.ProcessRunning, 1, false},
		{gang.ProcessStopping, 2, false},
		{gang.ProcessTerminating, 1, false},
		{gang.ProcessWaiting, 1, false}, // an order to start may be on its way
		{gang.ProcessWaiting, 2, true},
		{gang.ProcessFailed, 1, false}, // what it has started is stopped after that
	} {
		s := warm(1)
		s.lose("n01")
		s.decide()
		s.all(gang.ProcessWaiting)
		s.Pods[1].Process = &gang.Process{State: tc.state, Epoch: tc.epoch}
		s.decide()
		check.Equal(t, fmt.Sprintf("start beside state %d of epoch %d", tc.state, tc.epoch), tc.start, s.plan().Order.Start)
	}
}

// Programs start once the ranks whose names DNS does not know have addresses.
func TestTheAddressOfATakenOverRankIsAwaited(t *testing.T) {
	s := warm(1)
	s.takesOver(t, "n01")
	i := slices.IndexFunc(s.Pods, func(p gang.Pod) bool { return p.Name == "llm-1-worker-spare-0" })
	s.crash(i, 1)
	s.decide()
	s.replace(i)
	s.decide()
	s.bind(i, "n03")
	address := s.Pods[i].IP
	s.Pods[i].IP = ""
	s.all(gang.ProcessWaiting)
	s.decide()
	check.Equal(t, "start without an address", false, s.plan().Order.Start)
	s.Pods[i].IP = address
	check.Equal(t, "start with one", true, s.plan().Order.Start)
}

// A take-over rests on the node of the lost pod, also where a step has restarted the rank before.
func TestWhatATakeOverRestsOn(t *testing.T) {
	s := warm(1)
	s.node("n01", func(n *gang.Node) { n.Ready, n.SilentSince, n.SilentSeen = false, s.Now, s.Now })
	s.decide()
	for range 20 {
		d := Decide(&s.Observation)
		if len(gang.Moved(&d.Status)) > 0 {
			check.Equal(t, "nodes", []string{"n01"}, EvidenceFor(&s.Observation, &d.Status).Nodes)
			return
		}
		s.Job.Status, s.Now = written(d.Status), d.Next
	}
	t.Error("the rank is not taken over")
}

// The master's pods may have a hostname, by which Volcano's plugin names the first.
func TestTheHostnameOfATakenOverMaster(t *testing.T) {
	s := warm(1, func(job *v1alpha1.TrainingJob) {
		job.Spec.Tasks[0].Replicas, job.Spec.Tasks[0].Template.Spec.Hostname = 1, "boss"
	})
	s.lose("n00")
	s.decide()
	s.Pods = s.Pods[1:]
	s.all(gang.ProcessWaiting)
	s.decide()
	uid := s.Pods[0].UID
	check.Equal(t, "hosts", "10.0.0."+uid+" llm-1-worker-0.llm-1 llm-1-worker-0 boss.llm-1\n", s.plan().Order.Hosts)
}

// A spare that takes over goes beside ranks where no other node of home has room for it: once spares have taken over on all of these, the next ones would wait for good.
func TestASpareThatTakesOverGoesBesideRanks(t *testing.T) {
	all := []string{"host-n00", "host-n01", "host-n02", "host-n03", "host-n04", "host-n05"} // which the scheduler passes over where they are full
	for name, tc := range map[string]struct {
		change  func(*scene)
		sleeps  bool
		in      []string
		nowhere bool
	}{
		"others have room":        {change: func(*scene) {}, in: []string{"host-n03", "host-n04", "host-n05"}},
		"others have none":        {change: func(s *scene) { s.full("n03", "n04", "n05") }, in: all},
		"others cannot be used":   {change: func(s *scene) { s.notReady("n03", "n04", "n05") }, in: all},
		"no node has any":         {change: func(s *scene) { s.full("n00", "n01", "n02", "n03", "n04", "n05") }, in: []string{"host-n03", "host-n04", "host-n05"}},
		"none is good":            {change: func(s *scene) { s.notReady("n00", "n01", "n02", "n03", "n04", "n05") }, nowhere: true},
		"one that does not":       {change: func(s *scene) { s.full("n03", "n04", "n05") }, sleeps: true, in: []string{"host-n03", "host-n04", "host-n05"}},
		"nothing is asked for":    {change: func(s *scene) { s.notReady("n03", "n04", "n05"); s.Requests = nil }, nowhere: true},
		"others' pods have ended": {change: func(s *scene) { s.full("n03", "n04", "n05"); s.Pods[len(s.Pods)-1].Phase = corev1.PodSucceeded }, in: []string{"host-n03", "host-n04", "host-n05"}},
		"memory is what is full": {change: func(s *scene) {
			s.notReady("n03", "n04", "n05")
			s.Requests["worker"] = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")} // of which a pod's own requests do not tell
			for _, node := range []string{"n00", "n01", "n02"} {
				s.node(node, func(n *gang.Node) { n.Allocatable = s.Requests["worker"] })
			}
		}, nowhere: true},
		"devices are claimed": {change: func(s *scene) {
			s.notReady("n03", "n04", "n05")
			s.Job.Spec.Tasks[0].Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		}, nowhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := warm(1)
			s.Requests["worker"] = gpus(gpusPerNode / 2)
			s.full("n01") // the other ranks leave half of their nodes
			if tc.sleeps {
				s.Job.Spec.Supervisor.TakeOver = nil
			}
			tc.change(s)
			target := s.forSpare()
			check.Equal(t, "nowhere", tc.nowhere, target.None())
			if !tc.nowhere {
				check.Equal(t, "nodes", tc.in, target.In)
			}
		})
	}
}

// Where there is room for one, the next one would wait for the node of a rank.
func TestOneSpareAtATimeGoesBesideRanks(t *testing.T) {
	s := warm(2)
	s.Requests["worker"] = gpus(gpusPerNode / 2)
	gate := func(i int) {
		p := &s.Pods[i]
		p.Node, p.Phase, p.Process, p.Gated, p.Ready = "", corev1.PodPending, nil, true, false
	}
	gate(3)
	gate(4)
	s.decide()
	check.Equal(t, "lifted where other nodes have room", 2, len(s.plan().Lift))
	s.notReady("n03", "n04", "n05")
	s.decide()
	check.Equal(t, "lifted beside ranks", 1, len(s.plan().Lift))
	s.Pods[3].Gated = false
	s.decide()
	check.Equal(t, "lifted while one looks", 0, len(s.plan().Lift))
	s.bind(3, "n00")
	s.decide()
	check.Equal(t, "lifted then", 1, len(s.plan().Lift))
}

// forSpare is where a spare of the workers may go.
func (s *scene) forSpare() placement.Target {
	to, _ := incident.ViewOf(&s.Observation, s.status()).Rooms(s.status()).ForSpare("worker")
	return to
}

// full adds a pod of the job on each node that leaves no room there.
func (s *scene) full(nodes ...string) {
	for _, node := range nodes {
		s.Pods = append(s.Pods, gang.Pod{Name: "other", UID: "other-" + node, Task: "other", Attempt: 1, Node: node, Phase: corev1.PodRunning, Requests: gpus(gpusPerNode)})
	}
}

func (s *scene) notReady(nodes ...string) {
	for _, node := range nodes {
		s.node(node, func(n *gang.Node) { n.Ready = false })
	}
}

// A spare that waits beside a rank keeps no room for it: another job's pod may have come before the node was held.
func TestASpareBesideARankKeepsNoRoomForIt(t *testing.T) {
	s := warm(1)
	s.bind(3, "n01")
	s.reports(3, gang.ProcessWarmingUp)
	s.decide()
	s.crash(1, 1)
	s.decide()
	check.Equal(t, "node of the rank", "n01", s.nodes()[1])
	check.Equal(t, "late", true, placement.HoldOn(s.status().Holds, "n01").Late)
}

// Spares of the attempt that ends are none of the next one's.
func TestTheNextAttemptIsNotTakenOver(t *testing.T) {
	s := warm(1)
	s.VolcanoJobs = nil
	s.lose("n01")
	s.decide()
	check.Equal(t, "attempt", int32(2), s.status().Attempt)
	check.Equal(t, "ranks with the pods of other names", 0, len(gang.Moved(s.status())))
}

// A new leader hears the spares a moment after it has seen what is lost.
func TestASpareThatMayYetBeHeardKeepsItsNode(t *testing.T) {
	s := warm(1)
	s.ListensSince = s.Now
	for i := range s.Pods {
		s.Pods[i].Process = nil
	}
	s.lose("n01")
	s.decide()
	check.Equal(t, "deleted", []string{"2 by force"}, s.deleted())
	check.Equal(t, "nodes", []string{"n00", "n01", "n02"}, s.nodes())

	t.Run("it is heard", func(t *testing.T) {
		s := *s
		s.Pods = slices.Clone(s.Pods)
		s.Job = s.Job.DeepCopy()
		s.reports(3, gang.ProcessWaiting)
		s.decide()
		check.Equal(t, "pod of the rank", "llm-1-worker-spare-0", s.podOfRank(1))
	})
	t.Run("it is not heard in time", func(t *testing.T) {
		s.after(gang.HeardWithin).decide()
		check.Equal(t, "nodes", []string{"n00", "n03", "n02"}, s.nodes())
		check.Equal(t, "ranks with the pods of other names", 0, len(gang.Moved(s.status())))
	})
}
