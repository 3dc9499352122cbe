// The operator's clock is two minutes ahead of those of the API server, the controllers and the kubelets, or behind them.

package chaos

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// apart are the differences between the operator's clock and all others.
var apart = map[string]time.Duration{"ahead": 2 * time.Minute, "behind": -2 * time.Minute}

// A recovery is the same, whichever clock is right.
func TestClocksApart(t *testing.T) {
	for name, by := range apart {
		for _, scenario := range []string{"step", "node", "gang", "peer"} {
			t.Run(name+"/"+scenario, func(t *testing.T) {
				r := recoveries[scenario]
				l := newLane(t, name+"-"+scenario, 2, 4, slices.Concat(r.lane, []func(*lane){func(l *lane) { l.clock.advance(by) }})...)
				l.run(l.trainingJob(r.replicas, func(j *v1alpha1.TrainingJob) {
					if r.job != nil {
						r.job(j)
					}
				}))
				l.recover(r, target{}, fault{})
				l.writesNothing()
			})
		}
	}
}

// The time that a silent node has before its pod counts as dead is not cut by what the clocks are apart.
func TestANodeHasItsTimeWhereClocksAreApart(t *testing.T) {
	const after = 20 * time.Second
	l := newLane(t, "apart-silent", 1, 4, func(l *lane) { l.clock.advance(apart["ahead"]) })
	l.run(l.trainingJob(3, func(j *v1alpha1.TrainingJob) {
		j.Spec.RestartPolicy.UnreachableNode = &v1alpha1.UnreachableNode{Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(after.Seconds()))}
		j.Spec.RestartPolicy.Rules = []v1alpha1.Rule{{
			Name:  "replace",
			Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}},
		}}
	}))
	before, pod := l.before(), l.ranks()[1]
	silent := time.Now() // at the earliest: it takes a moment until it is known that the heartbeat has stopped
	l.must(testCluster.StopHeartbeat(l.ctx, pod.Spec.NodeName), "stop the heartbeat")
	l.readiness(pod.Spec.NodeName, corev1.ConditionUnknown)
	l.awaitAny("the pod is taken away", func(context.Context) (bool, error) { return l.pods()[pod.Name].UID != pod.UID, nil })
	if had := time.Since(silent); had < after {
		t.Errorf("the pod was taken away %s after its node had fallen silent, want %s at least", had, after)
	}
	l.recovered(before)
}
