package lab

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Result is what a play came to.
type Result struct {
	// Wall is how long was played, Trained how much training came of it that no failure took back, and Lost what was trained and
	// taken back. The rest of Wall was Down, or went into checkpoints.
	Wall, Trained, Lost, Down time.Duration
	// Slowed is the training that did not happen because the job was slower than it could be; Trained is without it.
	Slowed time.Duration
	// ETTR is the effective training time ratio: Trained by Wall.
	ETTR float64
	// DownIn is Down by phase.
	DownIn [Phases]time.Duration
	// Outages are the times in which the job did not train, the first one until it had started.
	Outages []Outage
	// Downtime is Down in order: what the job waited for, and when.
	Downtime []Span
	// Shortages are the times in which no node was free for a pod.
	Shortages []Shortage
	// Failures that hit a node of a rank, by cause, and the time lost by them: Down and Lost.
	Failures map[string]int
	LostBy   map[string]time.Duration
	// Places counts where replaced ranks came back.
	Places [Localities]int
	// Rules are those that an incident was given to.
	Rules map[string]bool
	// Incidents that the job's status remembers at the end; their times count from Begin.
	Incidents []v1alpha1.Incident
	// Restarts as the job's status counts them at the end.
	Restarts v1alpha1.Restarts
	// Failed is why the job failed before the end; empty where it did not.
	Failed string
	// Decisions is how often the manager looked.
	Decisions int
}

// Outage is a time in which a job did not train.
type Outage struct {
	// At is when it began, since the play began.
	At time.Duration
	// Cause is that of the failure that began it. Of failures that overlap it is the first one.
	Cause string
	// Lost is what was trained since the last checkpoint.
	Lost time.Duration
	// In is how long it lasted, by phase.
	In [Phases]time.Duration
}

// Down is how long an outage lasted.
func (o *Outage) Down() time.Duration {
	return sumOf(o.In)
}

func sumOf(in [Phases]time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range in {
		sum += d
	}
	return sum
}

// tally counts while a play goes on.
type tally struct {
	trained, slowed time.Duration
	outages         []Outage
	downtime        []Span
	shortages       []Shortage
	failures        map[string]int
	// cause is that of the last failure that hit a job that trained.
	cause  string
	places [Localities]int
	rules  map[string]bool
	failed string
}

// start is the cause of the time until the job first trains.
const start = "start"

func newTally() tally {
	return tally{failures: map[string]int{}, rules: map[string]bool{}, outages: []Outage{{Cause: start}}}
}

// strike counts a failure that hits a rank.
func (t *tally) strike(w *world, cause string, hit []*node) {
	if !slices.ContainsFunc(w.pods, func(p *pod) bool { return !p.Spare && slices.Contains(hit, w.nodes[p.Node]) }) {
		return
	}
	t.failures[cause]++
	if w.program.training {
		t.cause = cause
	}
}

// stop notes that training has stopped. What was trained since the last checkpoint is lost.
func (t *tally) stop(w *world, since, savedAt time.Time) {
	kept, lost := w.Costs.split(w.now.Sub(since))
	if !savedAt.IsZero() {
		asked, _ := w.Costs.whole(savedAt.Sub(since))
		if asked > kept {
			lost -= asked - kept
			kept = asked
		}
	}
	t.trained += kept
	t.outages = append(t.outages, Outage{At: w.now.Sub(Begin), Cause: t.cause, Lost: lost})
}

// giveBack notes that no more was lost when training stopped.
func (t *tally) giveBack(lost time.Duration) {
	o := &t.outages[len(t.outages)-1]
	back := max(0, o.Lost-lost)
	t.trained, o.Lost = t.trained+back, o.Lost-back
}

// split says how much of the training of some time a checkpoint has, and how much is lost: what is expected of a failure that may
// as well have come a little earlier or later, half of an interval. What really is lost jumps by a whole interval, where a restart that is
// a second faster or slower makes the next failure come before or after a checkpoint: no number of plays would tell what the second is
// worth.
func (c *Costs) split(d time.Duration) (kept, lost time.Duration) {
	trained, _ := c.whole(d)
	lost = min(trained, c.CheckpointInterval/2)
	return trained - lost, lost
}

// whole is all training of some time, and what went into checkpoints.
func (c *Costs) whole(d time.Duration) (trained, writing time.Duration) {
	share := float64(c.CheckpointInterval) / float64(c.CheckpointInterval+c.CheckpointWrite)
	trained = time.Duration(float64(d) * share)
	return trained, d - trained
}

// noteStatus notes which rules applied, and how the job ended.
func (w *world) noteStatus(before, after *v1alpha1.TrainingJobStatus) {
	for i := range after.Incidents {
		w.tally.rules[after.Incidents[i].Rule] = true
	}
	if before.State != after.State && after.State == v1alpha1.StateFailed {
		w.tally.failed = after.Message
	}
}

func (w *world) result() *Result {
	t := &w.tally
	if w.program.training {
		trained, _ := w.Costs.whole(w.now.Sub(w.program.since))
		t.trained += trained
	}
	r := &Result{
		Wall: w.For, Trained: t.trained - t.slowed, Slowed: t.slowed, ETTR: float64(t.trained-t.slowed) / float64(w.For),
		Outages: t.outages, Downtime: t.downtime, Shortages: t.shortages, Failures: t.failures, LostBy: map[string]time.Duration{}, Places: t.places, Rules: t.rules, Incidents: w.job.Status.Incidents,
		Restarts: w.job.Status.Restarts, Failed: t.failed, Decisions: w.looks,
	}
	for _, o := range t.outages {
		for p, d := range o.In {
			r.DownIn[p] += d
		}
		r.Down += o.Down()
		r.Lost += o.Lost
		r.LostBy[o.Cause] += o.Down() + o.Lost
	}
	return r
}
