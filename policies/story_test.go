// Stories: what people read of an incident.

package policies

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestStory(t *testing.T) {
	code := int32(137)
	tests := map[string]struct {
		inc  v1alpha1.Incident
		want string
	}{
		"the least": {v1alpha1.Incident{ID: 1, Trigger: v1alpha1.JobResumed}, "incident 1, JobResumed"},
		"the most": {v1alpha1.Incident{
			ID: 2, Trigger: v1alpha1.PodFailed, PodCount: 3,
			Cause: v1alpha1.Cause{Pod: "p", Node: "n", Container: "train", ExitCode: &code, Reason: "OOMKilled", Signal: "XID"},
			Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod}, {Action: v1alpha1.RestartJob}},
		}, "incident 2, PodFailed by XID of pod p on node n, container train exited with 137 (OOMKilled), 3 pods in all: RestartJob"},
		"of one pod":  {v1alpha1.Incident{ID: 3, Trigger: v1alpha1.NodeGone, PodCount: 1, Cause: v1alpha1.Cause{Node: "n"}}, "incident 3, NodeGone on node n"},
		"a dry run":   {v1alpha1.Incident{ID: 4, Trigger: v1alpha1.PodFailed, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.MigratePod, DryRun: true}}}, "incident 4, PodFailed: MigratePod would be taken, but this is a dry run"},
		"a migration": {v1alpha1.Incident{ID: 5, Trigger: v1alpha1.HealthDegraded, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.MigratePod}}}, "incident 5, HealthDegraded: MigratePod, without a checkpoint"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { check.Equal(t, "story", tc.want, incident.Story(&tc.inc)) })
	}
}

func TestWhatARecoveryWaitsFor(t *testing.T) {
	begun := "incident 1, PodFailed of pod llm-1-worker-1 on node n01, container train exited with 1 (Error)"
	tests := map[string]struct {
		story func(*scene)
		want  string
	}{
		"nothing, while its pod goes":   {func(*scene) {}, begun + ": RestartPod"},
		"nothing, while its pod starts": {func(s *scene) { s.replace(1); s.bind(1, "n01"); s.unready(1) }, begun + ": RestartPod"},
		"nothing, while its pod is looked at": {func(s *scene) {
			s.replace(1)
			s.search(1)
			s.after(placement.NoRoomToldAfter)
			s.Pods[1].Unschedulable = false
		}, begun + ": RestartPod"},
		"a healthy node": {func(s *scene) { s.replace(1); s.fill() }, begun + ": RestartPod, waits for a healthy node in HyperNode rack-a"},
		"nothing, in the scheduler's first rounds": {func(s *scene) { s.replace(1); s.search(1); s.after(placement.NoRoomToldAfter - 1) }, begun + ": RestartPod"},
		"room": {func(s *scene) { s.replace(1); s.search(1); s.after(placement.NoRoomToldAfter) }, begun + ": RestartPod, waits for room in HyperNode rack-a"},
		"room, without a home": {func(s *scene) {
			s.replace(1)
			s.search(1)
			s.after(placement.NoRoomToldAfter)
			s.status().Placement.HyperNode, s.Topology = "", topology.New(nil)
		}, begun + ": RestartPod, waits for room"},
		"nothing of an earlier incarnation": {func(s *scene) {
			s.replace(1)
			s.search(1)
			s.after(placement.NoRoomToldAfter)
			gang.RestartRank(s.status(), gang.Rank{Task: "worker", Index: 1}, v1alpha1.RestartByStep)
		}, begun + ": RestartPod"},
		"two incidents": {func(s *scene) { s.replace(1); s.search(1); s.after(2 * time.Minute).lose("n02") },
			begun + ": RestartPod, waits for room in HyperNode rack-a; incident 2, NodeGone of pod llm-1-worker-2 on node n02: RestartPod"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := running(3, rule("r", step(v1alpha1.RestartPod, 0)))
			s.Job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{rule("r", on(v1alpha1.PodFailed, v1alpha1.PodNotReady, v1alpha1.NodeGone), step(v1alpha1.RestartPod, 0))}
			s.crash(1, 1)
			s.decide()
			tc.story(s)
			s.decide()
			check.Equal(t, "message", tc.want, meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message)
		})
	}
}

