// The writes of a job's PodDisruptionBudget, each of which goes wrong, once, in every way.

package chaos

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A user adds a rule for cordoned nodes, gives it another task, and takes it away: the budget follows.
func TestTheBudgetFollowsTheRules(t *testing.T) {
	l := newLane(t, "budget", 1, 2)
	l.run(l.trainingJob(1, func(job *v1alpha1.TrainingJob) {
		other := *job.Spec.Tasks[0].DeepCopy()
		other.Name = "master"
		job.Spec.Tasks = append(job.Spec.Tasks, other)
	}))
	for name, f := range faults {
		for _, f := range f.each() {
			l.protects("create policy poddisruptionbudgets", f, "worker")
			l.protects("update policy poddisruptionbudgets", f, "master", "worker")
			l.protects("delete policy poddisruptionbudgets", f)
		}
		if t.Failed() {
			t.Fatalf("with fault %s", name)
		}
	}
}

// protects has the user's rule name other tasks, or be none, while the first call for a right breaks: the budget protects these tasks, or is gone.
func (l *lane) protects(right string, f fault, tasks ...string) {
	l.t.Helper()
	l.wire.arm(target{right: right}, f)
	defer l.wire.arm(target{}, fault{})
	patch := client.MergeFrom(l.job.DeepCopy())
	l.job.Spec.RestartPolicy.Rules = nil
	if len(tasks) > 0 {
		l.job.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
			Name:  "maintenance",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.NodeCordoned}, Tasks: tasks},
			Steps: []v1alpha1.Step{{Action: v1alpha1.MigratePod}},
		}}
	}
	l.must(testCluster.Client().Patch(l.ctx, l.job, patch), "change the rules")
	l.await("the budget protects the tasks of the rule", func() bool { return slices.Equal(tasks, l.protected()) })
	l.idle()
	if diff := cmp.Diff(tasks, l.protected()); diff != "" {
		l.t.Errorf("where the first call to %s breaks by %s, the budget protects (-want +got):\n%s", right, f.name, diff)
	}
}

// protected are the tasks that the job's budget protects; nil where there is none.
func (l *lane) protected() []string {
	l.t.Helper()
	budget := &policy.PodDisruptionBudget{}
	err := testCluster.Client().Get(l.ctx, client.ObjectKey{Namespace: l.pool.Name, Name: l.job.Name + "-lockstep"}, budget)
	l.must(client.IgnoreNotFound(err), "read the budget")
	if err != nil {
		return nil
	}
	for _, e := range budget.Spec.Selector.MatchExpressions {
		if e.Key == v1alpha1.LabelTask {
			return e.Values
		}
	}
	return nil
}
