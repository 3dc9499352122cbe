// How far a gang of torch is, by what its rank 0 prints.

package real

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var (
	steps       = regexp.MustCompile(`event=step rank=0 step=(\d+) `)
	timedSteps  = regexp.MustCompile(`(?m)^(\S+) event=step rank=0 step=(\d+) `)
	stepSaid    = regexp.MustCompile(` since step (\d+);`)
	resumedFrom = regexp.MustCompile(`event=resumed rank=0 step=(\d+)`)
	saved       = regexp.MustCompile(`event=checkpoint rank=0 step=(\d+)`)
)

// trainsFrom waits until the manager has heard of steps after one so often that it expects the next one, and the gang has just gone on from a checkpoint.
func (g *stalledGang) trainsFrom(step, words int) {
	g.t.Helper()
	g.must(await(g.ctx, fmt.Sprintf("checkpoint %d after step %d is saved", words, step), func(ctx context.Context) (bool, error) {
		log, err := g.Log(ctx, g.pods()[0], 100)
		printed := steps.FindAllStringSubmatch(log, -1)
		if err != nil || len(printed) == 0 {
			return false, err
		}
		last, err := strconv.Atoi(printed[len(printed)-1][1])
		since := last % stepsSaved
		return last > step+words*stepsSaved && 0 < since && since < stepsSaved/3, err
	}))
}

// resumed returns the step that the gang has resumed from after it was restarted for a hang, and checks that its last checkpoint is of that.
func (g *stalledGang) resumed() (step int) {
	g.t.Helper()
	g.must(await(g.ctx, "rank 0 has resumed", func(ctx context.Context) (bool, error) {
		log, err := g.Log(ctx, g.pods()[0], 2000)
		hung := max(0, strings.LastIndex(log, theGangHangs))
		again, last := resumedFrom.FindStringSubmatch(log[hung:]), saved.FindAllStringSubmatch(log[:hung], -1)
		if err != nil || again == nil {
			return false, err
		}
		if len(last) == 0 || last[len(last)-1][1] != again[1] {
			g.errorf("resumed from step %s, and the checkpoints before were %v", again[1], last)
		}
		step, err = strconv.Atoi(again[1])
		return true, err
	}))
	return step
}

// inTime returns how many seconds after the last step a stall was said, by what the job and the program have recorded, and checks that it was not said before a step was overdue.
// How long after 45 s, or five times what a step takes, is a matter of how busy the machine is: that is counted, and nothing fails by it.
func (g *stalledGang) inTime(stalled metav1.Condition) int {
	g.t.Helper()
	since, said := stalled.LastTransitionTime.Time, stepSaid.FindStringSubmatch(stalled.Message)
	log, err := g.LogSince(g.ctx, g.pods()[0], since.Add(-5*time.Minute))
	g.must(err)
	var last time.Time
	var longest time.Duration
	for _, line := range timedSteps.FindAllStringSubmatch(log[max(0, strings.LastIndex(log, "event=resumed")):], -1) {
		step, err := strconv.Atoi(line[2])
		g.must(err)
		if step%stepsSaved != 0 { // nobody says it
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, line[1])
		g.must(err)
		if !last.IsZero() {
			longest = max(longest, at.Sub(last))
		}
		if last = at; len(said) > 0 && line[2] == said[1] {
			break
		}
	}
	// The clock starts again after a time in which the gang has not run, as where a busy node is not heard.
	if running := meta.FindStatusCondition(g.Job.Status.Conditions, v1alpha1.ConditionRunning); running != nil && running.LastTransitionTime.After(last) {
		last = running.LastTransitionTime.Time
	}
	after := since.Sub(last)
	g.t.Logf("said %s after the last step, of which each took %s at most", after.Round(time.Second), longest.Round(time.Millisecond))
	if last.IsZero() || after < 43*time.Second { // the times of conditions have whole seconds
		g.errorf("the job says that it stalls %s after its last step", after)
	}
	return int(after.Round(time.Second).Seconds())
}
