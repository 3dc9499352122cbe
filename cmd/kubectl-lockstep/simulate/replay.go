package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
)

// replay plays the incidents that the status of a job remembers under other policies.
type replay struct {
	recorded  *v1alpha1.TrainingJob
	failures  []lab.Failure
	incidents []v1alpha1.Incident
}

// plannedReplay reads --replay, so that what is wrong with it is told before anything is played; nil without one.
func (o *options) plannedReplay() (*replay, error) {
	if o.replay == "" {
		return nil, nil
	}
	job, err := o.readJob("--replay", o.replay)
	if err != nil {
		return nil, err
	}
	for i := range job.Status.Incidents {
		for _, p := range job.Status.Incidents[i].Pods {
			if !hasRank(job, p) {
				return nil, fmt.Errorf("--replay: incident %d is about pod %q, rank %d of task %q, which the job does not have", job.Status.Incidents[i].ID, p.Name, p.Index, p.Task)
			}
		}
	}
	r := &replay{recorded: job}
	if r.failures, r.incidents = lab.Recorded(job, &o.costs); len(r.failures) == 0 {
		return nil, errors.New("--replay: the status of " + job.Name + " remembers no incident that can be played: save a job that had some with kubectl get -o yaml")
	}
	return r, nil
}

func hasRank(job *v1alpha1.TrainingJob, p v1alpha1.IncidentPod) bool {
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == p.Task && p.Index >= 0 && p.Index < t.Replicas })
}

// run plays the incidents under the policy of the job that had them, and under those of the studies.
func (r *replay) run(ctx context.Context, o *options, studies []*study) error {
	as := *studies[0]
	as.name, as.job, as.setup.Job = "as it was", r.recorded, r.recorded
	columns := []*study{&as}
	for _, s := range studies {
		columns = append(columns, &study{name: s.name, job: s.job, setup: s.setup})
	}
	last := r.failures[len(r.failures)-1].At
	for _, s := range columns {
		s.setup.Failures, s.setup.For = r.failures, last+lab.Lead
		var err error
		if s.results, err = lab.PlayMany(ctx, s.setup, 1, o.seed); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Fprintf(o.Out, "The incidents of %s, and how long its ranks were not ready:\n", r.recorded.Name)
	for some := range slices.Chunk(columns, inOneTable) {
		fmt.Fprintln(o.Out)
		r.printTable(o.Out, some, &o.costs)
	}
	fmt.Fprintln(o.Out, "\nWhat is recorded is until all ranks were ready, with the time that such a failure\nis assumed to take until it is seen. What is played is until all processes run.")
	return nil
}

func (r *replay) printTable(out io.Writer, columns []*study, costs *lab.Costs) {
	cells := func(name, recorded string, of func(*study) string) {
		fmt.Fprintf(out, "%-22s%10s", name, recorded)
		for _, s := range columns {
			value := []rune(of(s))
			fmt.Fprintf(out, "%16s", string(value[:min(len(value), 15)]))
		}
		fmt.Fprintln(out)
	}
	cells("", "recorded", func(s *study) string { return s.name })
	for i := range r.incidents {
		inc := &r.incidents[i]
		recorded := "open"
		if inc.EndTime != nil {
			recorded = inc.EndTime.Sub(lab.FailedAt(inc, costs)).Round(100 * time.Millisecond).String()
		}
		cells(fmt.Sprintf("%d %s", inc.ID, inc.Trigger), recorded, func(s *study) string { return r.down(s, i).Round(100 * time.Millisecond).String() })
	}
}

// down is for how long the processes of a play did not run because of an incident: in the outages from its failure to the next one.
func (r *replay) down(s *study, i int) time.Duration {
	from, to := r.at(i), s.setup.For
	if i+1 < len(r.incidents) {
		to = r.at(i + 1)
	}
	sum := time.Duration(0)
	for _, o := range s.results[0].Outages {
		if o.At >= from && o.At < to {
			sum += o.Down() - o.In[lab.Restore]
		}
	}
	return sum
}

// at is when the failures of an incident are played.
func (r *replay) at(i int) time.Duration {
	first := 0
	for _, inc := range r.incidents[:i] {
		first += len(inc.Pods)
	}
	return r.failures[first].At
}
