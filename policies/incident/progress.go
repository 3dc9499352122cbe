// Progress: restarts of a program that leave no newer checkpoint.

package incident

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// defaultMaxRestarts is how many restarts in a row may leave no newer checkpoint, as the API's comment has it.
const defaultMaxRestarts = 3

// progressAfter is how long a gang has to be ready to count as having made progress, where nothing tells of its checkpoints.
const progressAfter = 5 * time.Minute

// HasProgressed reports whether the job has made progress since it last began to run and since the last charged restart, as far as is known.
// The gang may run all the while that a rank which it does not need fails again and again.
func (v *View) HasProgressed() bool {
	if found := v.progress(); v.tracksProgress() && found != progressUnknown {
		return found == someProgress
	}
	running := meta.FindStatusCondition(v.Job.Status.Conditions, v1alpha1.ConditionRunning)
	return running != nil && running.Status == metav1.ConditionTrue && v.Now.Sub(running.LastTransitionTime.Time) >= progressAfter &&
		v.Now.Sub(lastCharge(&v.Job.Status)) >= progressAfter
}

// lastCharge is when a restart was last charged to any budget; zero for never.
func lastCharge(s *v1alpha1.TrainingJobStatus) time.Time {
	all := slices.Clone(s.Restarts.ChargedTimes)
	for i := range s.Tasks {
		all = append(all, s.Tasks[i].ChargedTimes...)
	}
	var last time.Time
	for _, t := range all {
		last = instant.Latest(last, t.Time)
	}
	return last
}

// progress is whether the programs of a gang have saved a checkpoint in its present epoch.
type progress int

const (
	// progressUnknown means that no program is known to have, and some supervisor is not heard.
	progressUnknown progress = iota
	noProgress
	someProgress
)

// progress tells what the supervisors say of the present epoch.
func (v *View) progress() progress {
	found := noProgress
	gang.EachRank(v.Effective, func(r gang.Rank) {
		p := v.Pod(r)
		switch {
		case !v.IsSupervised(r.Task) || p == nil || found == someProgress:
		case p.Process == nil:
			found = progressUnknown
		case p.Process.Progressed && p.Process.Epoch == v.Job.Status.Epoch:
			found = someProgress
		}
	})
	return found
}

// RestartsWithoutProgress is how many restarts in a row, up to the present epoch, have left no newer checkpoint. Where that is not known it is 0.
func (v *View) RestartsWithoutProgress() int32 {
	if v.tracksProgress() && v.progress() == noProgress {
		return v.Job.Status.RestartsWithoutProgress
	}
	return 0
}

// RestartsOnceRaised is how many restarts in a row have left no newer checkpoint once another epoch begins. Where it is not known whether
// the present one has left any, it counts neither as progress nor against it.
func (v *View) RestartsOnceRaised(byProgram bool) int32 {
	n, found := v.Job.Status.RestartsWithoutProgress, v.progress()
	switch {
	case !v.tracksProgress():
		return 0
	case found == someProgress:
		n = 0
	case found == progressUnknown:
		return n
	}
	if byProgram {
		n++
	}
	return n
}

func (v *View) tracksProgress() bool {
	s := v.Job.Spec.Supervisor
	return s != nil && s.Progress != nil && s.Progress.CheckpointFile != ""
}

// skipped is how many of the steps of its rule an incident skips, and by how many seconds the others come sooner for that: the failures of a
// program that makes no progress climb the ladder.
func (v *View) skipped(inc *v1alpha1.Incident, rule v1alpha1.Rule) (steps int, sooner int32) {
	if inc.Trigger != v1alpha1.ProcessFailed || !v.tracksProgress() || len(rule.Steps) == 0 {
		return 0, 0
	}
	each := ptr.Deref(v.Job.Spec.Supervisor.Progress.MaxRestarts, defaultMaxRestarts)
	if steps = min(int(inc.RestartsWithoutProgress/each), len(rule.Steps)-1); steps > 0 {
		sooner = rule.Steps[steps].AfterSeconds
	}
	return steps, sooner
}
