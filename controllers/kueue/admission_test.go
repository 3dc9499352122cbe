package kueue

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func reader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// What a flavor and a check of the admission have for the pods goes into the job of this pass, beside what its template has.
func TestAnAdmittedJobHasItsFlavors(t *testing.T) {
	flavor := &ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: "h200"},
		Spec: ResourceFlavorSpec{
			NodeLabels: map[string]string{"pool": "h200"}, Tolerations: []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpExists}},
		},
	}
	job := jobOfTwo(func(j *v1alpha1.TrainingJob) {
		j.Spec.Tasks[0].Template.Spec.NodeSelector = map[string]string{"zone": "a"}
		j.Spec.Tasks[0].Template.Spec.Tolerations = []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpExists}}
	})
	w := workloadOf(job, admitted, func(w *Workload) {
		w.Status.AdmissionChecks = []AdmissionCheck{{PodSetUpdates: []PodSetUpdate{
			{Name: "worker", Annotations: map[string]string{"consume": "p1"}, Labels: map[string]string{"l": "1"}}, {Name: "other", Labels: map[string]string{"l": "2"}},
		}}}
	})
	a := &Admissions{Cached: reader(t, w, flavor), Live: reader(t, w)}
	waits, err := a.Apply(t.Context(), job)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "waits", "", waits)
	is := job.Spec.Tasks[0].Template
	check.Equal(t, "node selector", map[string]string{"zone": "a", "pool": "h200"}, is.Spec.NodeSelector)
	check.Equal(t, "tolerations", 1, len(is.Spec.Tolerations))
	check.Equal(t, "annotations", map[string]string{"consume": "p1"}, is.Annotations)
	check.Equal(t, "labels", map[string]string{"l": "1"}, is.Labels)
	check.Equal(t, "suspended", false, job.Spec.Suspend)
}

// A job that runs is not stopped for what only the cache says. Where Kueue has no say, a job is as it is.
func TestWhoseWordStopsAJob(t *testing.T) {
	runs := func(j *v1alpha1.TrainingJob) { j.Status.Attempt, j.Status.State = 1, v1alpha1.StateRunning }
	withoutFlavor := func(w *Workload) { admitted(w); w.Status.Admission.PodSetAssignments[0].Flavors = nil }
	tests := map[string]struct {
		job          *v1alpha1.TrainingJob
		cached, live []client.Object
		off, want    bool
	}{
		"the cache has none, and it waits":        {job: jobOfTwo(), live: []client.Object{workloadOf(jobOfTwo(), withoutFlavor)}, want: true},
		"the cache has none, and it runs":         {job: jobOfTwo(runs), live: []client.Object{workloadOf(jobOfTwo(), withoutFlavor)}},
		"the cache has an old one, and it runs":   {job: jobOfTwo(runs), cached: []client.Object{workloadOf(jobOfTwo())}, live: []client.Object{workloadOf(jobOfTwo(), withoutFlavor)}},
		"its flavor is gone, and it runs":         {job: jobOfTwo(runs), cached: []client.Object{workloadOf(jobOfTwo(), admitted)}},
		"its flavor is gone, and it is to start":  {job: jobOfTwo(), cached: []client.Object{workloadOf(jobOfTwo(), admitted)}, live: []client.Object{workloadOf(jobOfTwo(), admitted)}, want: true},
		"the cache has an admission that is over": {job: jobOfTwo(), cached: []client.Object{workloadOf(jobOfTwo(), withoutFlavor)}, live: []client.Object{workloadOf(jobOfTwo())}, want: true},
		"there is none, and it runs":              {job: jobOfTwo(runs), want: true},
		"there is none, and it is over":           {job: jobOfTwo(runs, has("Completed", ""))},
		"it names no queue":                       {job: jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Labels = nil })},
		"the manager does not ask Kueue":          {job: jobOfTwo(), off: true},
		"the prebuilt one belongs to another": {job: jobOfTwo(func(j *v1alpha1.TrainingJob) {
			j.UID, j.Annotations = "uid-2", map[string]string{Prebuilt: NameFor(jobOfTwo())}
		}), cached: []client.Object{workloadOf(jobOfTwo(), withoutFlavor)}, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := &Admissions{Cached: reader(t, tt.cached...), Live: reader(t, tt.live...)}
			if tt.off {
				a = nil
			}
			waits, err := a.Apply(t.Context(), tt.job)
			check.Equal(t, "error", nil, err)
			check.Equal(t, "waits", tt.want, waits != "")
			check.Equal(t, "suspended", tt.want, tt.job.Spec.Suspend)
		})
	}
}
