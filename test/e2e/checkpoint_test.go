// A program is asked for a checkpoint before its pod is moved, and is given its time. KWOK's
// pods run nothing: those on the host's network have the node's address, which is this machine's,
// and the program of all of them is a server here.

package e2e

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// request is what a program is sent, as docs/researchers.md documents it.
type request struct {
	ID, Namespace, Job, Pod, Reason, Signal, Deadline string
	Incident                                          int32
	Moves                                             []string
}

// program is what runs in all pods of a job.
type program struct {
	port  int32
	asked chan request
}

// program answers as it is told, which hears when nobody waits for the answer any more. One
// that returns 0 sleeps until then.
func (s *scenario) program(answer func(request, <-chan struct{}) int) *program {
	p := &program{asked: make(chan request, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return // the manager was killed
		}
		var body request
		if err := json.Unmarshal(content, &body); err != nil || r.Method != http.MethodPost || r.URL.Path != "/checkpoint" {
			s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		p.asked <- body
		if code := answer(body, r.Context().Done()); code != 0 {
			w.WriteHeader(code)
			return
		}
		<-r.Context().Done()
	}))
	s.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.port = int32(server.Listener.Addr().(*net.TCPAddr).Port)
	return p
}

// when answers once it may, if somebody still waits.
func when(saved, gone <-chan struct{}) int {
	select {
	case <-saved:
		return http.StatusOK
	case <-gone:
		return 0
	}
}

// savingJob is the sample, with that program, and a move that is due at once.
func (s *scenario) savingJob(p *program, timeoutSeconds int32) *v1alpha1.TrainingJob {
	s.t.Helper()
	raw, err := os.ReadFile("../../config/samples/checkpoint.yaml")
	s.must(err, "read the sample")
	job := &v1alpha1.TrainingJob{}
	s.must(yaml.UnmarshalStrict(raw, job), "parse the sample")
	job.Namespace, job.Name = namespace, s.pool.Name
	job.Spec.Checkpoint.Request.HTTPPost.Port = p.port
	job.Spec.Checkpoint.Request.TimeoutSeconds = timeoutSeconds
	job.Spec.RestartPolicy.Rules[0].Steps[0].AfterSeconds = 1
	pod := &job.Spec.Tasks[0].Template.Spec
	pod.NodeSelector, pod.HostNetwork, pod.TerminationGracePeriodSeconds = s.pool.NodeSelector(), true, ptr.To[int64](0)
	pod.Containers[0].Ports = nil
	return job
}

// degrade has a link of a pod go bad.
func (s *scenario) degrade(pod corev1.Pod) {
	s.t.Helper()
	s.reported(pod.Spec.NodeName, v1alpha1.NodeHealthStatus{Reports: []v1alpha1.HealthReport{fault(v1alpha1.HealthStateDegraded, podOf(pod))}})
}

// requests are those of n pods, which are asked again where other tests restart the manager.
func (s *scenario) requests(p *program, n int) []request {
	s.t.Helper()
	byPod := map[string]request{}
	for len(byPod) < n {
		select {
		case r := <-p.asked:
			byPod[r.Pod] = r
		case <-time.After(awaitTimeout):
			s.t.Fatalf("%d of %d pods were asked: %s", len(byPod), n, s.dump())
		}
	}
	return slices.SortedFunc(maps.Values(byPod), func(a, b request) int { return strings.Compare(a.Pod, b.Pod) })
}

// checkpointIs waits until the incident is over, and checks how its checkpoint ended.
func (s *scenario) checkpointIs(outcome v1alpha1.CheckpointOutcome) v1alpha1.IncidentCheckpoint {
	s.t.Helper()
	s.recovered(1)
	inc := s.job.Status.Incidents[0]
	if inc.Checkpoint == nil || inc.Checkpoint.Outcome != outcome || !slices.Equal(s.steps(), []v1alpha1.Action{v1alpha1.MigratePod}) {
		s.t.Fatalf("checkpoint %+v, steps %v: want %s and a move", inc.Checkpoint, s.steps(), outcome)
	}
	return *inc.Checkpoint
}

