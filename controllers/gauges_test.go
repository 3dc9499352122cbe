package controllers

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// only lets one metric of a collector through.
type only struct {
	prometheus.Collector
	desc *prometheus.Desc
}

func (o only) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

func (o only) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		o.Collector.Collect(all)
	}()
	for m := range all {
		if m.Desc() == o.desc {
			ch <- m
		}
	}
}

func TestETTR(t *testing.T) {
	since := func(name, namespace, queue string, ready time.Duration, lost time.Duration) *v1alpha1.TrainingJob {
		job := aJob()
		job.Name, job.Namespace, job.Spec.Queue = name, namespace, queue
		job.Status.Availability = &v1alpha1.Availability{
			StartTime: metav1.NewMicroTime(t0.Add(-ready)),
			LostTime:  []v1alpha1.LostTime{{Cause: "NodeGone", Interruptions: 1, Milliseconds: lost.Milliseconds()}},
		}
		return job
	}
	never, over := since("never", "research", "other", 0, 0), since("over", "research", "a", time.Hour, time.Hour)
	never.Status.Availability = nil
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
	down := since("down", "team", "a", time.Hour, 0)
	down.Status.Availability.Interruption = &v1alpha1.Interruption{StartTime: metav1.NewMicroTime(t0.Add(-15 * time.Minute)), Cause: "PodFailed"}
	e := newEnv(t,
		since("one", "research", "a", time.Hour, 30*time.Minute), since("two", "research", "a", 3*time.Hour, 0), since("three", "research", "b", time.Hour, 0),
		down, never, over, since("nowhere", "research", "no-such-queue", time.Hour, 0), aQueue("a"), aQueue("b"), aQueue("other"),
	)
	ettr := only{&Gauges{Jobs: e.r.Client, Clock: e.Clock}, ettrDesc}
	check.Equal(t, "ratios", map[string][2]float64{"research a": {0.875}, "research b": {1}, "research unknown": {1}, "team a": {0.75}}, told(t, ettr))
	e.Clock.SetTime(t0.Add(time.Hour))
	check.Equal(t, "an hour later", 0.375, told(t, ettr)["team a"][0])
}

func TestJobsAndOpenIncidents(t *testing.T) {
	at := func(name, queue string, state v1alpha1.State, outcomes ...v1alpha1.Outcome) *v1alpha1.TrainingJob {
		job := aJob()
		job.Name, job.Spec.Queue, job.Status.State = name, queue, state
		for i, outcome := range outcomes {
			job.Status.Incidents = append(job.Status.Incidents, v1alpha1.Incident{
				ID: int32(i), Outcome: outcome, StartTime: metav1.NewMicroTime(t0.Add(time.Duration(i-10) * time.Minute)),
			})
		}
		return job
	}
	over := at("over", "a", v1alpha1.StateFailed, "")
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
	e := newEnv(t,
		at("one", "a", v1alpha1.StateRunning, v1alpha1.OutcomeRecovered), at("two", "a", v1alpha1.StateRunning), over,
		at("three", "a", v1alpha1.StateRecovering, v1alpha1.OutcomeRecovered, "", ""), at("four", "b", v1alpha1.StateQueued), at("new", "b", ""),
		aQueue("a"), aQueue("b"),
	)
	gauges := &Gauges{Jobs: e.r.Client, Clock: e.Clock}
	check.Equal(t, "jobs", map[string][2]float64{"research a Running": {2}, "research a Recovering": {1}, "research b Queued": {1}}, told(t, only{gauges, jobsDesc}))
	check.Equal(t, "open incidents", map[string][2]float64{"research a": {2}}, told(t, only{gauges, openIncidentsDesc}))
	check.Equal(t, "the oldest", map[string][2]float64{"research a": {540}}, told(t, only{gauges, oldestIncidentDesc}))
}

func TestSlowNodes(t *testing.T) {
	on := func(name string, nodes ...string) *v1alpha1.TrainingJob {
		job := aJob()
		job.Name, job.Status.StragglerNodes = name, nodes
		return job
	}
	over := on("over", "n2")
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
	slow := func(jobs ...client.Object) map[string][2]float64 {
		e := newEnv(t, jobs...)
		return told(t, only{&Gauges{Jobs: e.r.Client, Clock: e.Clock}, slowNodesDesc})
	}
	check.Equal(t, "nodes of one job", map[string][2]float64{}, slow(on("one", "n1", "n2"), on("none")))
	check.Equal(t, "a node of two", map[string][2]float64{"": {1}}, slow(on("one", "n1", "n2"), on("two", "n3"), over))
}
