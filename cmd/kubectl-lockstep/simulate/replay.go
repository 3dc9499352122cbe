package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// readReplay reads the job of --replay, and the incidents that its status remembers; nil and none without the flag.
func (o *options) readReplay() (*v1alpha1.TrainingJob, *lab.History, error) {
	if o.replay == "" {
		return nil, &lab.History{}, nil
	}
	job, err := o.readJob("--replay", o.replay)
	if err != nil {
		return nil, nil, err
	}
	for _, inc := range job.Status.Incidents {
		for _, p := range inc.Pods {
			if !hasRank(job, p) {
				return nil, nil, fmt.Errorf("--replay: incident %d is about pod %q, rank %d of task %q, which the job does not have",
					inc.ID, p.Name, p.Index, p.Task)
			}
		}
	}
	history := lab.HistoryOf(job, o.costs, o.failures.repair)
	if len(history.Incidents) == 0 {
		return nil, nil, fmt.Errorf("--replay: the status of %s remembers no incident that can be played: save a job that had some", job.Name)
	}
	return job, history, nil
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

// playReplay plays the incidents under the policy of the job that had them, which is that of the first study, and under those of the
// others.
func (o *options) playReplay(ctx context.Context, h *lab.History, studies []*study) (*Replay, error) {
	recorded := studies[0]
	if err := h.Fit(recorded.setup); err != nil {
		return nil, fmt.Errorf("%s: %w", recorded.name, err)
	}
	job := recorded.job
	out := &Replay{Job: job.Name, Pods: gang.Replicas(job), Spares: gang.Spares(job), Nodes: len(recorded.setup.PodsOn)}
	if h.LostNodes() > 0 {
		out.AssumedRepairSeconds = o.failures.repair.Seconds()
	}
	for _, inc := range h.LeftOut {
		out.LeftOut = append(out.LeftOut, LeftOut{int64(inc.ID), string(inc.Trigger)})
	}
	for _, inc := range h.Incidents {
		was := Together{Recorded: seconds(inc.Down, inc.Known)}
		out.Incidents = append(out.Incidents, Incident{int64(inc.ID), inc.Same, string(inc.Trigger), was})
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
		for _, w := range h.Waits(played) {
			if d := w.Until - w.From; d >= time.Second {
				out.NoRoom = append(out.NoRoom, NoRoom{s.name, int64(h.Incidents[w.Incident].ID), w.HyperNode, tenths(d), whyNoRoom(&w.Shortage)})
			}
		}
	}
	return out, nil
}

func (t *Together) add(policy string, d time.Duration) {
	t.Played = append(t.Played, Played{policy, tenths(d)})
}

// whyNoRoom says what became of the nodes of a shortage.
func whyNoRoom(s *lab.Shortage) string {
	return fmt.Sprintf("of %d nodes %d with a pod of the job, %d lost or unhealthy, %d excluded by the policy, %d taken by other jobs then",
		s.Nodes, s.InUse, s.Lost, s.Excluded, s.Taken)
}

// seconds is a time where it is known.
func seconds(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	return new(tenths(d))
}

// tenths is a time in seconds, to a tenth.
func tenths(d time.Duration) float64 { return d.Round(100 * time.Millisecond).Seconds() }
