// The ETTR of the jobs that go on, computed whenever somebody asks: it changes with the time, and not with a write.

package controllers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

// ETTR collects the effective training time ratio of the jobs that have not finished, by namespace and queue: the time in which their
// gangs were ready, by that and the time in which they were not.
type ETTR struct {
	// Jobs reads from a cache with the indexes of AddIndexes.
	Jobs  client.Reader
	Clock clock.PassiveClock
}

var ettrDesc = prometheus.NewDesc(
	"lockstep_effective_training_time_ratio",
	"Share of the time since they were first ready in which the gangs of the jobs that have not finished were ready, suspensions apart.",
	[]string{"namespace", "queue"}, nil,
)

// Describe sends the description of the metric.
func (e *ETTR) Describe(ch chan<- *prometheus.Desc) { ch <- ettrDesc }

// collectTimeout bounds the wait for a cache that has not been filled yet.
const collectTimeout = 5 * time.Second

// Collect sends the ratio of each queue of each namespace that has a job whose gang was ready once.
func (e *ETTR) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	jobs := &v1alpha1.TrainingJobList{}
	if err := e.Jobs.List(ctx, jobs, client.MatchingFields{indexUnfinished: yes}, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has yet to start, or stops: an error would cost all other metrics, too
	}
	now, sums := e.Clock.Now(), map[[2]string]policies.Times{}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Status.Availability == nil {
			continue
		}
		of := [2]string{job.Namespace, job.Spec.Queue}
		sum, times := sums[of], policies.TimesAt(job.Status.Availability, now)
		sum.Running, sum.Down = sum.Running+times.Running, sum.Down+times.Down
		sums[of] = sum
	}
	for of, sum := range sums {
		ch <- prometheus.MustNewConstMetric(ettrDesc, prometheus.GaugeValue, sum.ETTR(), of[0], of[1])
	}
}
