package kueue

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// a job of two ranks with a GPU each, and a spare.
func jobOfTwo(change ...func(*v1alpha1.TrainingJob)) *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pretrain", UID: "uid-1", Labels: map[string]string{LabelQueue: "training"}},
		Spec: v1alpha1.TrainingJobSpec{Tasks: []v1alpha1.Task{{
			Name: "worker", Replicas: 2, Spares: new(int32(1)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
			}}}},
		}}},
	}
	for _, c := range change {
		c(job)
	}
	return job
}

func with(conditions ...metav1.Condition) func(*Workload) {
	return func(w *Workload) {
		for _, c := range conditions {
			meta.SetStatusCondition(&w.Status.Conditions, c)
		}
	}
}

func condition(is metav1.ConditionStatus, of, reason string) metav1.Condition {
	return metav1.Condition{Type: of, Status: is, Reason: reason, Message: "because of " + reason}
}

// admitted has a Workload run on a flavor.
func admitted(w *Workload) {
	with(condition("True", ConditionQuotaReserved, "QuotaReserved"), condition("True", ConditionAdmitted, "Admitted"))(w)
	w.Status.Admission = &Admission{ClusterQueue: "cluster", PodSetAssignments: []PodSetAssignment{
		{Name: "worker", Flavors: map[corev1.ResourceName]string{"nvidia.com/gpu": "h200", "cpu": "h200"}},
	}}
}

func workloadOf(job *v1alpha1.TrainingJob, change ...func(*Workload)) *Workload {
	w := workloadFor(job)
	for _, c := range change {
		c(w)
	}
	return w
}

func suspended(job *v1alpha1.TrainingJob) { job.Spec.Suspend = true }

func has(of string, message string) func(*v1alpha1.TrainingJob) {
	return func(job *v1alpha1.TrainingJob) {
		meta.SetStatusCondition(&job.Status.Conditions, metav1.Condition{Type: of, Status: "True", Reason: "Test", Message: message})
	}
}

