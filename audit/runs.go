// Runs: when programs ran, as their supervisors have logged it.

package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clocksApart is how far the clocks of two nodes may be apart.
const clocksApart = time.Second

// reportLine is what lockstep-run logs of each report to the manager.
var reportLine = regexp.MustCompile(`time=(\S+) level=INFO msg=Reporting from=lockstep-run state=([A-Z]+) epoch=(\d+)`)

// stateReport is one report of a supervisor.
type stateReport struct {
	at    time.Time
	state string
	epoch int64
}

// run is the time in which the program of a pod may have run in one epoch.
type run struct {
	pod      *pod
	epoch    int64
	from, to time.Time
	// started is whether the program began with it; one that goes on in a later epoch began before.
	started bool
	// goesOn is whether the program goes on in a later epoch.
	goesOn bool
}

// readReports reads what supervisors have logged, by the UID of the pod, from a folder as a kubelet keeps it:
// NAMESPACE_NAME_UID/CONTAINER/N.log.
func readReports(dir fs.FS) (map[string][]stateReport, error) {
	names, err := fs.Glob(dir, "*_*_*/*/*.log")
	if err == nil && len(names) == 0 {
		err = errors.New("there is no log like NAMESPACE_POD_UID/CONTAINER/0.log")
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]stateReport{}
	for _, name := range names {
		folder, _, _ := strings.Cut(name, "/")
		uid := folder[strings.LastIndexByte(folder, '_')+1:]
		found, err := reportsOf(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[uid] = append(all[uid], found...)
	}
	for _, reports := range all {
		slices.SortStableFunc(reports, func(a, b stateReport) int { return a.at.Compare(b.at) })
	}
	return all, nil
}

func reportsOf(dir fs.FS, name string) ([]stateReport, error) {
	file, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []stateReport
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		m := reportLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			return nil, err
		}
		epoch, err := strconv.ParseInt(m[3], 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, stateReport{at, m[2], epoch})
	}
	return out, lines.Err()
}

// runsOf are the runs of a pod's program, which last until the end of the pod, or of the log, at most: what runs on where a node was silent
// is not known to the API server.
func runsOf(p *pod, reports []stateReport, end time.Time) []run {
	var out []run
	var open *run
	for _, r := range reports {
		runs := r.state == "RUNNING"
		if open != nil && (runs && r.epoch == open.epoch || r.state == "STOPPING" || r.state == "TERMINATING") {
			continue // it has yet to end
		}
		goesOn := open != nil && runs
		if open != nil {
			open.to, open.goesOn = r.at, goesOn
			out, open = append(out, *open), nil
		}
		if runs {
			open = &run{pod: p, epoch: r.epoch, from: r.at, started: !goesOn}
		}
	}
	if open != nil {
		open.to = end
		out = append(out, *open)
	}
	for i := range out {
		if out[i].to.After(end) {
			out[i].to = end
		}
	}
	return out
}

// oneEpoch finds programs that began to run in an epoch of their gang while one of an earlier epoch ran.
func oneEpoch(runs []run) []Violation {
	var out []Violation
	for _, later := range runs {
		if !later.started {
			continue
		}
		for _, earlier := range runs {
			meets := earlier.from.Before(later.from) && earlier.to.After(later.from.Add(clocksApart))
			if meets && earlier.epoch < later.epoch && !earlier.goesOn {
				out = append(out, Violation{Time: later.from, Rule: ruleOneEpoch, Message: fmt.Sprintf(
					"the program of pod %s started in epoch %d while that of pod %s ran in epoch %d", nameOf(later.pod), later.epoch, nameOf(earlier.pod), earlier.epoch)})
				break
			}
		}
	}
	return out
}

// checkRuns checks what the supervisors of each gang have logged, by what the audit log tells of their pods.
func (c *checker) checkRuns(dir fs.FS, end time.Time) ([]Violation, int, error) {
	reports, err := readReports(dir)
	if err != nil {
		return nil, 0, err
	}
	gangs, n := map[string][]run{}, 0
	for uid, of := range reports {
		p := c.ranks[uid]
		if p == nil {
			continue // it is no rank's, or older than the log
		}
		n += len(of)
		until := end
		for _, ended := range []map[string]time.Time{c.world.gone, c.world.ended, c.world.lost} {
			if at, is := ended[uid]; is && at.Before(until) {
				until = at
			}
		}
		r, _ := c.rankOf(p)
		key := fmt.Sprint(r.job, " ", p.attempt())
		gangs[key] = append(gangs[key], runsOf(p, of, until)...)
	}
	var out []Violation
	for _, runs := range gangs {
		out = append(out, oneEpoch(runs)...)
	}
	slices.SortFunc(out, func(a, b Violation) int { return a.Time.Compare(b.Time) })
	return out, n, nil
}
