package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// countEventLists counts the lists of events that go to the API server, each of which has to be limited.
func (e *env) countEventLists() *int {
	lists := new(int)
	e.r.Live = interceptor.NewClient(e.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.EventList); ok {
				*lists++
				check.Equal(e.T, "limit of a list", int64(maxEvents), (&client.ListOptions{}).ApplyOptions(opts).Limit)
			}
			return c.List(ctx, list, opts...)
		},
	})
	return lists
}

// Nine pods pull their images for 10 minutes, and each has a pass for every second.
func TestEventsAreNotListedInEveryPass(t *testing.T) {
	job := aJob()
	job.Spec.Tasks[0].Replicas = 9
	e := newEnv(t, job)
	e.settle()
	e.volcano(1)
	e.settle()
	for i := range 9 {
		name := fmt.Sprintf("llm-1-worker-%d", i)
		e.run(name, "n0")
		e.setStatus(name, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)},
		}})
	}
	lists := e.countEventLists()
	for second := range 600 {
		e.Clock.SetTime(t0.Add(time.Duration(second) * time.Second))
		_, err := e.reconcile()
		e.Must(err)
		if most := maxEventLookups * (second / 29); *lists > most {
			t.Fatalf("%d lists after %d s, at most %d were expected", *lists, second, most)
		}
	}
	if *lists < 50 {
		t.Errorf("%d lists in 10 minutes: does it look at all?", *lists)
	}
	check.Equal(t, "pods that are remembered", 9, len(e.r.podEvents.jobs[key]))
	for uid, look := range e.r.podEvents.jobs[key] {
		check.Equal(t, uid+" was never looked at", false, look.time.IsZero())
	}
	e.Must(e.API.Delete(t.Context(), e.job()))
	e.settle()
	check.Equal(t, "jobs that are remembered", 0, len(e.r.podEvents.jobs)+len(e.r.createErrors.jobs))
}

// What was found stays known between two looks, and what comes later is found by the next one.
func TestTheReasonStaysKnownBetweenLooks(t *testing.T) {
	e := running(t)
	uid := e.setStatus("llm-1-worker-1", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)},
	}})
	lists := e.countEventLists()
	at := func(seconds int) gang.StartProblem {
		e.Clock.SetTime(t0.Add(time.Duration(seconds) * time.Second))
		o, err := e.r.observe(t.Context(), e.job())
		e.Must(err)
		for i := range o.Pods {
			if o.Pods[i].UID == string(uid) {
				return o.Pods[i].StartProblem
			}
		}
		return gang.StartProblem{}
	}
	check.Equal(t, "nothing is said", gang.StartProblem{}, at(30))
	e.Must(e.API.Create(t.Context(), aWarning(uid, "FailedMount", strings.Repeat("x", 5000), t0.Add(31*time.Second))))
	check.Equal(t, "before the next look", gang.StartProblem{}, at(58))
	found := gang.StartProblem{Reason: "FailedMount", Message: strings.Repeat("x", maxStartMessage)}
	check.Equal(t, "by the next look", found, at(60))
	check.Equal(t, "between two looks", found, at(88))
	check.Equal(t, "lists", 2, *lists)
}

// Volcano fails to make pods, and the job has a pass every second.
func TestErrorsOfVolcanoAreNotListedInEveryPass(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	lists := e.countEventLists()
	for second := range 101 {
		e.Clock.SetTime(t0.Add(time.Duration(second) * time.Second))
		_, err := e.reconcile()
		e.Must(err)
	}
	check.Equal(t, "lists in 100 s", 10, *lists)
}
