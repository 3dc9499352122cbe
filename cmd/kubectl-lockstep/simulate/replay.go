package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// replay plays the incidents that the status of a job remembers under other policies.
type replay struct {
	recorded *v1alpha1.TrainingJob
	history  *lab.History
	repair   time.Duration // of a node that was not seen to come back
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
	r := &replay{recorded: job, history: lab.HistoryOf(job, o.costs, o.failures.repair), repair: o.failures.repair}
	if len(r.history.Incidents) == 0 {
		return nil, errors.New("--replay: the status of " + job.Name + " remembers no incident that can be played: save a job that had some with kubectl get trainingjob NAME -o yaml")
	}
	return r, nil
}

func hasRank(job *v1alpha1.TrainingJob, p v1alpha1.IncidentPod) bool {
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return t.Name == p.Task && p.Index >= 0 && p.Index < t.Replicas })
}

// Replay is how long each incident took, and takes under other policies.
type Replay struct {
	Job       string     `json:"job"`
	Pods      int32      `json:"pods"`
	Spares    int32      `json:"spares,omitempty"`
	Nodes     int        `json:"nodes"`
	Incidents []Incident `json:"incidents"`
	// Together is for how long ranks were down because of any of them.
	Together Together `json:"together"`
	// NoRoom are the waits for a node.
	NoRoom []NoRoom `json:"noRoom,omitempty"`
	// AssumedRepairSeconds is for how long a node is away that was not seen to come back; left out where there was none.
	AssumedRepairSeconds float64 `json:"assumedRepairSeconds,omitempty"`
	// LeftOut are the incidents that tell of no failure, and so are not played.
	LeftOut []LeftOut `json:"leftOut,omitempty"`
}

// Incident is one that was played.
type Incident struct {
	ID int64 `json:"id"`
	// Same are further incidents of the same failure, which is played once.
	Same    []int32 `json:"same,omitempty"`
	Trigger string  `json:"trigger"`
	Together
}

// Together is how long ranks were down as it was recorded, and as it was played.
type Together struct {
	// Recorded is nil where an incident is open.
	Recorded *float64 `json:"recordedSeconds,omitempty"`
	Played   []Played `json:"played"`
}

// Played is how long ranks were down under a policy.
type Played struct {
	Policy  string  `json:"policy"`
	Seconds float64 `json:"seconds"`
}

// NoRoom is a wait of an incident for a node.
type NoRoom struct {
	Policy string `json:"policy"`
	ID     int64  `json:"id"`
	// HyperNode whose nodes the job may use; empty for all.
	HyperNode string  `json:"hyperNode,omitempty"`
	Seconds   float64 `json:"seconds"`
	// Why is what became of the nodes.
	Why string `json:"why"`
}

// LeftOut is an incident that is not played.
type LeftOut struct {
	ID      int64  `json:"id"`
	Trigger string `json:"trigger"`
}

// asItWas names the job with the policy that it had.
const asItWas = "as it was"

// play plays the incidents under the policy of the job that had them, which is that of the first study, and under those of the others.
func (r *replay) play(ctx context.Context, studies []*study) (*Replay, error) {
	h := r.history
	if err := h.Fit(studies[0].setup); err != nil {
		return nil, fmt.Errorf("%s: %w", studies[0].name, err)
	}
	out := &Replay{Job: r.recorded.Name, Pods: gang.Replicas(r.recorded), Spares: gang.Spares(r.recorded), Nodes: countNodes(&studies[0].setup)}
	if h.LostNodes() > 0 {
		out.AssumedRepairSeconds = r.repair.Seconds()
	}
	for _, inc := range h.LeftOut {
		out.LeftOut = append(out.LeftOut, LeftOut{int64(inc.ID), string(inc.Trigger)})
	}
	for i := range h.Incidents {
		inc := &h.Incidents[i]
		one := Incident{ID: int64(inc.ID), Same: inc.Same, Trigger: string(inc.Trigger)}
		one.Recorded = seconds(inc.Down, inc.Known)
		out.Incidents = append(out.Incidents, one)
	}
	out.Together.Recorded = seconds(h.RecordedTogether())
	for _, s := range studies {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		played, err := h.Play(s.setup)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for i := range out.Incidents {
			out.Incidents[i].add(s.name, h.Down(played, i))
		}
		out.Together.add(s.name, h.Together(played))
		out.NoRoom = append(out.NoRoom, noRoom(h, s.name, played)...)
	}
	return out, nil
}

func (t *Together) add(policy string, d time.Duration) {
	t.Played = append(t.Played, Played{policy, tenths(d)})
}

// noRoom are the waits for a node of a play.
func noRoom(h *lab.History, policy string, played *lab.Result) []NoRoom {
	var out []NoRoom
	for _, w := range h.Waits(played) {
		if d := w.Until - w.From; d >= time.Second {
			out = append(out, NoRoom{Policy: policy, ID: int64(h.Incidents[w.Incident].ID), HyperNode: w.HyperNode, Seconds: tenths(d), Why: whyNoRoom(&w.Shortage)})
		}
	}
	return out
}

// whyNoRoom says what became of the nodes of a shortage.
func whyNoRoom(s *lab.Shortage) string {
	text := []string{fmt.Sprintf("of %d nodes %d %s a pod of the job", s.Nodes, s.InUse, plural(s.InUse, "has", "have"))}
	for _, part := range []struct {
		n    int
		what string
	}{{s.Lost, "lost or ill"}, {s.Excluded, "excluded by the policy"}, {s.Taken, "taken by other jobs then"}} {
		if part.n > 0 {
			text = append(text, fmt.Sprintf("%d %s %s", part.n, plural(part.n, "is", "are"), part.what))
		}
	}
	return strings.Join(text, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// seconds is a time where it is known.
func seconds(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	return new(tenths(d))
}

// tenths is a time in seconds, to a tenth; of less than a second to a hundredth.
func tenths(d time.Duration) float64 {
	if d < time.Second {
		return d.Round(10 * time.Millisecond).Seconds()
	}
	return d.Round(100 * time.Millisecond).Seconds()
}