func TestWhatComesNextOfAWorkload(t *testing.T) {
	evicted := func(reason string) func(*Workload) { return with(condition("True", ConditionEvicted, reason)) }
	onHold := with(condition("False", ConditionQuotaReserved, "OnHold"))
	tests := map[string]struct {
		job      *v1alpha1.TrainingJob
		workload []func(*Workload)
		stopped  bool
		want     map[string]string // conditions: status and reason
		admitted bool
	}{
		"it waits":                                  {job: jobOfTwo(), stopped: true},
		"it starts":                                 {job: jobOfTwo(), workload: []func(*Workload){admitted}, admitted: true, want: map[string]string{ConditionAdmitted: "True Admitted"}},
		"it runs":                                   {job: jobOfTwo(has("Running", "")), workload: []func(*Workload){admitted}, admitted: true, want: map[string]string{ConditionPodsReady: "True Started"}},
		"it recovers":                               {job: jobOfTwo(), workload: []func(*Workload){admitted, with(condition("True", ConditionPodsReady, "Started"))}, admitted: true, want: map[string]string{ConditionPodsReady: "True Started"}},
		"it is evicted and pods run":                {job: jobOfTwo(), workload: []func(*Workload){admitted, evicted("Preempted")}, admitted: true, want: map[string]string{ConditionQuotaReserved: "True QuotaReserved"}},
		"it is preempted and has stopped":           {job: jobOfTwo(), workload: []func(*Workload){admitted, evicted("Preempted")}, stopped: true, want: map[string]string{ConditionQuotaReserved: "False Pending", ConditionAdmitted: "False NoReservation", ConditionRequeued: "True Preempted", ConditionPodsReady: "False WaitForStart"}},
		"it is deactivated and has stopped":         {job: jobOfTwo(), workload: []func(*Workload){admitted, evicted("Deactivated")}, stopped: true, want: map[string]string{ConditionQuotaReserved: "False Pending", ConditionRequeued: "False Deactivated"}},
		"it is suspended and pods run":              {job: jobOfTwo(suspended), workload: []func(*Workload){admitted}, admitted: true, want: map[string]string{ConditionQuotaReserved: "True QuotaReserved"}},
		"it is suspended and has stopped":           {job: jobOfTwo(suspended), workload: []func(*Workload){admitted}, stopped: true, want: map[string]string{ConditionQuotaReserved: "False OnHold"}},
		"it is suspended while it waits":            {job: jobOfTwo(suspended), stopped: true, want: map[string]string{ConditionQuotaReserved: "False OnHold"}},
		"it is suspended in a queue that is closed": {job: jobOfTwo(suspended), workload: []func(*Workload){with(condition("False", ConditionQuotaReserved, "Inadmissible"))}, stopped: true, want: map[string]string{ConditionQuotaReserved: "False Inadmissible"}},
		"it is resumed":                             {job: jobOfTwo(), workload: []func(*Workload){onHold}, stopped: true, want: map[string]string{ConditionQuotaReserved: "False Pending"}},
		"it is resumed after an eviction":           {job: jobOfTwo(), workload: []func(*Workload){onHold, evicted("Preempted")}, stopped: true, want: map[string]string{ConditionQuotaReserved: "False Pending"}},
		"it has completed and pods run":             {job: jobOfTwo(has("Completed", "")), workload: []func(*Workload){admitted}, admitted: true, want: map[string]string{ConditionFinished: ""}},
		"it has completed":                          {job: jobOfTwo(has("Completed", "")), workload: []func(*Workload){admitted}, stopped: true, admitted: true, want: map[string]string{ConditionFinished: "True Succeeded"}},
		"it has failed":                             {job: jobOfTwo(has("Failed", "budget")), workload: []func(*Workload){admitted}, stopped: true, admitted: true, want: map[string]string{ConditionFinished: "True Failed"}},
		"it is deleted, and it was evicted before":  {job: jobOfTwo(), workload: []func(*Workload){admitted, evicted("Preempted"), func(w *Workload) { w.DeletionTimestamp = new(metav1.NewTime(now)) }}, stopped: true, admitted: true, want: map[string]string{ConditionQuotaReserved: "True QuotaReserved"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := workloadOf(tt.job, tt.workload...)
			w.advance(tt.job, tt.stopped, now)
			for of, want := range tt.want {
				got := ""
				if is := meta.FindStatusCondition(w.Status.Conditions, of); is != nil {
					got = string(is.Status) + " " + is.Reason
				}
				check.Equal(t, of, want, got)
			}
			check.Equal(t, "has an admission", tt.admitted, w.Status.Admission != nil)
			check.Equal(t, "is kept", !tt.stopped || w.DeletionTimestamp == nil, len(w.Finalizers) == 1)
			once := w.Status.DeepCopy()
			w.advance(tt.job, tt.stopped, now.Add(time.Second))
			check.Equal(t, "a second time", *once, w.Status)
		})
	}
}

func TestWhichWorkloadLetsAJobRun(t *testing.T) {
	gone := func(w *Workload) { w.DeletionTimestamp = new(metav1.NewTime(now)) }
	tests := map[string]struct {
		job      *v1alpha1.TrainingJob
		workload []func(*Workload)
		want     string
	}{
		"admitted":      {workload: []func(*Workload){admitted}},
		"not looked at": {want: "Kueue has not admitted Workload " + NameFor(jobOfTwo()) + " to queue training yet: it has not been looked at"},
		"no quota":      {workload: []func(*Workload){with(condition("False", ConditionQuotaReserved, "Pending"))}, want: "Kueue has not admitted Workload " + NameFor(jobOfTwo()) + " to queue training yet: because of Pending"},
		"evicted":       {workload: []func(*Workload){admitted, with(condition("True", ConditionEvicted, "Preempted"))}, want: "Kueue evicts Workload " + NameFor(jobOfTwo()) + ": because of Preempted"},
		"deleted":       {workload: []func(*Workload){admitted, gone}, want: "Workload " + NameFor(jobOfTwo()) + " is deleted: the job needs another"},
		"of another":    {workload: []func(*Workload){admitted, func(w *Workload) { w.OwnerReferences[0].UID = "uid-0" }}, want: "Workload " + NameFor(jobOfTwo()) + " does not belong to the job"},
		"for fewer": {job: jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Replicas = 3 }), workload: []func(*Workload){admitted, func(w *Workload) { w.Spec.PodSets[0].Count = 3 }},
			want: "Workload " + NameFor(jobOfTwo()) + " is for other pods than those of the job"},
		"for more": {job: jobOfTwo(func(j *v1alpha1.TrainingJob) { j.Spec.Tasks[0].Replicas = 1 }), workload: []func(*Workload){admitted, func(w *Workload) { w.Spec.PodSets[0].Count = 3 }}},
		"for smaller pods": {workload: []func(*Workload){admitted, func(w *Workload) {
			w.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}
		}}, want: "Workload " + NameFor(jobOfTwo()) + " is for other pods than those of the job"},
		"for another image": {workload: []func(*Workload){admitted, func(w *Workload) { w.Spec.PodSets[0].Template.Spec.Containers[0].Image = "trainer:2" }}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := tt.job
			if job == nil {
				job = jobOfTwo()
			}
			check.Equal(t, "waits", tt.want, workloadOf(job, tt.workload...).waits(job))
		})
	}
}

