// The tables.

package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/test/readme"
)

const simulatedPreface = `Kubernetes %s, Volcano %s, on %d cores: simulated kubelets. Programs and kubelets are played, with times that the lab is given, too: the
other ranks exit 2 s after one is lost, and the kubelet restarts a container after 1 s.
`

const realPreface = `Kubernetes %s, Volcano %s, on %d cores: real kubelets and the training program of test/workloads. A rank is ready as long as it trains.
`

// report is what was compared.
type report struct {
	costs lab.Costs
	lines []line
}

// line is a trial with its two outcomes.
type line struct {
	trial               trial
	measured, predicted outcome
}

// phases are the last columns.
var phases = []incident.Phase{incident.Detect, incident.Decide, incident.Place, incident.WaitForRoom, incident.Start}

// summary is the part of the page: all incidents together.
func summary(r *report, preface string, v readme.Versions) string {
	return fmt.Sprintf(preface, v.Kubernetes, v.Volcano, runtime.NumCPU()) + r.sum()
}

// table has a line for each incident.
func table(r *report, preface string, v readme.Versions) string {
	var page strings.Builder
	fmt.Fprintf(&page, preface, v.Kubernetes, v.Volcano, runtime.NumCPU())
	c := &r.costs
	fmt.Fprintf(&page, "Costs from three other failures: RestartInPlace %s, PeerAbort %s, Restore %s, React %s, Stop %s, Recreate %s, Schedule %s, Start\n%s, NodeNotReady %s (in seconds).\n\n",
		seconds(c.RestartInPlace), seconds(c.PeerAbort), seconds(c.Restore), seconds(c.React), seconds(c.Stop), seconds(c.Recreate), seconds(c.Schedule), seconds(c.Start), seconds(c.NodeNotReady))
	page.WriteString("| what failed | policy | steps taken | down, measured / predicted |")
	for _, p := range phases {
		fmt.Fprintf(&page, " %s |", p)
	}
	page.WriteString("\n| --- | --- | --- | ---: |" + strings.Repeat(" ---: |", len(phases)) + "\n")
	for _, l := range r.lines {
		page.WriteString(l.row())
	}
	page.WriteString("\n" + r.sum())
	return page.String()
}

// row is a line of the table: measured / predicted, in seconds.
func (l *line) row() string {
	cells := []string{l.trial.what, l.trial.policy, l.steps(), pair(l.measured.Down, l.predicted.Down)}
	for _, p := range phases {
		cells = append(cells, pair(l.measured.In[p], l.predicted.In[p]))
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func pair(measured, predicted time.Duration) string {
	return seconds(measured) + " / " + seconds(predicted)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

// steps are those that were taken, and beside them those of the lab where they differ.
func (l *line) steps() string {
	if l.sameSteps() {
		return names(l.measured.Steps)
	}
	return names(l.measured.Steps) + "; **predicted: " + names(l.predicted.Steps) + "**"
}

func (l *line) sameSteps() bool { return slices.Equal(l.measured.Steps, l.predicted.Steps) }

func names(steps []v1alpha1.Action) string {
	if len(steps) == 0 {
		return "none"
	}
	var out []string
	for _, s := range steps {
		out = append(out, string(s))
	}
	return strings.Join(out, ", ")
}

// differences are how far measured and predicted are apart, over all lines.
type differences struct {
	same                int // incidents with the same steps
	median              time.Duration
	measured, predicted time.Duration
	ratio               float64
}

func (r *report) differences() differences {
	var d differences
	var errs []time.Duration
	for _, l := range r.lines {
		errs = append(errs, (l.predicted.Down - l.measured.Down).Abs())
		d.measured, d.predicted = d.measured+l.measured.Down, d.predicted+l.predicted.Down
		if l.sameSteps() {
			d.same++
		}
	}
	d.median, d.ratio = median(errs), math.NaN()
	if d.measured > 0 {
		d.ratio = d.predicted.Seconds() / d.measured.Seconds()
	}
	return d
}

func (r *report) sum() string {
	d := r.differences()
	return fmt.Sprintf("The steps are the same in %d of %d incidents. The median absolute error of the downtime is %s s. All of it together: %s s\nmeasured, %s s predicted, a ratio of %.2f.\n",
		d.same, len(r.lines), seconds(d.median), seconds(d.measured), seconds(d.predicted), d.ratio)
}

// The lab agrees where the steps of all incidents but one are the same, a race of kubelets being what it does not foresee, and all of the
// downtime together is predicted to a fifth.
const (
	maxOtherSteps = 1
	maxRatio      = 1.25
)

// disagreement says what the lab does not predict; nil where it agrees.
func (r *report) disagreement() error {
	d := r.differences()
	switch other := len(r.lines) - d.same; {
	case other > maxOtherSteps:
		return fmt.Errorf("%d incidents have other steps than the lab predicts, and at most %d may", other, maxOtherSteps)
	case !(d.ratio <= maxRatio && d.ratio >= 1/maxRatio):
		return fmt.Errorf("the ratio of predicted to measured downtime is %.2f, and has to be from %.2f to %.2f", d.ratio, 1/maxRatio, maxRatio)
	}
	return nil
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
