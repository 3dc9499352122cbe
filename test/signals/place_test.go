package signals

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// contained is all that a GPU tells of one contained memory error.
func (n *node) contained() {
	n.engine.XID(0, 63, time.Now())
	n.engine.XID(0, 94, time.Now())
	n.engine.SetField(dcgmsim.GPU, 0, 311, 1001)
	n.engine.SetField(dcgmsim.GPU, 0, 393, 1001)
	n.engine.SetField(dcgmsim.GPU, 0, 396, 1)
}

// hears plays agent and job for a while.
func (n *node) hears(j *job, polls int) {
	for range polls {
		n.poll()
		j.hear(n.now, n.reports())
	}
}

// The driver ends the program that met a contained memory error. It is back in its own container, or
// in a new pod on its own node, and nothing else is done about it, or to another pod.
func TestAContainedErrorRestartsInPlace(t *testing.T) {
	t.Run("by the kubelet", func(t *testing.T) {
		n := aNode(t, health.Default())
		n.polls(3)
		j := aJob(n.now)
		n.contained()
		j.Pods[1].Ready = false
		n.hears(j, 3)
		j.Pods[1].Ready = true
		n.hears(j, 60)
		inc, _ := j.incident()
		check.Equal(t, "trigger", "PodNotReady", string(inc.Trigger))
		check.Equal(t, "outcome", "Recovered", string(inc.Outcome))
		check.Equal(t, "steps", 0, len(inc.Steps))
		check.Equal(t, "incidents", 1, len(j.Job.Status.Incidents))
	})
	t.Run("by a new pod, where the template says Never", func(t *testing.T) {
		n := aNode(t, health.Default())
		n.polls(3)
		j := aJob(n.now)
		n.contained()
		j.Pods[1].Phase, j.Pods[1].Ready = corev1.PodFailed, false
		j.Pods[1].Failure = gang.Failure{Containers: []gang.ContainerFailure{{Name: "train", ExitCode: 1}}}
		n.hears(j, 1)
		check.Equal(t, "action", "`RestartPod` at once", j.action())
		check.Equal(t, "moved", concerned, strings.Join(j.moved(), " "))
		j.Pods[1] = j.gated(1)
		n.hears(j, 1)
		lift := policies.PlanFor(&j.Observation, &j.Job.Status).Lift
		if len(lift) != 1 || !slices.Equal(lift[0].Target.In, []string{"n1"}) {
			t.Fatalf("gates lifted: %+v, want one, to n1", lift)
		}
		j.bind(1, "n1")
		n.hears(j, 60)
		inc, _ := j.incident()
		check.Equal(t, "outcome", "Recovered", string(inc.Outcome))
		check.Equal(t, "steps", 1, len(inc.Steps))
		check.Equal(t, "incidents", 1, len(j.Job.Status.Incidents))
	})
}
