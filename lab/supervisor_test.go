package lab

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func supervisedJob(replicas int32, survivors v1alpha1.Survivors) *v1alpha1.TrainingJob {
	j := job(replicas)
	j.Spec.Supervisor = &v1alpha1.Supervisor{Survivors: survivors}
	return j
}

// Programs are restarted in place and together, however the pods' containers would be, before any kubelet or peer does something.
func TestSupervisorsRestartPrograms(t *testing.T) {
	costs := DefaultCosts()
	for _, containers := range []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
		j := supervisedJob(40, v1alpha1.SurvivorsRestart)
		j.Spec.Tasks[0].Template.Spec.RestartPolicy = containers
		r := play(t, Setup{Job: j, HyperNodes: racks(2, 24), For: 1000 * time.Hour, Seed: 1, Causes: []Cause{{Name: "c", Effect: ProcessExit, PerThousandNodeDays: 10}}})
		n := r.Failures["c"]
		if n < 5 {
			t.Fatalf("%d failures", n)
		}
		check.Equal(t, "restarts, and those of programs", [2]int32{int32(n), int32(n)}, [2]int32{r.Restarts.Total, r.Restarts.Process})
		check.Equal(t, "restores", time.Duration(n+1)*costs.Restore, r.DownIn[Restore])
		before := r.Outages[0].Down() - r.Outages[0].In[Restore]
		if each := (r.Down - r.DownIn[Restore] - before) / time.Duration(n); each < costs.StopProgram || each > costs.StopProgram+3*costs.React {
			t.Errorf("%s: a restart took %s", containers, each)
		}
	}
}

func TestASupervisedJobRecoversFromEachKindOfFailure(t *testing.T) {
	for _, effect := range []Effect{ProcessExit, PodFailure, PodLoss, DeviceFailure, Degradation, NodeLoss, NodeDeletion} {
		for _, survivors := range []v1alpha1.Survivors{v1alpha1.SurvivorsRestart, v1alpha1.SurvivorsKeep} {
			t.Run(string(effect)+" "+string(survivors), func(t *testing.T) {
				slowdown := 0.0
				if effect == Degradation {
					slowdown = 0.1
				}
				r := play(t, Setup{
					Job: supervisedJob(4, survivors), HyperNodes: racks(2, 6), For: 1000 * time.Hour, Seed: 1,
					Causes: []Cause{{Name: "c", Effect: effect, PerThousandNodeDays: 100, Repair: 6 * time.Hour, Slowdown: slowdown}},
				})
				check.Equal(t, "failed", "", r.Failed)
				if n := r.Failures["c"]; n < 8 || n > 30 {
					t.Errorf("%d failures, of about 17", n)
				}
				if mean := r.LostBy["c"] / time.Duration(r.Failures["c"]); mean > 30*time.Minute {
					t.Errorf("a failure costs %s", mean)
				}
				if survivors == v1alpha1.SurvivorsKeep {
					check.Equal(t, "steps that are trained again", time.Duration(0), r.Lost)
				}
			})
		}
	}
}

// Survivors that are kept lose nothing; where a step restarts all, none is left.
func TestWhatIsLostWithoutSurvivors(t *testing.T) {
	for action, lost := range map[v1alpha1.Action]time.Duration{v1alpha1.RestartPod: 0, v1alpha1.RestartJob: 15 * time.Minute} {
		j := supervisedJob(4, v1alpha1.SurvivorsKeep)
		j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
			Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: action}},
		}}}
		r := play(t, Setup{Job: j, HyperNodes: racks(1, 6), For: 10 * time.Hour, Failures: []Failure{
			{At: 70 * time.Minute, Nodes: []string{"n-0-0"}, Cause: Cause{Name: "c", Effect: ProcessExit}},
		}})
		check.Equal(t, string(action), lost, r.Lost)
	}
}

// Where checkpoints are the sign of progress, a program that saves them between its failures has each failure to itself.
func TestSupervisorsNoticeCheckpoints(t *testing.T) {
	for interval, fails := range map[time.Duration]bool{10 * time.Minute: false, 1000 * time.Hour: true} {
		j := supervisedJob(4, v1alpha1.SurvivorsRestart)
		j.Spec.Supervisor.Progress = &v1alpha1.Progress{CheckpointFile: "/checkpoints/latest", MaxRestarts: new(int32(3))}
		costs := DefaultCosts()
		costs.CheckpointInterval = interval
		s := Setup{Job: j, HyperNodes: racks(1, 6), For: 100 * time.Hour, Costs: &costs}
		for n := range 20 {
			s.Failures = append(s.Failures, Failure{At: time.Duration(n+1) * time.Hour, Nodes: []string{"n-0-0"}, Cause: Cause{Name: "c", Effect: ProcessExit}})
		}
		r := play(t, s)
		check.Equal(t, "restarts of more than programs after "+interval.String(), fails, r.Restarts.Total > r.Restarts.Process)
	}
}