func TestCheckpointIsSavedBeforeThePodMoves(t *testing.T) {
	s := newScenario(t, "ckptsaved", 2, 6)
	last := make(chan struct{})
	p := s.program(func(r request, gone <-chan struct{}) int {
		if strings.HasSuffix(r.Pod, "-3") {
			return when(last, gone)
		}
		return http.StatusOK
	})
	s.run(s.savingJob(p, 600))
	before, victim := s.pods(), s.pod(1)
	home := s.rackOf(victim.Spec.NodeName)

	s.degrade(victim)
	for i, r := range s.requests(p, 4) {
		s.await("the request is recorded", func() bool { return s.job.Status.Incidents[0].Checkpoint != nil })
		inc := s.job.Status.Incidents[0]
		want := request{
			ID: r.ID, Namespace: namespace, Job: s.job.Name, Pod: s.pod(i).Name, Incident: inc.ID, Reason: "HealthDegraded", Signal: "NVLinkDown",
			Moves: []string{victim.Name}, Deadline: inc.Checkpoint.Deadline.UTC().Format(time.RFC3339),
		}
		if diff := cmp.Diff(want, r); diff != "" || !strings.HasPrefix(r.ID, string(s.job.UID)) {
			t.Errorf("request %s (-want +got):\n%s", r.ID, diff)
		}
	}
	s.settled()
	s.untouched(before) // one has not answered
	close(last)

	if c := s.checkpointIs(v1alpha1.CheckpointSaved); c.Answered != 4 || c.Pods != 4 {
		t.Errorf("checkpoint %+v", c)
	}
	s.untouched(before, victim.Name)
	s.atHome(home)
	if s.pod(1).Spec.NodeName == victim.Spec.NodeName {
		t.Error("the pod is back on the node that it was migrated from")
	}
}

func TestProgramThatNeverSavesIsMovedWhenItsTimeIsOver(t *testing.T) {
	s := newScenario(t, "ckptslow", 1, 6)
	p := s.program(func(request, <-chan struct{}) int { return 0 })
	s.run(s.savingJob(p, 4))
	before, victim := s.pods(), s.pod(1)
	s.degrade(victim)
	c := s.checkpointIs(v1alpha1.CheckpointTimedOut)
	if waited := c.EndTime.Sub(c.RequestTime.Time); waited < 4*time.Second || c.Answered != 0 {
		t.Errorf("waited %s, checkpoint %+v", waited, c)
	}
	s.untouched(before, victim.Name)
}

func TestProgramThatCannotSaveIsMovedAtOnce(t *testing.T) {
	s := newScenario(t, "ckptrefused", 1, 6)
	p := s.program(func(r request, _ <-chan struct{}) int {
		if strings.HasSuffix(r.Pod, "-2") {
			return http.StatusInsufficientStorage
		}
		return 0
	})
	s.run(s.savingJob(p, 600))
	before, victim := s.pods(), s.pod(1)
	s.degrade(victim)
	if c := s.checkpointIs(v1alpha1.CheckpointRefused); !strings.Contains(c.Message, "answered 507 Insufficient Storage") {
		t.Errorf("message %q", c.Message)
	}
	s.untouched(before, victim.Name)
}

// A new process of the manager finds the request in the job's status, and sends it again.
func TestCheckpointOutlivesTheManager(t *testing.T) {
	s := newScenario(t, "ckptcrash", 1, 6)
	saved := make(chan struct{})
	p := s.program(func(_ request, gone <-chan struct{}) int { return when(saved, gone) })
	s.run(s.savingJob(p, 600))
	before, victim := s.pods(), s.pod(1)
	s.degrade(victim)
	first := s.requests(p, 4)
	s.withoutManager(func() {})
	again := s.requests(p, 4)
	if !slices.EqualFunc(first, again, func(a, b request) bool { return a.ID == b.ID && a.Pod == b.Pod }) {
		t.Errorf("asked %+v, and again %+v", first, again)
	}
	s.untouched(before)
	close(saved)
	s.checkpointIs(v1alpha1.CheckpointSaved)
	s.untouched(before, victim.Name)
}