// An incident that rests waits for room, whatever the backoff says.
func TestAnIncidentThatRestsTellsOfNoBackoff(t *testing.T) {
	s := searching(noRoom, others)
	s.after(30 * time.Second).decide()
	s.Job.Spec.RestartPolicy.Backoff = policy(backoff(600, 600)).Backoff
	first := &s.status().Incidents[0]
	s.status().Restarts.ChargedTimes, first.Steps, first.Charged = []metav1.Time{metav1.NewTime(s.Now)}, nil, false
	s.replace(1)
	s.fill()
	s.decide()
	message := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message
	if strings.Contains(message, "backs off") || !strings.Contains(message, "waits for a healthy node") {
		t.Errorf("message %q", message)
	}
}

// What was told in the end of an incident stays with it.
func TestAnIncidentThatIsOverKeepsItsStory(t *testing.T) {
	s := running(3, rule("r", step(v1alpha1.RestartPod, 0)))
	s.crash(1, 1)
	s.decide()
	want := s.incident(t).Message
	s.back(1, "n01")
	check.Equal(t, "message", want, s.incident(t).Message)
	check.Equal(t, "recovering", "no incident is open", meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message)
	check.Equal(t, "placed", s.Pods[1].PlacedTime.Truncate(time.Microsecond).String(), s.incident(t).PlacedTime.String())
}

func TestAJobThatIsResumedTellsIt(t *testing.T) {
	s := running(3)
	s.Job.Spec.Suspend = true
	s.decide()
	s.VolcanoJobs, s.Pods = nil, nil
	s.Job.Spec.Suspend = false
	check.Equal(t, "changes", sorted([]string{
		"attempt: 2",
		"availability.interruption.cause: JobResumed", "availability.interruption.startTime: 1m0s",
		"availability.suspendedMilliseconds: 60000",
		"incidents[1].class: Maintenance",
		"incidents[1].id: 1",
		"incidents[1].rule: everything-else",
		"incidents[1].startTime: 1m0s",
		"incidents[1].steps[0]: action RestartJob, index 0, time 1m0s",
		"incidents[1].trigger: JobResumed",
		"ready: 0/3",
		"startTime: 1m0s",
		"state: Recovering",
		"tasks[worker].incarnation: 1",
		"tasks[worker].ready is gone",
	}), s.after(time.Minute).changes())
	check.Equal(t, "plan", Plan{Create: true}, s.plan())

	// It goes on with the last rule's ladder where it cannot be placed.
	s.started()
	s.after(420 * time.Second).decide()
	check.Equal(t, "fired", []string{"RestartJob@0", "RestartTask@420"}, s.fired(t))
}

func TestTheCauseIsTheFirstContainerThatFailed(t *testing.T) {
	s := running(2)
	s.crash(1, 137)
	s.Pods[1].Failure.Containers[0].Reason = "OOMKilled"
	s.Pods[1].Failure.Containers[0].Message = strings.Repeat("x", 600) + "the end"
	s.decide()
	c := s.incident(t).Cause
	check.Equal(t, "container", "train", c.Container)
	check.Equal(t, "exit code", int32(137), *c.ExitCode)
	check.Equal(t, "reason", "OOMKilled", c.Reason)
	check.Equal(t, "node", "n01", c.Node)
	if len(c.Message) != 512 || !strings.HasSuffix(c.Message, "the end") {
		t.Errorf("message of %d bytes: %s", len(c.Message), c.Message)
	}
}

func TestAMessageIsCutBetweenLetters(t *testing.T) {
	c := incident.CauseOf(rules.Failure{Details: gang.Failure{Message: strings.Repeat("é", 300) + "x"}})
	if !utf8.ValidString(c.Message) {
		t.Errorf("%q", c.Message[:8])
	}
}
