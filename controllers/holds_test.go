package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestHoldSweeper(t *testing.T) {
	hold := func(key, value string) corev1.Taint {
		return corev1.Taint{Key: "hold.lockstep.dev/" + key, Value: value, Effect: corev1.TaintEffectNoSchedule}
	}
	const mine = "llm-0123abcd"
	soon, past := "1767323345", "1767323045" // t0 is 1767323045
	finished := func(j *v1alpha1.TrainingJob) {
		j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
	}
	tests := map[string]struct {
		job    func(*v1alpha1.TrainingJob)
		taints []corev1.Taint
		want   []string
		again  time.Duration
	}{
		"no holds":                         {nil, []corev1.Taint{{Key: "gpu", Value: "bad"}}, []string{"gpu=bad"}, 0},
		"one in force":                     {nil, []corev1.Taint{hold(mine, soon)}, []string{"hold.lockstep.dev/" + mine + "=" + soon}, 300 * time.Second},
		"one that has expired":             {nil, []corev1.Taint{hold(mine, past)}, nil, 0},
		"a standing one":                   {nil, []corev1.Taint{hold(mine, "standing")}, []string{"hold.lockstep.dev/" + mine + "=standing"}, 0},
		"one that nobody could have meant": {nil, []corev1.Taint{hold(mine, "soon")}, nil, 0},
		"of a job that is gone":            {nil, []corev1.Taint{hold("ghost-99999999", soon)}, nil, 0},
		"standing, of a job that is gone":  {nil, []corev1.Taint{hold("ghost-99999999", "standing")}, nil, 0},
		"of an earlier job of the name":    {nil, []corev1.Taint{hold("llm-99999999", soon)}, nil, 0},
		"of a job that has ended":          {finished, []corev1.Taint{hold(mine, soon)}, nil, 0},
		"what else is there stays": {
			nil, []corev1.Taint{{Key: "gpu", Value: "bad"}, hold(mine, past), hold(mine+"x", "standing"), {Key: "zone", Value: "b"}},
			[]string{"gpu=bad", "zone=b"}, 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := aJob()
			if tc.job != nil {
				tc.job(job)
			}
			e := newEnv(t, job)
			e.taint("n3", tc.taints...)
			sweeper := &HoldSweeper{Client: e.Restart(interceptor.Funcs{}), Live: e.API, Clock: e.Clock}
			result, err := sweeper.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n3"}})
			e.Must(err)
			check.Equal(t, "taints", tc.want, e.taints()["n3"])
			check.Equal(t, "looks again", tc.again, result.RequeueAfter)
			if len(tc.want) == len(tc.taints) {
				check.Equal(t, "writes", nil, e.Calls)
			}
		})
	}
	t.Run("a node that is gone", func(t *testing.T) {
		e := newEnv(t)
		_, err := (&HoldSweeper{Client: e.API, Live: e.API, Clock: e.Clock}).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "ghost"}})
		e.Must(err)
	})
}

// Between the look and the write another job holds the node: that is not for this sweep.
func TestHoldThatComesMeanwhileIsNotSwept(t *testing.T) {
	e := newEnv(t)
	ghost := corev1.Taint{Key: "hold.lockstep.dev/ghost-99999999", Value: "standing", Effect: corev1.TaintEffectNoSchedule}
	e.taint("n3", ghost)
	looks := 0
	c := interceptor.NewClient(e.API, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if looks++; looks == 2 {
				e.taint("n3", corev1.Taint{Key: "hold.lockstep.dev/new-88888888", Value: "standing", Effect: corev1.TaintEffectNoSchedule})
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	_, err := (&HoldSweeper{Client: c, Live: e.API, Clock: e.Clock}).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n3"}})
	e.Must(err)
	check.Equal(t, "taints", []string{"hold.lockstep.dev/new-88888888=standing"}, e.taints()["n3"])
}

func TestTheNodesThatAJobHeldAreSweptWithIt(t *testing.T) {
	job := aJob()
	e := newEnv(t, job)
	e.taint("n3", corev1.Taint{Key: holdKeyOfJob, Value: "standing", Effect: corev1.TaintEffectNoSchedule})
	e.taint("n4", corev1.Taint{Key: "hold.lockstep.dev/other-99999999", Value: "standing", Effect: corev1.TaintEffectNoSchedule})
	requests := (&HoldSweeper{Client: e.API, Live: e.API, Clock: e.Clock}).nodesHeldBy(t.Context(), job)
	check.Equal(t, "nodes", []ctrl.Request{{NamespacedName: types.NamespacedName{Name: "n3"}}}, requests)
}

// The cache of jobs may be older than that of nodes: a hold on one of them is of a job that has yet to come.
func TestTheHoldOfAJobThatTheCacheLacksIsKept(t *testing.T) {
	e := newEnv(t, aJob())
	e.taint("n3", corev1.Taint{Key: holdKeyOfJob, Value: "standing", Effect: corev1.TaintEffectNoSchedule})
	behind := e.Restart(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, jobs := list.(*v1alpha1.TrainingJobList); jobs {
			return nil
		}
		return c.List(ctx, list, opts...)
	}})
	lists := 0
	sweeper := &HoldSweeper{Client: behind, Clock: e.Clock, Live: interceptor.NewClient(e.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})}
	sweep := func(node string) {
		_, err := sweeper.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node}})
		e.Must(err)
	}
	sweep("n3")
	check.Equal(t, "held", []string{holdKeyOfJob + "=standing"}, e.taints()["n3"])

	e.taint("n2", corev1.Taint{Key: holdKeyOfJob, Value: "1767323045", Effect: corev1.TaintEffectNoSchedule})
	result, err := sweeper.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n2"}})
	e.Must(err)
	check.Equal(t, "looks again after", behindPause, result.RequeueAfter)
	lists = 1

	for _, node := range []string{"n4", "n5"} {
		e.taint(node, corev1.Taint{Key: "hold.lockstep.dev/ghost-99999999", Value: "standing", Effect: corev1.TaintEffectNoSchedule})
	}
	sweep("n4")
	sweep("n5")
	check.Equal(t, "held by no job", 0, len(e.taints()["n4"])+len(e.taints()["n5"]))
	check.Equal(t, "lists of all jobs", 2, lists)
}
