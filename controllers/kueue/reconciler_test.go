package kueue

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A world is what a reconciler sees.
type world struct {
	*Reconciler
	t      *testing.T
	events *events.FakeRecorder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, batch.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&Workload{}, &v1alpha1.TrainingJob{}).
		WithIndex(&Workload{}, indexJob, jobNameOf).Build()
	recorder := events.NewFakeRecorder(10)
	none := fake.NewClientBuilder().WithScheme(scheme).Build()
	return &world{&Reconciler{Client: c, Live: c, Elsewhere: none, Events: recorder, Clock: testingclock.NewFakePassiveClock(now)}, t, recorder}
}

// look reconciles a job's Workloads as often as events would ask for.
func (w *world) look(job *v1alpha1.TrainingJob) ctrl.Result {
	w.t.Helper()
	var result ctrl.Result
	for range 4 {
		var err error
		if result, err = w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}); err != nil {
			w.t.Fatal(err)
		}
	}
	return result
}

// workload is that of a job; nil where there is none.
func (w *world) workload(job *v1alpha1.TrainingJob) *Workload {
	w.t.Helper()
	is := &Workload{}
	err := w.Get(w.t.Context(), types.NamespacedName{Namespace: job.Namespace, Name: NameFor(job)}, is)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return is
}

func (w *world) reported(text string) bool {
	for {
		select {
		case event := <-w.events.Events:
			if strings.Contains(event, text) {
				return true
			}
		default:
			return false
		}
	}
}

func podOf(job *v1alpha1.TrainingJob, phase corev1.PodPhase) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-0", Labels: map[string]string{v1alpha1.LabelUID: string(job.UID)}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func volcanoJobOf(job *v1alpha1.TrainingJob, phase batch.JobPhase) client.Object {
	return &batch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-1", Labels: map[string]string{v1alpha1.LabelUID: string(job.UID)}},
		Status:     batch.JobStatus{State: batch.JobState{Phase: phase}},
	}
}

func deleted(o client.Object) client.Object {
	o.SetDeletionTimestamp(new(metav1.NewTime(now)))
	o.SetFinalizers(append(o.GetFinalizers(), "foregroundDeletion"))
	return o
}

func isSuspended(j *v1alpha1.TrainingJob) { j.Status.State = v1alpha1.StateSuspended }

// A job's Workload asks for what the job does, while it waits. Then what it has stays, or it goes.
func TestAWorkloadAsksForWhatItsJobDoes(t *testing.T) {
	job := jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Spec.PriorityClassName = "high" })
	w := newWorld(t, job, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7})
	w.look(job)
	check.Equal(t, "priority", int32(7), *w.workload(job).Spec.Priority)
	check.Equal(t, "pods", int32(3), w.workload(job).Spec.PodSets[0].Count)

	change := func(with func(*v1alpha1.TrainingJob)) {
		t.Helper()
		with(job)
		if err := w.Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		w.look(job)
	}
	change(func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Replicas, j.Labels[LabelQueue] = 1, "other" })
	check.Equal(t, "pods of fewer ranks", int32(2), w.workload(job).Spec.PodSets[0].Count)
	check.Equal(t, "queue", "other", w.workload(job).Spec.QueueName)

	is := w.workload(job)
	admitted(is)
	if err := w.Status().Update(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	change(func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Template.Spec.Containers[0].Image = "trainer:2" })
	check.Equal(t, "admission with another image", true, w.workload(job).is(ConditionAdmitted))
	change(func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Replicas, j.Status.State = 2, v1alpha1.StateRunning })
	check.Equal(t, "deleted, and kept while the job runs", true, w.workload(job) != nil && w.workload(job).DeletionTimestamp != nil)
	isSuspended(job)
	if err := w.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.look(job)
	check.Equal(t, "another", true, w.workload(job) != nil && w.workload(job).DeletionTimestamp == nil && !w.workload(job).is(ConditionAdmitted))
	check.Equal(t, "pods of more ranks", int32(3), w.workload(job).Spec.PodSets[0].Count)
}

