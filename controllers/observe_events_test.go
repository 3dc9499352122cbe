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
func (e *env) countEventLists() *int { return e.listEvents(func(*corev1.EventList) {}) }

// listEvents counts the lists of events. It changes the answers to those about many objects, which the API server limits.
func (e *env) listEvents(change func(*corev1.EventList)) *int {
	lists := new(int)
	e.r.Live = interceptor.NewClient(e.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			events, ok := list.(*corev1.EventList)
			if !ok {
				return c.List(ctx, list, opts...)
			}
			*lists++
			o := (&client.ListOptions{}).ApplyOptions(opts)
			_, ofOne := o.FieldSelector.RequiresExactMatch("involvedObject.uid")
			check.Equal(e.T, "limit of a list", true, (ofOne && o.Limit == maxEvents) || (!ofOne && o.Limit >= minWarnings && o.Limit <= maxWarnings))
			err := c.List(ctx, list, opts...)
			if int64(len(events.Items)) > o.Limit { // the fake API server knows no limits
				events.Items, events.Continue = events.Items[:o.Limit], "more"
			}
			if !ofOne {
				change(events)
			}
			return err
		},
	})
	return lists
}

// silentPods are those of a job that pull their images and say nothing.
func silentPods(t *testing.T, n int32) *env {
	t.Helper()
	job := aJob()
	job.Spec.Tasks[0].Replicas = n
	e := newEnv(t, job)
	e.settle()
	e.volcano(1)
	e.settle()
	for i := range n {
		name := fmt.Sprintf("llm-1-worker-%d", i)
		e.run(name, "n0")
		e.setStatus(name, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)},
		}})
	}
	return e
}

// Pods pull their images for 10 minutes, and the job has a pass in every second.
func TestEventsAreNotListedInEveryPass(t *testing.T) {
	hides := func(list *corev1.EventList) { list.Continue = "more" } // others of the namespace have written more than is read
	tests := map[string]struct {
		pods         int32
		change       func(*corev1.EventList)
		most, remain int // lists in 29 s, and pods that are remembered
	}{
		"of a few":                      {maxEventLookups, hides, maxEventLookups, maxEventLookups},
		"of many":                       {9, func(*corev1.EventList) {}, 1, 9},
		"of many among those of others": {9, hides, 1 + maxEventLookups, 9},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := silentPods(t, tc.pods)
			lists := e.listEvents(tc.change)
			for second := range 600 {
				e.Clock.SetTime(t0.Add(time.Duration(second) * time.Second))
				_, err := e.reconcile()
				e.Must(err)
				if most := tc.most * (second / 29); *lists > most {
					t.Fatalf("%d lists after %d s, at most %d were expected", *lists, second, most)
				}
			}
			if *lists < 15*tc.most {
				t.Errorf("%d lists in 10 minutes: does it look at all?", *lists)
			}
			looks := e.r.memories.of(key).podEvents
			delete(looks, together)
			check.Equal(t, "pods that are remembered", tc.remain, len(looks))
			for uid, look := range looks {
				check.Equal(t, uid+" was never looked at", false, look.time.IsZero())
			}
			e.Must(e.API.Delete(t.Context(), e.job()))
			e.settle()
			check.Equal(t, "jobs that are remembered", 0, len(e.r.memories.jobs))
		})
	}
}

// The pods of a large gang that cannot start for the same reason fail together, though each has two warnings.
func TestTheEventsOfManyPodsAreReadTogether(t *testing.T) {
	e := silentPods(t, 300)
	pods := &corev1.PodList{}
	e.Must(e.API.List(t.Context(), pods))
	for i := range pods.Items {
		e.Must(e.API.Create(t.Context(), aWarning(pods.Items[i].UID, "FailedAttachVolume", "no such volume", t0)))
		e.Must(e.API.Create(t.Context(), aWarning(pods.Items[i].UID, "FailedMount", "no such volume", t0.Add(time.Second))))
	}
	lists := e.countEventLists()
	e.Clock.SetTime(t0.Add(30 * time.Second))
	o, err := e.r.observe(t.Context(), e.job())
	e.Must(err)
	for i := range o.Pods {
		check.Equal(t, "problem of "+o.Pods[i].Name, "FailedMount", o.Pods[i].StartProblem.Reason)
	}
	check.Equal(t, "lists", 1, *lists)
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

// A kubelet that tried a volume again says within one second why the sandbox cannot be made.
func TestTheLastWarningOfASecond(t *testing.T) {
	mount := corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "llm-1-worker-0.18eb6c24b00e0855"}, Reason: "FailedMount", LastTimestamp: metav1.NewTime(t0)}
	sandbox := corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "llm-1-worker-0.18eb6c24d81a0855"}, Reason: "FailedCreatePodSandBox", LastTimestamp: mount.LastTimestamp}
	check.Equal(t, "the later", "FailedCreatePodSandBox", lastWarning([]corev1.Event{mount, sandbox}).Reason)
	mount.LastTimestamp = metav1.NewTime(t0.Add(time.Second))
	check.Equal(t, "which is said again", "FailedMount", lastWarning([]corev1.Event{mount, sandbox}).Reason)
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
