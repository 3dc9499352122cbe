package simulate

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
)

// study is one job, played several times.
type study struct {
	name    string
	job     *v1alpha1.TrainingJob
	setup   lab.Setup
	results []*lab.Result
}

func (s *study) ettrs() []float64 {
	out := make([]float64, len(s.results))
	for i, r := range s.results {
		out[i] = r.ETTR
	}
	return out
}

func (s *study) ettr() lab.Estimate { return lab.EstimateOf(s.ettrs()) }

// against estimates by how much the ETTR is greater than that of another study, which met the same failures.
func (s *study) against(other *study) lab.Estimate { return lab.Difference(s.ettrs(), other.ettrs()) }

// mean is that of a figure of each play.
func (s *study) mean(of func(*lab.Result) float64) float64 {
	sum := 0.0
	for _, r := range s.results {
		sum += of(r)
	}
	return sum / float64(len(s.results))
}

// failures of a play, on average.
func (s *study) failures() float64 {
	return s.mean(func(r *lab.Result) float64 {
		n := 0
		for _, c := range r.Failures {
			n += c
		}
		return float64(n)
	})
}

// gpuHours are the hours of all GPUs of the job, or of all its pods where they have none.
func (s *study) gpuHours(d time.Duration) float64 {
	gpus, pods := int64(0), int64(0)
	for i := range s.job.Spec.Tasks {
		t := &s.job.Spec.Tasks[i]
		gpus += gpusOf(t) * int64(t.Replicas)
		pods += int64(t.Replicas)
	}
	if gpus == 0 {
		gpus = pods
	}
	return d.Hours() * float64(gpus)
}
