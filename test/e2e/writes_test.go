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

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
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
				writes, holds, counts := counted(byKind, s.job.Status.Incidents[0])
				l := writeLimits(t, string(action), int(pods))
				// The status has each number of ready pods once while the pods end and once while they start, if the manager looks just then.
				if most := 2 * int(pods); action == v1alpha1.RestartJob && counts > most {
					t.Errorf("%d writes of nothing but how many pods are ready, at most %d: %v", counts, most, byKind)
				} else if action == v1alpha1.RestartPod {
					writes += counts
				}
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

// counted returns the writes of a recovery, those for its hold, and those that change only how many pods are ready, without
// what a slow machine adds. The place in the queue counts once: each round of the scheduler that had begun before undoes it. The status
// does not count where the scheduler took so long that users were told what a pod waits for: of the binding only the whole second is
// known, and so that is what it is measured from.
func counted(byKind map[string]int, inc v1alpha1.Incident) (writes, holds, counts int) {
	told := inc.BoundTime == nil || inc.BoundTime.Sub(inc.StartTime.Truncate(time.Second)) >= placement.NoRoomToldAfter
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
		case readyCounts:
			if !told {
				counts += n
			}
		default:
			writes += n
		}
	}
	return writes, holds, counts
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

// readyCounts is in place of the resource where a status differs from the one before only in how many pods are ready. How many such
// writes there are depends on how many pods become ready between two looks of the manager.
const readyCounts = "counts"

// withoutReady is a status without how many pods are ready. Whether these are enough is a part of it.
func withoutReady(status v1alpha1.TrainingJobStatus) *v1alpha1.TrainingJobStatus {
	s := status.DeepCopy()
	s.Ready = ""
	for i := range s.Tasks {
		s.Tasks[i].Ready = 0
	}
	if running := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRunning); running != nil {
		running.Message = ""
	}
	return s
}

// writesSince counts what the manager has asked for since then of the pool and its job, and was not refused.
func (s *scenario) writesSince(began time.Time) map[string]int {
	s.t.Helper()
	file, err := os.Open(auditLog.Path)
	s.must(err, "open the audit log")
	defer file.Close()
	out, last := map[string]int{}, map[string]v1alpha1.TrainingJobStatus{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out // the end, or a line that is being written
		}
		e := audit.Event{}
		s.must(json.Unmarshal(line, &e), "read the audit log")
		if !s.isWrite(&e) {
			continue
		}
		resource, name := e.ObjectRef.Resource, e.ObjectRef.Name
		if resource == "trainingjobs" && e.ObjectRef.Subresource == "status" {
			job := v1alpha1.TrainingJob{}
			s.must(json.Unmarshal(e.ResponseObject.Raw, &job), "read a status in the audit log")
			before, now := last[name], job.Status
			if before.Ready != now.Ready && equality.Semantic.DeepEqual(withoutReady(before), withoutReady(now)) {
				resource = readyCounts
			}
			last[name] = now
		}
		if !e.RequestReceivedTimestamp.Time.Before(began) {
			out[e.Verb+" "+resource]++
		}
	}
}

// isWrite reports whether a request is the manager's, changes something of the pool or its job, and was not refused.
func (s *scenario) isWrite(e *audit.Event) bool {
	ref := e.ObjectRef
	return e.User.Username == operator.User && e.Stage == audit.StageResponseComplete && ref != nil && ref.Resource != "events" &&
		e.ResponseStatus != nil && e.ResponseStatus.Code < 300 && (ref.Name == s.pool.Name || strings.HasPrefix(ref.Name, s.pool.Name+"-")) &&
		e.Verb != "get" && e.Verb != "list" && e.Verb != "watch"
}
