// What recoveries cost the API server, in writes of the manager, against test/bench/limits.yaml.

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/operator"
)

type writeLimit struct {
	Figure        string
	Against       string
	FromPods      int
	Writes, Holds *struct{ PerPod, More int }
}

func TestRecoveriesKeepTheirLimitsOfWrites(t *testing.T) {
	for action, change := range map[v1alpha1.Action]func(*v1alpha1.TrainingJob){
		v1alpha1.RestartPod: func(*v1alpha1.TrainingJob) {}, v1alpha1.RestartJob: restartsTheJob,
	} {
		for _, pods := range []int32{4, 16} {
			t.Run(fmt.Sprintf("%s of %d pods", action, pods), func(t *testing.T) {
				s := newScenario(t, strings.ToLower(fmt.Sprintf("writes-%s-%d", action, pods)), 1, int(pods))
				s.keepManager()
				s.run(s.trainingJob(pods, change))
				began := time.Now()
				s.must(testCluster.FailPod(s.ctx, keyOf(s.pod(1)), 1), "fail a pod")
				s.recovered(1)
				s.await("no node is held", func() bool { return len(s.held()) == 0 })
				byKind := s.writesSince(began)
				writes, holds := counted(byKind, s.job.Status.Incidents[0])
				l := writeLimits(t, string(action), int(pods))
				if most := l.Writes.PerPod*int(pods) + l.Writes.More; writes > most {
					t.Errorf("%d writes, at most %d: %v", writes, most, byKind)
				}
				if most := l.Holds.PerPod*int(pods) + l.Holds.More; holds > most {
					t.Errorf("%d writes for the hold, at most %d: %v", holds, most, byKind)
				}
				if least := 2; writes < least {
					t.Errorf("the audit log has %d writes of a recovery", writes)
				}
			})
		}
	}
}

// counted returns the writes of a recovery, and those for its hold, without what a slow machine adds. The place in the queue counts
// once: each round of the scheduler that had begun before undoes it. The status does not count where the scheduler took so long that
// users were told what a pod waits for.
func counted(byKind map[string]int, inc v1alpha1.Incident) (writes, holds int) {
	told := inc.BoundTime == nil || inc.BoundTime.Sub(inc.StartTime.Time) >= placement.NoRoomToldAfter
	for kind, n := range byKind {
		switch _, resource, _ := strings.Cut(kind, " "); resource {
		case "nodes":
			holds += n
		case "podgroups":
			holds += min(n, 1)
		case "trainingjobs":
			if !told {
				writes += n
			}
		default:
			writes += n
		}
	}
	return writes, holds
}

func writeLimits(t *testing.T, action string, pods int) (found writeLimit) {
	t.Helper()
	raw, err := os.ReadFile("../bench/limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []writeLimit
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Figure == action && l.Against == "" && pods >= l.FromPods {
			found = l
		}
	}
	if found.Writes == nil || found.Holds == nil {
		t.Fatalf("limits.yaml has no counts of %s", action)
	}
	return found
}

// writesSince counts what the manager has asked for since then of the pool and its job, and was not refused.
func (s *scenario) writesSince(began time.Time) map[string]int {
	s.t.Helper()
	file, err := os.Open(auditLog.Path)
	s.must(err, "open the audit log")
	defer file.Close()
	out := map[string]int{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out // the end, or a line that is being written
		}
		e := audit.Event{}
		s.must(json.Unmarshal(line, &e), "read the audit log")
		ref := e.ObjectRef
		if e.User.Username != operator.User || e.Stage != audit.StageResponseComplete || ref == nil || ref.Resource == "events" ||
			e.RequestReceivedTimestamp.Time.Before(began) || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 || !strings.HasPrefix(ref.Name, s.pool.Name+"-") && ref.Name != s.pool.Name {
			continue
		}
		switch e.Verb {
		case "get", "list", "watch":
		default:
			out[e.Verb+" "+ref.Resource]++
		}
	}
}
