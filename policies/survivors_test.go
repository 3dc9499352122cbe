// Survivors: programs that heal themselves, and requests for a restart of all.

package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// keepsSurvivors is a supervised job whose program heals itself.
func keepsSurvivors(rules ...v1alpha1.Rule) *scene {
	s := supervised(3, rules...)
	s.Job.Spec.Supervisor.Survivors = v1alpha1.SurvivorsKeep
	return s
}

func TestSurvivorsAreKept(t *testing.T) {
	s := keepsSurvivors()
	s.fails(1, 1)
	s.decide()
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "order", &Order{Epoch: 2, Start: true, Keep: true, Reason: "ProcessFailed"}, withoutHome(s.plan().Order))
	check.Equal(t, "ready", "2/3", s.status().Ready)
	s.Pods[0].Process.Epoch = 1
	s.Pods[2].Process = nil // nothing is known of it, and nothing is done about it
	s.after(time.Hour).decide()
	check.Equal(t, "incidents", 1, len(s.status().Incidents))
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives()) // the second step of its rule
	s = keepsSurvivors()
	s.fails(1, 1)
	s.decide()
	s.reports(1, gang.ProcessRunning)
	s.decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
}

// A step that gives up ranks without a node is not taken in the name of one that is back while another fails.
func TestAStepThatShrinksNamesTheRankThatFails(t *testing.T) {
	s := keepsSurvivors(rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartProcesses, 0), step(v1alpha1.ShrinkTask, 15)))
	s.fails(0, 1)
	s.decide()
	for range 15 {
		s.all(gang.ProcessRunning)
		s.fails(2, 1)
		s.after(time.Second).decide()
	}
	check.Equal(t, "steps", []string{"RestartProcesses@0", "RestartProcesses@10", "ShrinkTask@15"}, s.fired(t))
	check.Equal(t, "named", "llm-1-worker-2", s.incident(t).Pods[0].Name)
}

func TestSurvivorsAreKeptWhenAPodIsReplaced(t *testing.T) {
	s := keepsSurvivors(rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
	s.breakNode("n01")
	s.decide()
	check.Equal(t, "lives", []int32{0, 1, 0}, s.lives())
	check.Equal(t, "epoch", int64(1), s.status().Epoch)
	check.Equal(t, "ready", "2/3", s.status().Ready)
	check.Equal(t, "order", true, s.plan().Order.Start)
}

func TestARequestForProcesses(t *testing.T) {
	s := supervised(3)
	s.request("RestartProcesses")
	s.decide()
	check.Equal(t, "steps", []string{"RestartProcesses@0"}, s.fired(t))
	check.Equal(t, "epoch", int64(2), s.status().Epoch)
	check.Equal(t, "lives", []int32{0, 0, 0}, s.lives())
	check.Equal(t, "order", &Order{Epoch: 2, Reason: "RestartRequested"}, withoutHome(s.plan().Order))
	s.all(gang.ProcessWaiting)
	s.after(time.Second).decide()
	check.Equal(t, "outcome at the barrier", v1alpha1.Outcome(""), s.incident(t).Outcome)
	s.all(gang.ProcessRunning)
	s.after(time.Second).decide()
	check.Equal(t, "outcome", v1alpha1.OutcomeRecovered, s.incident(t).Outcome)
	check.Equal(t, "restarts", v1alpha1.Restarts{Total: 1, Process: 1, Uncharged: 1}, s.status().Restarts)
}

func TestARequestForProcessesIsRefused(t *testing.T) {
	unheard := supervised(3)
	for i := range unheard.Pods {
		unheard.Pods[i].Process = nil
	}
	for want, s := range map[string]*scene{
		"no spec.supervisor":        running(3),
		"survivors is Keep":         keepsSurvivors(),
		"no supervisor of the job ": unheard,
	} {
		s.request("RestartProcesses")
		s.decide()
		if got := s.status().RestartRequest; got.Incident != 0 || !strings.Contains(got.Message, want) {
			t.Errorf("%s: %+v", want, got)
		}
		if s.status().Epoch > 1 {
			t.Errorf("%s: the epoch is raised to %d", want, s.status().Epoch)
		}
	}
}
