// The ways in which a gang hangs, and what is said of each.

package real

import (
	"fmt"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/fakeras"
)

// hang is a way in which a gang makes no steps any more.
type hang struct {
	name string
	// choose returns the ranks that are struck, and strike has them hang. Lift ends that, so that the gang can train again.
	choose func(*stalledGang) []int
	strike func(*stalledGang, []int)
	lift   func(*stalledGang)
	// narrow returns those that hang in the end, where it depends on when the fault strikes; nil where all of them do.
	narrow func(*stalledGang, []int) []int
	// said is the end of what the job says; nil for a hang beside another one, which has been said.
	said func(*stalledGang, []int) string
	// reason and class are the incident's; none for a hang that is left alone.
	reason string
	class  v1alpha1.FailureClass
	// kept is what the log of a rank has of before the restart, if it is one that hangs and if it is not.
	kept func(g *stalledGang, rank int, hangs bool) string
}

// inScript is what the stack of a rank names that waits for the others.
const inScript = "/train.py"

var hangKinds = []hang{{
	name:   "computes",
	choose: (*stalledGang).oneRank,
	strike: func(g *stalledGang, ranks []int) {
		g.spinning = ranks[0]
		g.signal(g.spinning, syscall.SIGUSR1)
	},
	said: func(g *stalledGang, ranks []int) string {
		return g.named(ranks) + ": the only rank that is not seen to wait"
	},
}, {
	name:   "computes, and NCCL is asked",
	choose: func(g *stalledGang) []int { return []int{g.spinning} },
	strike: (*stalledGang).askNCCL,
	lift: func(g *stalledGang) {
		g.mesh.Close()
		g.mesh = nil
	},
	reason: "Behind", class: v1alpha1.ClassMaintenance,
	kept: func(g *stalledGang, rank int, hangs bool) string {
		switch {
		case hangs:
			return " in spin\n"
		case rank == 0:
			return fmt.Sprintf(" launched by %d ranks; ", g.Ranks-1)
		}
		return inScript
	},
}, {
	name:   "stopped",
	choose: (*stalledGang).oneRank,
	strike: func(g *stalledGang, ranks []int) { g.signal(ranks[0], syscall.SIGSTOP) },
	lift:   func(*stalledGang) {},
	said: func(g *stalledGang, ranks []int) string {
		return g.named(ranks) + ": stopped, by a signal or a debugger"
	},
	reason: "Stopped", class: v1alpha1.ClassMaintenance,
	kept: func(_ *stalledGang, _ int, hangs bool) string {
		if hangs {
			return ": stopped; its threads wait in "
		}
		return inScript
	},
}, {
	name:   "waits for a disk",
	choose: (*stalledGang).oneRankOrAll,
	strike: func(g *stalledGang, ranks []int) {
		g.writtenBy(ranks)
		g.disk.freeze()
	},
	lift:   func(g *stalledGang) { g.disk.thaw() },
	narrow: (*stalledGang).blocked,
	said: func(g *stalledGang, ranks []int) string {
		const story = ": in the kernel, as for a file system or a device that does not answer"
		if len(ranks) == g.Ranks {
			return "every rank" + story
		}
		return g.named(ranks) + story
	},
	reason: "Blocked", class: v1alpha1.ClassInfrastructure,
	kept: func(_ *stalledGang, _ int, hangs bool) string {
		if hangs {
			return "it does not answer" // another thread of it may run for a moment, and its state be that
		}
		return inScript
	},
}, {
	name:   "no packet between ranks",
	choose: (*stalledGang).allRanks,
	strike: func(g *stalledGang, _ []int) { g.must(ground.SeparatePods(g.ctx, ground.Nodes.NodeNames()...)) },
	lift:   func(g *stalledGang) { g.must(ground.JoinPods(g.ctx, ground.Nodes.NodeNames()...)) },
	said:   func(*stalledGang, []int) string { return "the processes of all ranks do the same" },
	reason: "Idle", class: v1alpha1.ClassMaintenance,
	kept: func(*stalledGang, int, bool) string { return inScript },
}}

// askNCCL has a stand-in for NCCL's RAS service answer from now on, by what the ranks themselves say that they have launched, and waits until the job names those that the
// others wait for.
func (g *stalledGang) askNCCL(ranks []int) {
	g.t.Helper()
	g.mesh = fakeras.New()
	g.mesh.ServeAt(g.t, g.service)
	told := "; " + g.named(ranks) + ": behind in a collective, by NCCL RAS"
	g.must(g.AwaitJob(g.ctx, "the job says"+told, func(job *v1alpha1.TrainingJob) bool {
		return strings.HasSuffix(meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionStalled).Message, told)
	}))
}

func (g *stalledGang) oneRank() []int { return []int{g.chance.IntN(g.Ranks)} }

func (g *stalledGang) oneRankOrAll() []int {
	if g.chance.IntN(2) == 0 {
		return g.oneRank()
	}
	return g.allRanks()
}

func (g *stalledGang) allRanks() []int {
	all := make([]int, g.Ranks)
	for rank := range all {
		all[rank] = rank
	}
	return all
}

// signal sends the program of a rank a signal.
func (s *scenario) signal(rank int, signal syscall.Signal) {
	s.t.Helper()
	pids, err := ground.Programs(s.ctx, s.key(rank))
	s.must(err)
	for _, pid := range pids {
		s.must(syscall.Kill(pid, signal))
	}
}

// named names ranks as messages do: four of them at most.
func (g *stalledGang) named(ranks []int) string {
	names, more := g.names(ranks), ""
	if n := len(names) - 4; n > 0 {
		names, more = names[:4], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ") + more
}

// names are the pods of ranks.
func (g *stalledGang) names(ranks []int) (names []string) {
	for _, rank := range ranks {
		names = append(names, g.before[rank].Name)
	}
	return names
}
