package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// Replay is how long each incident took, and takes under other policies.
type Replay struct {
	Job       string     `json:"job"`
	Incidents []Incident `json:"incidents"`
}

// Incident is one that was played.
type Incident struct {
	ID      int64  `json:"id"`
	Trigger string `json:"trigger"`
	// Recorded is nil for an incident that is open.
	Recorded *float64 `json:"recordedSeconds,omitempty"`
	Played   []Played `json:"played"`
}

// Played is how long the ranks were down under a policy.
type Played struct {
	Policy  string  `json:"policy"`
	Seconds float64 `json:"seconds"`
}

// play plays the incidents under the policy of the job that had them, and under those of the studies.
func (r *replay) play(ctx context.Context, o *options, studies []*study) (*Replay, error) {
	as := *studies[0]
	as.name, as.job, as.setup.Job = "as it was", r.recorded, r.recorded
	out := &Replay{Job: r.recorded.Name}
	for i := range r.incidents {
		inc := &r.incidents[i]
		one := Incident{ID: int64(inc.ID), Trigger: string(inc.Trigger)}
		if inc.EndTime != nil {
			one.Recorded = new(tenths(inc.EndTime.Sub(lab.FailedAt(inc, &o.costs))))
		}
		out.Incidents = append(out.Incidents, one)
	}
	last := r.failures[len(r.failures)-1].At
	for _, s := range append([]*study{&as}, studies...) {
		played := &study{name: s.name, job: s.job, setup: s.setup}
		played.setup.Failures, played.setup.For = r.failures, last+lab.Lead
		var err error
		if played.results, err = lab.PlayMany(ctx, played.setup, 1, o.seed); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for i := range out.Incidents {
			out.Incidents[i].Played = append(out.Incidents[i].Played, Played{s.name, tenths(r.down(played, i))})
		}
	}
	return out, nil
}

// tenths is a time in seconds, to a tenth.
func tenths(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }

func (o *options) printReplay(r *Replay) {
	seconds := func(s float64) string {
		return time.Duration(math.Round(s*10) * float64(100*time.Millisecond)).String()
	}
	names, recorded, played := []string{""}, []string{"recorded"}, [][]string{}
	for _, p := range r.Incidents[0].Played {
		played = append(played, []string{p.Policy})
	}
	for i, inc := range r.Incidents {
		names, recorded = append(names, fmt.Sprintf("%d %s", inc.ID, inc.Trigger)), append(recorded, "open")
		if inc.Recorded != nil {
			recorded[i+1] = seconds(*inc.Recorded)
		}
		for j, p := range inc.Played {
			played[j] = append(played[j], seconds(p.Seconds))
		}
	}
	fmt.Fprintf(o.Out, "The incidents of %s, and how long its ranks were not ready:\n", r.Job)
	(&table{names: names, columns: append([][]string{recorded}, played...), repeated: 1}).print(o.Out)
	fmt.Fprintln(o.Out, "\nWhat is recorded is until all ranks were ready, with the time that such a failure\nis assumed to take until it is seen. What is played is until all processes run;\nof incidents that overlap, the first has the time of all.")
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
