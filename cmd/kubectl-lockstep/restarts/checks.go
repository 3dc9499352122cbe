// Checks: what a request would not do, or would do in vain.

package restarts

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// CheckPartitions returns an error where the task of a rank has no partitions.
func CheckPartitions(job *v1alpha1.TrainingJob, ranks []gang.Rank) error {
	for _, r := range ranks {
		i := slices.IndexFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == r.Task })
		if i >= 0 && job.Spec.Tasks[i].Partition == nil {
			return fmt.Errorf("--partition: task %s has no partitions: leave --partition out, or use --task", r.Task)
		}
	}
	return nil
}

// CheckProcesses returns an error where the programs of a job cannot start again in their pods.
func CheckProcesses(job *v1alpha1.TrainingJob) error {
	switch {
	case job.Spec.Supervisor == nil:
		return fmt.Errorf("--processes: TrainingJob %s has no spec.supervisor, which starts programs again in their pods: leave --processes out, and all pods are replaced", job.Name)
	case job.Spec.Supervisor.Survivors == v1alpha1.SurvivorsKeep:
		return fmt.Errorf("--processes: spec.supervisor.survivors of TrainingJob %s is Keep, so that no program is stopped that runs: name the rank that is to be restarted, or leave --processes out", job.Name)
	}
	return nil
}

// CheckWaiting returns an error where an action would restart ranks that are well while another one waits for a node.
func CheckWaiting(job *v1alpha1.TrainingJob, action v1alpha1.RequestedAction, now time.Time) error {
	if action == v1alpha1.RequestedAction(v1alpha1.RestartPod) {
		return nil
	}
	for i := range job.Status.Incidents {
		inc := &job.Status.Incidents[i]
		if inc.Outcome != "" {
			continue
		}
		if phases := incident.PhasesAt(inc, now); len(phases) > 0 && phases[len(phases)-1].Phase == incident.WaitForRoom {
			return fmt.Errorf("incident %d waits for a node, and until it has one the gang cannot train: %s would only restart ranks that are well. --force does it all the same; `kubectl lockstep why %s` says what is missing",
				inc.ID, action, job.Name)
		}
	}
	return nil
}

// WithoutCheckpoint says why an incident went on without a checkpoint that it asked for; empty where it did not.
func WithoutCheckpoint(inc *v1alpha1.Incident) string {
	c := inc.Checkpoint
	if c == nil || c.Outcome == v1alpha1.CheckpointSaved {
		return ""
	}
	text := fmt.Sprintf(", without a checkpoint (%s)", c.Outcome)
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}
