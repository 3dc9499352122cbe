// Package top shows TrainingJobs, one of them, or the nodes as they are now, on one screen. It reads nothing: the same snapshot gives the
// same screen.
package top

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
)

// Snapshot is what a screen is drawn of.
type Snapshot struct {
	// Now is the time of the cluster.
	Now time.Time
	// Jobs in any order.
	Jobs []v1alpha1.TrainingJob
	// Namespaces reports whether the jobs are of all namespaces.
	Namespaces bool
}

// Screen is the size of a terminal. Height 0 is a text of any length.
type Screen struct{ Width, Height int }

// DrawJobs draws a line for each job, by their states.
func (s *Snapshot) DrawJobs(screen Screen) string {
	jobs := Of(s.Jobs, s.Now)
	slices.SortStableFunc(jobs.Jobs, func(a, b Job) int {
		state := func(j Job) int { return slices.Index(States, string(j.State)) }
		return cmp.Or(state(a)-state(b), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out bytes.Buffer
	lines.Print(&out, s.clock()+" "+jobs.title(), screen.Width)
	columns := []string{"NAMESPACE", "NAME", "STATE", "READY", "GPUS", "ETTR", "INCIDENT", "PHASE", "NEXT"}
	if slices.ContainsFunc(jobs.Jobs, func(j Job) bool { return j.Progress != nil }) {
		columns = slices.Insert(columns, slices.Index(columns, "INCIDENT"), "PROGRESS")
	}
	if !s.Namespaces {
		columns = columns[1:]
	}
	if len(jobs.Jobs) > 0 {
		jobs.Print(&out, columns, false, screen.Width)
	}
	return out.String()
}

func (s *Snapshot) clock() string { return s.Now.UTC().Format(time.TimeOnly) + " UTC." }

// title counts the jobs by state, and the GPUs of those that have some.
func (jobs *Jobs) title() string {
	states, gpus := map[string]int{}, int64(0)
	for i := range jobs.Jobs {
		j := &jobs.Jobs[i]
		states[string(j.State)]++
		if j.Placed {
			gpus += j.GPUs
		}
	}
	var parts []string
	for _, state := range append([]string{""}, States...) {
		if n := states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, cmp.Or(state, "new")))
		}
	}
	return fmt.Sprintf("Jobs: %d (%s), GPUs in use: %d.", len(jobs.Jobs), cmp.Or(strings.Join(parts, ", "), "none"), gpus)
}

// maxIncidents is how many incidents of one job are shown: the last ones.
const maxIncidents = 3

// DrawJob draws the only job of a snapshot: its line, and the timeline of its last incidents.
func (s *Snapshot) DrawJob(screen Screen) string {
	var out bytes.Buffer
	out.WriteString(s.DrawJobs(screen))
	job := &s.Jobs[0]
	if job.Status.Message != "" {
		lines.Print(&out, job.Status.Message, screen.Width)
	}
	fmt.Fprintln(&out)
	all := timeline.Of(job, s.Now)
	all.Incidents = all.Incidents[max(0, len(all.Incidents)-maxIncidents):]
	timeline.Print(&out, &all)
	return out.String()
}

// leastMap and mostMap are how many lines the map may have at least, and at most on a screen of any height.
const leastMap, mostMap = 20, 60

// DrawNodes draws the map of a fleet, and below it the nodes that are not well. In use are the nodes that the jobs of the snapshot were placed
// on: pods are not looked at.
func (s *Snapshot) DrawNodes(fleet *fleetmap.Fleet, screen Screen) string {
	fleet.Place(s.Jobs)
	var below bytes.Buffer
	if unhealthy, err := fleet.List("", true); err == nil && len(unhealthy.Nodes) > 0 {
		unhealthy.Unread = nil // the map has it
		fmt.Fprintln(&below)
		unhealthy.Print(&below, screen.Width, s.Now)
	}
	limit := mostMap
	if screen.Height > 0 {
		limit = max(leastMap, screen.Height-2-bytes.Count(below.Bytes(), []byte("\n")))
	}
	return s.clock() + "\n" + strings.Join(fleetmap.Draw(fleet, nil, limit), "\n") + "\n" + below.String()
}

// Fit cuts a text to a screen, and says how much is left out, and why it may be old if there is a problem.
func Fit(text, problem string, screen Screen) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	room := screen.Height
	if problem != "" {
		room--
	}
	if left := len(all) - room; left > 0 && screen.Height > 0 {
		all = append(all[:max(0, room-1)], fmt.Sprintf("... and %d more lines: a taller terminal shows them, --once prints all", left+1))
	}
	if problem != "" {
		all = append(all, "This may be old: "+problem)
	}
	for i := range all {
		all[i] = lines.Cut(strings.TrimRight(all[i], " "), screen.Width)
	}
	return strings.Join(all, "\n")
}