// Quota is given back once nothing runs, and nothing will: no pod, and no Volcano Job that may make one.
func TestQuotaIsKeptWhileSomethingMayRun(t *testing.T) {
	evicted := func(w *Workload) { admitted(w); with(condition("True", ConditionEvicted, "Preempted"))(w) }
	gone := func(j *v1alpha1.TrainingJob) { deleted(j) }
	tests := map[string]struct {
		job     *v1alpha1.TrainingJob
		running client.Object
		live    *v1alpha1.TrainingJob // nil for as the cache has it
		kept    bool
	}{
		"a pod runs":                             {job: jobOfTwo(isSuspended), running: podOf(jobOfTwo(), corev1.PodRunning), kept: true},
		"a pod has ended":                        {job: jobOfTwo(isSuspended), running: podOf(jobOfTwo(), corev1.PodFailed)},
		"a Volcano Job waits":                    {job: jobOfTwo(isSuspended), running: volcanoJobOf(jobOfTwo(), batch.Pending), kept: true},
		"a Volcano Job is over":                  {job: jobOfTwo(isSuspended), running: volcanoJobOf(jobOfTwo(), batch.Aborted)},
		"the job is to start":                    {job: jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Status.State = v1alpha1.StateStarting }), kept: true},
		"the API server has it start":            {job: jobOfTwo(isSuspended), live: jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Status.State = v1alpha1.StateStarting }), kept: true},
		"the job is deleted, and a pod runs":     {job: jobOfTwo(gone), running: podOf(jobOfTwo(), corev1.PodRunning), kept: true},
		"the job is deleted, and no pod is left": {job: jobOfTwo(gone)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{tt.job, workloadOf(tt.job, evicted)}
			if tt.running != nil {
				objects = append(objects, tt.running)
			}
			w := newWorld(t, objects...)
			if tt.live != nil {
				w.Live = newWorld(t, tt.live).Client
			}
			w.look(tt.job)
			is := w.workload(tt.job)
			check.Equal(t, "has quota", tt.kept, is != nil && is.is(ConditionQuotaReserved))
		})
	}
}

// A Workload that was made for a job is taken by it, and no other: not one of another owner, for other pods, or of another MultiKueue.
func TestWhichWorkloadAJobTakes(t *testing.T) {
	names := func(j *v1alpha1.TrainingJob) { j.Annotations = map[string]string{Prebuilt: "made"} }
	made := func(change func(*Workload)) client.Object {
		w := workloadFor(jobOfTwo())
		w.Name, w.OwnerReferences, w.Finalizers = "made", nil, nil
		change(w)
		return w
	}
	tests := map[string]struct {
		workload client.Object
		want     bool
	}{
		"it is free": {workload: made(func(*Workload) {}), want: true},
		"it has an owner": {workload: made(func(w *Workload) {
			w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}
		})},
		"it is for other pods":  {workload: made(func(w *Workload) { w.Spec.PodSets[0].Count = 1 })},
		"it is finished":        {workload: made(with(condition("True", ConditionFinished, "Succeeded")))},
		"it is of a MultiKueue": {workload: made(func(w *Workload) { w.Labels = map[string]string{LabelOrigin: "hub"} })},
		"there is none":         {workload: podOf(jobOfTwo(), corev1.PodFailed)},
		"it is being deleted":   {workload: deleted(made(func(*Workload) {}))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOfTwo(names)
			w := newWorld(t, job, tt.workload)
			result := w.look(job)
			is := w.workload(job)
			check.Equal(t, "taken", tt.want, is != nil && ownedBy(is, job))
			check.Equal(t, "looks again", !tt.want, result.RequeueAfter > 0)
			if tt.want {
				check.Equal(t, "finalizers", []string{Finalizer}, is.Finalizers)
			}
		})
	}
}

// What keeps a job from a Workload is an event, and is tried again.
func TestAJobWithoutAWorkloadSaysWhy(t *testing.T) {
	other := workloadFor(jobOfTwo())
	other.OwnerReferences[0].UID = "uid-0"
	for name, tt := range map[string]struct {
		job     *v1alpha1.TrainingJob
		objects []client.Object
		want    string
	}{
		"no such class": {job: jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Labels[LabelPriority] = "none" }), want: `"none" not found`},
		"name is taken": {job: jobOfTwo(), objects: []client.Object{other}, want: "another owner has one of the name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tt.objects, tt.job)...)
			result := w.look(tt.job)
			check.Equal(t, "there is an event", true, w.reported(tt.want))
			check.Equal(t, "tried again", triesAgain, result.RequeueAfter)
		})
	}
}
