package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// study is one job, played several times.
type study struct {
	name    string
	job     *v1alpha1.TrainingJob
	setup   lab.Setup
	results []*lab.Result
}

// play plays studies that have no results yet.
func (o *options) play(ctx context.Context, studies ...*study) error {
	for _, s := range studies {
		if s.results != nil {
			continue
		}
		results, err := lab.PlayMany(ctx, s.setup, int(o.plays), o.seed)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.results = results
	}
	return nil
}

// vary is a study with a time of its policy changed, as the API server would take it.
func (s *study) vary(field string, d time.Duration) (*study, error) {
	job, err := lab.Vary(s.job, field, int32(min(d.Seconds(), math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	if job, err = Admit(job); err != nil {
		return nil, fmt.Errorf("with %s: %w", d, err)
	}
	out := &study{name: d.String(), job: job, setup: s.setup}
	out.setup.Job = job
	return out, nil
}

// values are those of a figure in each play.
func (s *study) values(of func(*lab.Result) float64) []float64 {
	out := make([]float64, len(s.results))
	for i, r := range s.results {
		out[i] = of(r)
	}
	return out
}

func (s *study) mean(of func(*lab.Result) float64) float64 { return stat.Mean(s.values(of), nil) }

func (s *study) ettr() estimate { return estimate{lab.EstimateOf(s.values(ettrOf))} }

// against estimates by how much the ETTR is greater than that of another study, which met the same failures.
func (s *study) against(other *study) estimate {
	return estimate{lab.Difference(s.values(ettrOf), other.values(ettrOf))}
}

func ettrOf(r *lab.Result) float64 { return r.ETTR }

// rules are those that an incident was given to in any play.
func (s *study) rules() map[string]bool {
	out := map[string]bool{}
	for _, r := range s.results {
		maps.Copy(out, r.Rules)
	}
	return out
}

// gpus are those of the job, or its pods where it has none.
func (s *study) gpus() float64 {
	gpus := int64(0)
	for i := range s.job.Spec.Tasks {
		t := &s.job.Spec.Tasks[i]
		gpus += fit.TaskGPUs(t) * int64(t.Replicas)
	}
	return float64(cmp.Or(gpus, int64(gang.Replicas(s.job))))
}
