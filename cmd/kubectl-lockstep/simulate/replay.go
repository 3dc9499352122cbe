package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
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
	job, err := o.readJob(o.replay)
	if err != nil {
		return nil, nil, err
	}
	for _, inc := range job.Status.Incidents {
		for _, p := range inc.Pods {
			known := func(t v1alpha1.Task) bool { return t.Name == p.Task && p.Index >= 0 && p.Index < t.Replicas }
			if !slices.ContainsFunc(job.Spec.Tasks, known) {
				return nil, nil, fmt.Errorf("--replay: incident %d is about pod %q, rank %d of task %q, which the job does not have",
					inc.ID, p.Name, p.Index, p.Task)
			}
		}
	}
	history := lab.HistoryOf(job, o.costs, o.repair)
	if len(history.Incidents) == 0 {
		return nil, nil, fmt.Errorf("--replay: the status of %s remembers no incident that can be played: save a job that had some", job.Name)
	}
	return job, history, nil
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
	// LeftOut are the incidents without a failure of their own, which are not played.
	LeftOut []Incident `json:"leftOut,omitempty"`
}

// Incident is one that was played, or left out.
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
	Played   []Played `json:"played,omitempty"`
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

// asItWas names the job with the policy that it had.
const asItWas = "as it was"

// playReplay plays the incidents under the policy of the job that had them, which is that of the first study, and under those of the
// others. It prints what comes of that as text.
func (o *options) playReplay(ctx context.Context, text io.Writer, h *lab.History, studies []*study) (*Replay, error) {
	recorded := studies[0]
	if err := h.Fit(recorded.setup); err != nil {
		return nil, fmt.Errorf("%s: %w", recorded.name, err)
	}
	job := recorded.job
	out := &Replay{Job: job.Name, Pods: gang.Replicas(job), Spares: gang.Spares(job), Nodes: len(recorded.setup.PodsOn)}
	if h.LostNodes() > 0 {
		out.AssumedRepairSeconds = o.repair.Seconds()
	}
	for _, inc := range h.LeftOut {
		out.LeftOut = append(out.LeftOut, Incident{ID: int64(inc.ID), Trigger: string(inc.Trigger)})
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
			inc := &out.Incidents[i]
			inc.Played = append(inc.Played, Played{s.name, tenths(h.Down(played, i))})
		}
		out.Together.Played = append(out.Together.Played, Played{s.name, tenths(h.Together(played))})
		for _, w := range h.Waits(played) {
			if d := w.Until - w.From; d >= time.Second {
				why := fmt.Sprintf("of %d nodes %d with a pod of the job, %d lost or unhealthy, %d excluded by the policy, "+
					"%d taken by other jobs then", w.Nodes, w.InUse, w.Lost, w.Excluded, w.Taken)
				out.NoRoom = append(out.NoRoom, NoRoom{s.name, int64(h.Incidents[w.Incident].ID), w.HyperNode, tenths(d), why})
			}
		}
	}
	out.print(text)
	return out, nil
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

// print prints a replay as a table with a line for each incident, and in sentences what its figures do not show.
func (r *Replay) print(out io.Writer) {
	fmt.Fprintf(out, "The incidents of %s, %s on %d nodes, and how long not all ranks ran:\n\n",
		r.Job, podsAndSpares(r.Pods, r.Spares), r.Nodes)
	printTable(out, r.rows())
	fmt.Fprintln(out)
	for _, n := range r.NoRoom {
		say(out, "%s, incident %d: no healthy free node is left in %s until %s later: %s.",
			n.Policy, n.ID, cmp.Or(n.HyperNode, "the cluster"), formatSeconds(n.Seconds), n.Why)
	}
	if len(r.NoRoom) > 0 {
		say(out, "More nodes (--nodes, or a --topology with free ones), a shorter --repair, "+
			"or a shorter excludeNodeSeconds of the policy shorten such waits.")
		fmt.Fprintln(out)
	}
	if len(r.LeftOut) > 0 {
		var names []string
		for _, l := range r.LeftOut {
			names = append(names, l.name())
		}
		say(out, "Not played, as they tell of no failure of their own: %s.", strings.Join(names, ", "))
	}
	say(out, replayNotes)
	if r.AssumedRepairSeconds > 0 {
		repair := time.Duration(r.AssumedRepairSeconds * float64(time.Second))
		say(out, "A node that was not seen to come back is away for %s (--repair).", formatSpan(repair))
	}
}

const replayNotes = `Each time is from when the failure was seen until all ranks ran. Where the next
incident came before that, both have the time from then on, and it counts once
in all of them together. What is played has the times that things took in the
record: how fast a pod starts is that of the incident, and when it is restarted
is the policy's. If no node was missing and the time as it was still differs
from the recorded one, the policy may have been another one then.`

// rows are those of the table, with a column for what was recorded and one for each policy.
func (r *Replay) rows() [][]string {
	rows := [][]string{{"", "recorded"}}
	for _, p := range r.Together.Played {
		rows[0] = append(rows[0], p.Policy)
	}
	add := func(name string, t *Together) {
		row := []string{name, "open"}
		if t.Recorded != nil {
			row[1] = formatSeconds(*t.Recorded)
		}
		for _, p := range t.Played {
			row = append(row, formatSeconds(p.Seconds))
		}
		rows = append(rows, row)
	}
	for i := range r.Incidents {
		add(r.Incidents[i].name(), &r.Incidents[i].Together)
	}
	add("together", &r.Together)
	return rows
}

// name is the incident's id, those of the further ones, and its trigger: 1+2 NodeGone.
func (i *Incident) name() string {
	ids := []string{fmt.Sprint(i.ID)}
	for _, id := range i.Same {
		ids = append(ids, fmt.Sprint(id))
	}
	return strings.Join(ids, "+") + " " + i.Trigger
}
