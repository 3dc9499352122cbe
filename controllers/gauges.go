// Gauges of the jobs that go on, computed whenever somebody asks: the ETTR changes with the time, and not with a write, and another
// manager shows the same.

package controllers

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Gauges collects, by namespace and queue, what is true now of the jobs that have not finished: the effective training time ratio, which is
// the time in which their gangs were ready, by that and the time in which they were not; how many jobs are in which state; how many
// incidents are open, and for how long the oldest of them is. Of the whole cluster
// it collects on how many nodes several jobs have had stragglers.
type Gauges struct {
	// Jobs reads jobs and queues from a cache with the indexes of AddIndexes.
	Jobs  client.Reader
	Clock clock.PassiveClock
}

var (
	ettrDesc = prometheus.NewDesc(
		"lockstep_effective_training_time_ratio",
		"Share of the time since they were first ready in which the gangs of the jobs that have not finished were ready, suspensions apart.",
		[]string{"namespace", "queue"}, nil,
	)
	jobsDesc = prometheus.NewDesc(
		"lockstep_jobs",
		"Jobs that have not finished, by state: Queued, Starting, Running, Recovering, Suspended, Refused.",
		[]string{"namespace", "queue", "state"}, nil,
	)
	openIncidentsDesc = prometheus.NewDesc(
		"lockstep_open_incidents",
		"Incidents that are open, of the jobs that have not finished.",
		[]string{"namespace", "queue"}, nil,
	)
	oldestIncidentDesc = prometheus.NewDesc(
		"lockstep_oldest_open_incident_seconds",
		"How long ago the oldest open incident of the jobs that have not finished began; 0 where none is open.",
		[]string{"namespace", "queue"}, nil,
	)
	slowNodesDesc = prometheus.NewDesc(
		"lockstep_slow_nodes",
		"Nodes on which several jobs have had stragglers; finished jobs count until they are deleted.",
		nil, nil,
	)
)

// Describe sends the descriptions of the metrics.
func (g *Gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{ettrDesc, jobsDesc, openIncidentsDesc, oldestIncidentDesc, slowNodesDesc} {
		ch <- desc
	}
}

// collectTimeout bounds the wait for a cache that has not been filled yet.
const collectTimeout = 5 * time.Second

// queueSums are what the gauges of a queue are made of.
type queueSums struct {
	times         policies.Times
	ready         bool // a gang was, once
	states        map[v1alpha1.State]int
	openIncidents int
	oldest        time.Duration // of the incidents that are open
}

// Collect sends the gauges of each queue of each namespace that has such a job; there is no ratio where no gang was ready once.
func (g *Gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	jobs := &v1alpha1.TrainingJobList{}
	if err := g.Jobs.List(ctx, jobs, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has yet to start, or stops: an error would cost all other metrics, too
	}
	queues := &scheduling.QueueList{}
	if err := g.Jobs.List(ctx, queues, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	exists := make(map[string]bool, len(queues.Items))
	for i := range queues.Items {
		exists[queues.Items[i].Name] = true
	}
	now, sums, stragglers := g.Clock.Now(), map[[2]string]*queueSums{}, map[string]int{}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		for _, node := range job.Status.StragglerNodes {
			stragglers[node]++
		}
		if gang.Finished(&job.Status) {
			continue
		}
		of := [2]string{job.Namespace, labelOf(job.Spec.Queue, exists[job.Spec.Queue])}
		if sums[of] == nil {
			sums[of] = &queueSums{states: map[v1alpha1.State]int{}}
		}
		sums[of].add(&job.Status, now)
	}
	for of, sum := range sums {
		sum.send(ch, of)
	}
	maps.DeleteFunc(stragglers, func(_ string, jobs int) bool { return jobs < 2 })
	ch <- prometheus.MustNewConstMetric(slowNodesDesc, prometheus.GaugeValue, float64(len(stragglers)))
}

func (q *queueSums) add(s *v1alpha1.TrainingJobStatus, now time.Time) {
	if s.State != "" { // of a job that no manager has looked at
		q.states[s.State]++
	}
	for i := range s.Incidents {
		if s.Incidents[i].Outcome == "" {
			q.openIncidents++
			q.oldest = max(q.oldest, now.Sub(s.Incidents[i].StartTime.Time))
		}
	}
	if s.Availability != nil {
		q.ready = true
		times := policies.TimesAt(s.Availability, now)
		q.times.Running, q.times.Down = q.times.Running+times.Running, q.times.Down+times.Down
	}
}

func (q *queueSums) send(ch chan<- prometheus.Metric, of [2]string) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append(of[:], labels...)...)
	}
	if q.ready {
		gauge(ettrDesc, q.times.ETTR())
	}
	for state, n := range q.states {
		gauge(jobsDesc, float64(n), string(state))
	}
	gauge(openIncidentsDesc, float64(q.openIncidents))
	gauge(oldestIncidentDesc, q.oldest.Seconds())
}