// A job that is not restarted any more leaves its containers to their kubelets.
func TestAProgramThatNoRuleRestartsIsItsKubelets(t *testing.T) {
	j := supervisedJob(4, v1alpha1.SurvivorsRestart)
	j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "ignored", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.ProcessFailed}}, Steps: []v1alpha1.Step{{Action: v1alpha1.Ignore}},
	}}}
	r := play(t, Setup{Job: j, HyperNodes: racks(1, 6), For: 10 * time.Hour, Failures: []Failure{
		{At: time.Hour, Nodes: []string{"n-0-0"}, Cause: Cause{Name: "c", Effect: ProcessExit}},
	}})
	check.Equal(t, "restarts", int32(0), r.Restarts.Process)
	if r.Down > 10*time.Minute {
		t.Errorf("down for %s", r.Down)
	}
}

// In a dry run supervisors leave programs to their kubelets, as if there were none.
func TestADryRunLeavesProgramsToTheirKubelets(t *testing.T) {
	j := supervisedJob(4, v1alpha1.SurvivorsRestart)
	j.Annotations = map[string]string{v1alpha1.DryRun: "true"}
	r := play(t, Setup{Job: j, HyperNodes: racks(1, 6), For: 10 * time.Hour, Failures: []Failure{
		{At: time.Hour, Nodes: []string{"n-0-0"}, Cause: Cause{Name: "c", Effect: ProcessExit}},
	}})
	if r.Down > 10*time.Minute {
		t.Errorf("down for %s", r.Down)
	}
}

// Ranks resume from the nearest copy that each of them has: in the memory of its pod, on its node, or else from what all share.
func TestRanksRestoreTheNearestCopies(t *testing.T) {
	costs := DefaultCosts()
	costs.Copies = map[v1alpha1.CheckpointScope]Copies{
		v1alpha1.CheckpointScopePod:  {Interval: 10 * time.Second, Restore: 5 * time.Second},
		v1alpha1.CheckpointScopeNode: {Interval: time.Minute, Restore: 20 * time.Second},
	}
	tier := func(scope v1alpha1.CheckpointScope) v1alpha1.CheckpointTier {
		return v1alpha1.CheckpointTier{Path: "/" + string(scope), Scope: scope}
	}
	inPod, onNode := tier(v1alpha1.CheckpointScopePod), tier(v1alpha1.CheckpointScopeNode)
	for name, tc := range map[string]struct {
		effect        Effect
		tiers         []v1alpha1.CheckpointTier
		lost, restore time.Duration
	}{
		"a program":                      {ProcessExit, []v1alpha1.CheckpointTier{inPod, onNode}, 5 * time.Second, 5 * time.Second},
		"a program, without memory":      {ProcessExit, []v1alpha1.CheckpointTier{onNode}, 30 * time.Second, 20 * time.Second},
		"a pod":                          {PodLoss, []v1alpha1.CheckpointTier{inPod, onNode}, 30 * time.Second, 20 * time.Second},
		"a pod, without copies on nodes": {PodLoss, []v1alpha1.CheckpointTier{inPod}, costs.CheckpointInterval / 2, costs.Restore},
		"a node":                         {NodeLoss, []v1alpha1.CheckpointTier{inPod, onNode}, costs.CheckpointInterval / 2, costs.Restore},
		"a program that saves no copies": {ProcessExit, nil, costs.CheckpointInterval / 2, costs.Restore},
	} {
		t.Run(name, func(t *testing.T) {
			j := supervisedJob(4, v1alpha1.SurvivorsRestart)
			j.Spec.Supervisor.CheckpointTiers = tc.tiers
			r := play(t, Setup{Job: j, HyperNodes: racks(1, 6), For: 20 * time.Hour, Costs: &costs, Failures: []Failure{
				{At: 10 * time.Hour, Nodes: []string{"n-0-0"}, Cause: Cause{Name: "c", Effect: tc.effect, Repair: time.Hour}},
			}})
			check.Equal(t, "lost", tc.lost, r.Lost)
			check.Equal(t, "restores", costs.Restore+tc.restore, r.DownIn[Restore])
		})
	}
}
