package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// hidePod is a new process of the manager, whose cache does not show a pod, and which counts its lookups of pods at the API server.
func (e *env) hidePod(name string) (lookups *int) {
	lookups = new(int)
	e.restart(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if pods, ok := list.(*corev1.PodList); ok {
			pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == name })
		}
		return err
	}})
	e.r.Live = interceptor.NewClient(e.API, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Pod); ok {
				*lookups++
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	return lookups
}

// The cache of a process that has just started may not show a pod that its predecessor saw.
func TestAPodThatTheCacheDoesNotShowIsNotDeleted(t *testing.T) {
	e := running(t)
	lookups := e.hidePod(second)
	e.settle()
	check.Equal(t, "looked up", true, *lookups > 0)
	check.Equal(t, "state", v1alpha1.StateRunning, e.job().Status.State)
	check.Equal(t, "incidents", 0, len(e.job().Status.Incidents))

	e.Must(e.API.Delete(t.Context(), e.pod(second)))
	e.settle()
	check.Equal(t, "incidents once it is gone", 1, len(e.job().Status.Incidents))
	check.Equal(t, "trigger", v1alpha1.PodDeleted, e.job().Status.Incidents[0].Trigger)
	*lookups = 0
	e.settle()
	check.Equal(t, "lookups while its rank is restarted", 0, *lookups)
}

func TestPodsThatTheCacheShowsAreNotLookedUp(t *testing.T) {
	e := running(t)
	lookups := e.hidePod("no pod")
	e.settle()
	check.Equal(t, "lookups", 0, *lookups)
}

// podOfEarlier is a pod that an earlier TrainingJob of a name has left.
func podOfEarlier(name, job, attempt string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, UID: types.UID("left-" + name), Labels: map[string]string{
			v1alpha1.LabelJob: job, v1alpha1.LabelUID: "99999999-0000-4000-8000-000000000000", v1alpha1.LabelAttempt: attempt,
		}},
		Spec: corev1.PodSpec{NodeName: "n3"},
	}
}

// Pods on a node that does not answer keep their names long after their job is deleted.
func TestAJobStartsBesideThePodsOfAnEarlierOne(t *testing.T) {
	tests := map[string]struct {
		left []client.Object
		want int32
	}{
		"none":                      {nil, 1},
		"one of its first attempt":  {[]client.Object{podOfEarlier("llm-1-worker-1", "llm", "1")}, 2},
		"of two attempts":           {[]client.Object{podOfEarlier("llm-3-worker-1", "llm", "3"), podOfEarlier("llm-2-worker-1", "llm", "2")}, 4},
		"of a job of another name":  {[]client.Object{podOfEarlier("other-1-worker-1", "other", "1")}, 1},
		"with the label of another": {[]client.Object{podOfEarlier("my-llm-7-worker-1", "llm", "7")}, 1},
		"of the largest number":     {[]client.Object{podOfEarlier("llm-2147483647-worker-1", "llm", "2147483647")}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, append(tc.left, aJob())...)
			e.settle()
			check.Equal(t, "attempt", tc.want, e.job().Status.Attempt)
			e.volcano(int(tc.want))
			e.settle()
			pods := &corev1.PodList{}
			e.Must(e.API.List(t.Context(), pods, client.MatchingLabels{v1alpha1.LabelUID: string(aJob().UID)}))
			check.Equal(t, "pods", 2, len(pods.Items))
			for _, pod := range pods.Items {
				check.Equal(t, "resumes", "false", pod.Annotations[v1alpha1.AnnotationResume])
			}
			if tc.want > 1 {
				has(t, e.Told(), "an earlier TrainingJob of this name still has pods")
			}
		})
	}
}

func TestAPodThatHasTheNameOfARankIsNamed(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	taken := podOfEarlier(second, "", "")
	taken.Labels = nil
	e.Must(e.API.Create(t.Context(), taken))
	e.volcano(1)
	for _, after := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		e.Clock.SetTime(t0.Add(after))
		e.settle()
	}
	c := meta.FindStatusCondition(e.job().Status.Conditions, v1alpha1.ConditionScheduled)
	check.Equal(t, "reason", v1alpha1.ReasonPodsNotCreated, c.Reason)
	has(t, []string{c.Message}, `made 1 of the 2 pods of the gang, and fails to make the others: a pod named llm-1-worker-1 exists on node "n3"`)
}
