// A cache that is behind: no step is taken for what is over, and nothing is removed by force from a node that answers.

package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// changeLists is a new process of the manager, whose cache lists objects otherwise than the API server has them.
func (e *env) changeLists(change func(client.ObjectList)) {
	e.restart(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		change(list)
		return err
	}})
}

// findsItselfBehind has a pass that writes nothing and asks for another one.
func (e *env) findsItselfBehind() {
	e.T.Helper()
	e.Calls = nil
	result, err := e.reconcile()
	e.Must(err)
	check.Equal(e.T, "looks again", writes.ConflictPause, result.RequeueAfter)
	check.Equal(e.T, "writes", nil, e.Calls)
}

// The cache shows that a pod is not ready, which it is by now.
func TestNothingIsRecordedWhileTheCacheIsBehind(t *testing.T) {
	job := aJob()
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: []v1alpha1.Rule{{
		Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: v1alpha1.RestartPod}},
	}}}
	e := runs(t, job)
	isBehind := true
	e.changeLists(func(list client.ObjectList) {
		if pods, ok := list.(*corev1.PodList); ok && isBehind {
			for i := range pods.Items {
				pods.Items[i].Status.Conditions[0].Status = corev1.ConditionFalse
				pods.Items[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train", RestartCount: 1}}
			}
		}
	})
	e.findsItselfBehind()

	isBehind = false
	e.settle()
	check.Equal(t, "incidents", 0, len(e.job().Status.Incidents))
}

// The cache of pods shows that they went with their Volcano Job, that of Volcano Jobs does not yet.
func TestPodsThatWentWithTheirVolcanoJob(t *testing.T) {
	e := running(t)
	v := &batch.Job{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: "llm-1"}, v))
	isBehind := true
	e.changeLists(func(list client.ObjectList) {
		if jobs, ok := list.(*batch.JobList); ok && isBehind {
			jobs.Items = []batch.Job{*v}
		}
	})
	e.settle()
	for _, name := range []string{"llm-1-worker-0", "llm-1-worker-1"} {
		e.Must(e.API.Delete(t.Context(), e.pod(name)))
	}
	e.Must(e.API.Delete(t.Context(), v.DeepCopy()))
	e.findsItselfBehind()

	isBehind = false
	e.settle()
	var triggers []v1alpha1.EventType
	for _, inc := range e.job().Status.Incidents {
		triggers = append(triggers, inc.Trigger)
	}
	check.Equal(t, "incidents", []v1alpha1.EventType{v1alpha1.VolcanoJobDeleted}, triggers)
}

func TestNoStepIsTakenForAPodThatIsBack(t *testing.T) {
	e := running(t)
	ready := e.pod("llm-1-worker-1")
	down := ready.DeepCopy()
	down.Status.Conditions[0].Status = corev1.ConditionFalse
	down.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train", RestartCount: 1}}
	for name, tc := range map[string]struct {
		is   func() *corev1.Pod
		step bool
	}{
		"it is ready":       {func() *corev1.Pod { return ready.DeepCopy() }, false},
		"it is another one": {func() *corev1.Pod { p := down.DeepCopy(); p.UID = "another"; return p }, false},
		"it is as it was":   {func() *corev1.Pod { return down.DeepCopy() }, true},
		"it is gone by now": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			e.T = t
			e.Must(client.IgnoreNotFound(e.API.Delete(t.Context(), ready.DeepCopy())))
			if tc.is != nil {
				pod := tc.is()
				pod.ResourceVersion = ""
				e.Must(e.API.Create(t.Context(), pod))
			}
			o := &gang.Observation{Job: e.job(), Pods: []gang.Pod{podFor(e.job(), down)}, Nodes: map[string]gang.Node{}}
			decided := e.job().Status.DeepCopy()
			decided.Incidents = []v1alpha1.Incident{{
				ID: 1, Pods: []v1alpha1.IncidentPod{{Task: "worker", Index: 1, Name: down.Name}}, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.RestartPod}},
			}}
			err := e.r.confirm(t.Context(), o, decided)
			check.Equal(t, "may be taken", tc.step, err == nil)
			check.Equal(t, "conflicts", !tc.step, err != nil && writes.IsConflict(err))
		})
	}
}

func TestAnIncidentEndsOnWhatIsSo(t *testing.T) {
	e := running(t)
	seen := e.pod("llm-1-worker-1")
	job := e.job()
	job.Status.Incidents = []v1alpha1.Incident{{ID: 1, StartTime: metav1.NewMicroTime(t0.Add(time.Hour)), Pods: []v1alpha1.IncidentPod{{Task: "worker", Index: 1, Name: seen.Name}}}}
	o := &gang.Observation{Job: job, Pods: []gang.Pod{podFor(job, seen)}, Nodes: map[string]gang.Node{}}
	decided := job.Status.DeepCopy()
	decided.Incidents[0].Outcome = v1alpha1.OutcomeRecovered
	e.Must(e.r.confirm(t.Context(), o, decided))

	e.setStatus(seen.Name, corev1.PodStatus{Phase: corev1.PodFailed})
	err := e.r.confirm(t.Context(), o, decided)
	check.Equal(t, "conflicts where it has failed", true, err != nil && writes.IsConflict(err))
	e.Must(e.API.Delete(t.Context(), seen))
	err = e.r.confirm(t.Context(), o, decided)
	check.Equal(t, "conflicts where it is gone", true, err != nil && writes.IsConflict(err))
}

func TestNothingIsForcedOnANodeThatIsBack(t *testing.T) {
	e := running(t)
	node := &corev1.Node{}
	e.Must(e.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, node))
	silent := nodeOf(node, "")
	silent.Ready = false
	pod := e.pod("llm-1-worker-1")
	d := policies.PodDeletion{Name: pod.Name, UID: string(pod.UID), Node: "n1", Force: true}
	a := actor{TrainingJobReconciler: e.r, job: e.job(), attempt: 1, seen: &gang.Observation{Nodes: map[string]gang.Node{"n1": silent}}}
	check.Equal(t, "conflicts", true, writes.IsConflict(a.deletePod(t.Context(), d)))
	e.pod(pod.Name)

	a.seen.Nodes["n1"] = nodeOf(node, "")
	e.Must(a.deletePod(t.Context(), d))
	check.Equal(t, "gone", true, apierrors.IsNotFound(e.API.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
}
