package controllers

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// The users of a job are told that supervisors do not connect, and each hour again while some do not.
func TestSilentSupervisorsAreTold(t *testing.T) {
	silentSupervisors.Reset()
	recorder := events.NewFakeRecorder(10)
	r := &TrainingJobReconciler{Events: recorder, Supervision: &Supervision{Pods: volcano.Supervision{Address: "manager.test:9444"}}}
	job := aJob()
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	key := client.ObjectKeyFromObject(job)
	series.move(key, job.Spec.Queue)
	defer series.move(key, "")
	var inMessage []string
	// pass is one at a time, with the supervisors that are connected.
	pass := func(at time.Duration, connected ...bool) time.Time {
		o := &gang.Observation{Now: t0.Add(at), Job: job}
		for i, is := range connected {
			p := gang.Pod{Task: "worker", Index: int32(i), Phase: corev1.PodRunning, StartedTime: t0}
			if is {
				p.Process = &gang.Process{}
			}
			o.Pods = append(o.Pods, p)
		}
		r.observeSilence(o)
		inMessage = o.SilentRanks
		return r.reportSilence(o)
	}
	said := func(what string, want ...string) {
		t.Helper()
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: events %q, want %q", what, got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: event %q, want %q", what, got[i], want[i])
			}
		}
	}
	check.Equal(t, "due", t0.Add(silenceTold), pass(0, true, false, false))
	check.Equal(t, "due, of the first", t0.Add(silenceTold), pass(time.Minute, true, true, false))
	check.Equal(t, "silent", map[string][2]float64{"research research": {1}}, told(t, silentSupervisors))
	said("before it is due")
	check.Equal(t, "in the message, before it is due", nil, inMessage)
	pass(silenceTold, true, false, false)
	check.Equal(t, "in the message", []string{"worker-1", "worker-2"}, inMessage)
	said("when it is due", "Warning SupervisorsNotConnected no stream for 2m0s or more from the supervisors of worker-1, worker-2: ")
	again := silenceTold + silenceRepeated
	check.Equal(t, "due, once it was told", t0.Add(again), pass(2*silenceTold, true, false, false))
	said("later")
	check.Equal(t, "in the message, later", []string{"worker-1", "worker-2"}, inMessage)
	pass(again, true, true, false)
	said("when the event is gone", "supervisors of worker-2: ")
	check.Equal(t, "due, where all are there", time.Time{}, pass(again+time.Minute, true, true, true))
	check.Equal(t, "in the message, where all are there", nil, inMessage)
	check.Equal(t, "silent, where all are there", map[string][2]float64{}, told(t, silentSupervisors))
	pass(again+2*time.Minute, true, false, true)
	said("before it is due again")
	pass(again+2*time.Minute+silenceTold, true, false, true)
	said("again", "supervisors of worker-1: ")
	r.memoryOf(job).endSilence()
	check.Equal(t, "silent, of a job that is gone", map[string][2]float64{}, told(t, silentSupervisors))
}

func TestWhoIsNotSilent(t *testing.T) {
	job := aJob()
	job.Spec.Supervisor = &v1alpha1.Supervisor{}
	job.Spec.Tasks = append(job.Spec.Tasks, v1alpha1.Task{Name: "logger", Independent: true})
	runs := gang.Pod{Task: "worker", Phase: corev1.PodRunning, StartedTime: t0}
	for name, tc := range map[string]struct {
		change func(*gang.Pod)
		want   int
	}{
		"one that runs":                   {func(*gang.Pod) {}, 1},
		"one that is heard":               {func(p *gang.Pod) { p.Process = &gang.Process{} }, 0},
		"one that is pending":             {func(p *gang.Pod) { p.Phase = corev1.PodPending }, 0},
		"one whose container has ended":   {func(p *gang.Pod) { p.StartedTime = time.Time{} }, 0},
		"one that is being deleted":       {func(p *gang.Pod) { p.Deleting = true }, 0},
		"one that completes":              {func(p *gang.Pod) { p.Completing = true }, 0},
		"a spare":                         {func(p *gang.Pod) { p.Spare = true }, 0},
		"one of a task without":           {func(p *gang.Pod) { p.Task = "logger" }, 0},
		"one of a task that is not known": {func(p *gang.Pod) { p.Task = "gone" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := runs
			tc.change(&p)
			check.Equal(t, "silent", tc.want, len(silent(&gang.Observation{Job: job, Pods: []gang.Pod{p}})))
		})
	}
}