func TestWhenAnotherClusterHasStoppedAJob(t *testing.T) {
	runs := func(j *v1alpha1.TrainingJob) { j.Spec.ManagedBy, j.Status.State = MultiKueue, v1alpha1.StateRunning }
	evicted := func(reason string, before time.Duration) func(*Workload) {
		is := condition("True", ConditionEvicted, reason)
		is.LastTransitionTime = metav1.NewTime(now.Add(-before))
		return with(is)
	}
	tests := map[string]struct {
		job      *v1alpha1.TrainingJob
		workload []func(*Workload)
		want     bool
		again    time.Duration
	}{
		"it runs":                              {job: jobOfTwo(runs), workload: []func(*Workload){admitted}, want: true},
		"it is preempted":                      {job: jobOfTwo(runs), workload: []func(*Workload){admitted, evicted("Preempted", 10*time.Second)}, again: 50 * time.Second},
		"it is preempted, and has stopped":     {job: jobOfTwo(runs, isSuspended), workload: []func(*Workload){admitted, evicted("Preempted", 10*time.Second)}, want: true},
		"it is preempted, and does not stop":   {job: jobOfTwo(runs), workload: []func(*Workload){admitted, evicted("Preempted", time.Minute)}, want: true},
		"it is preempted before it was sent":   {job: jobOfTwo(), workload: []func(*Workload){admitted, evicted("Preempted", 0)}, want: true},
		"its cluster is lost, or evicts it":    {job: jobOfTwo(runs), workload: []func(*Workload){admitted, evicted("AdmissionCheck", 0)}, again: time.Minute},
		"its user suspends it while it leaves": {job: jobOfTwo(runs, suspended), workload: []func(*Workload){admitted, evicted("Preempted", 0)}, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			is, again := workloadOf(tt.job, tt.workload...).stoppedElsewhere(tt.job, now)
			check.Equal(t, "has stopped", tt.want, is)
			check.Equal(t, "is looked at again in", tt.again, again)
		})
	}
}

// A suspended job that is resumed is checked as one that has never run.
func TestASuspendedJobIsCheckedAgain(t *testing.T) {
	w := workloadOf(jobOfTwo(suspended), admitted, func(w *Workload) {
		w.Status.ClusterName = new("east")
		w.Status.AdmissionChecks = []AdmissionCheck{
			{Name: "ready", State: "Ready", Message: "booked", PodSetUpdates: []PodSetUpdate{{Name: "worker"}}}, {Name: "waits", State: "Pending", Message: "soon"},
		}
	})
	w.advance(jobOfTwo(suspended), true, now)
	check.Equal(t, "checks", []AdmissionCheck{
		{Name: "ready", State: "Pending", Message: "Reset, since the TrainingJob is suspended. Previously: Ready", LastTransitionTime: metav1.NewTime(now)},
		{Name: "waits", State: "Pending", Message: "soon"},
	}, w.Status.AdmissionChecks)
	check.Equal(t, "cluster", (*string)(nil), w.Status.ClusterName)
}
