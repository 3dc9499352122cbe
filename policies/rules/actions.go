// Actions: what each kind of step does, for all that depends on it.

package rules

import "github.com/lockstep-dev/lockstep/api/v1alpha1"

// Scope is what an action touches.
type Scope int

// The scopes of actions.
const (
	Nothing Scope = iota
	BrokenPods
	TheirPartitions
	TheirTasks
	WholeJob
)

// Action is what a step does. What else depends on the kind of a step asks for these properties, and
// not for its name, save that Ignore stands for no step.
type Action struct {
	// Known is false for an action of another version of the manager.
	Known bool
	Scope Scope
	// Replaces reports whether the ranks in scope get new pods, which need nodes.
	Replaces bool
	// Rejoins reports whether programs are started again in pods that stay, where they meet those of the other ranks.
	Rejoins bool
	// LeavesNode and LeavesHome report what the new pods keep away from. What leaves its node is asked for a checkpoint first.
	LeavesNode, LeavesHome bool
	// Fails reports whether the job fails.
	Fails bool
	// Counter is where the step is counted; nil for nowhere.
	Counter func(*v1alpha1.Restarts) *int32
}

// ActionOf returns what an action of the API does. After a rollback of the manager a rule may hold one of a later version, which
// the CRD of that version accepts: this one does not know it, and it does nothing.
func ActionOf(name v1alpha1.Action) Action {
	switch name {
	case v1alpha1.Ignore:
		return Action{Known: true}
	case v1alpha1.RestartProcesses:
		return Action{Known: true, Scope: BrokenPods, Rejoins: true, Counter: countProcess}
	case v1alpha1.RestartPod:
		return Action{Known: true, Scope: BrokenPods, Replaces: true, Counter: countPod}
	case v1alpha1.MigratePod:
		return Action{Known: true, Scope: BrokenPods, Replaces: true, LeavesNode: true, Counter: countPod}
	case v1alpha1.ShrinkTask:
		return Action{Known: true, Scope: BrokenPods}
	case v1alpha1.RestartPartition:
		return Action{Known: true, Scope: TheirPartitions, Replaces: true, Counter: countPartition}
	case v1alpha1.RestartTask:
		return Action{Known: true, Scope: TheirTasks, Replaces: true, Counter: countTask}
	case v1alpha1.RestartJob:
		return Action{Known: true, Scope: WholeJob, Replaces: true, Counter: countJob}
	case v1alpha1.RelocateJob:
		return Action{Known: true, Scope: WholeJob, Replaces: true, LeavesHome: true, Counter: countRelocation}
	case v1alpha1.FailJob:
		return Action{Known: true, Fails: true}
	}
	return Action{}
}

func countProcess(r *v1alpha1.Restarts) *int32    { return &r.Process }
func countPod(r *v1alpha1.Restarts) *int32        { return &r.Pod }
func countPartition(r *v1alpha1.Restarts) *int32  { return &r.Partition }
func countTask(r *v1alpha1.Restarts) *int32       { return &r.Task }
func countJob(r *v1alpha1.Restarts) *int32        { return &r.Job }
func countRelocation(r *v1alpha1.Restarts) *int32 { return &r.Relocations }
