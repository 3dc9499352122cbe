// Checking a log.

package audit

import (
	"fmt"
	"io"
	"io/fs"
	"time"
)

// Options of a check.
type Options struct {
	// Manager is the user name by which the API server knows the manager. Default: that of the ServiceAccount lockstep-manager in the
	// namespace lockstep-system.
	Manager string
	// Max is how many violations are reported at most. Default: 100.
	Max int
	// PodLogs are the logs of pods as a kubelet keeps them in /var/log/pods, those of all nodes together. Where given, rule OneEpoch reads
	// what supervisors have logged. Default: none.
	PodLogs fs.FS
}

// Report is what a log has shown.
type Report struct {
	// Lines of the log that changed an object, and how many of them are the manager's.
	Lines     int `json:"writes"`
	ByManager int `json:"byManager"`
	// Jobs and Pods of TrainingJobs that it has shown.
	Jobs int `json:"trainingJobs"`
	Pods int `json:"pods"`
	// Reports of supervisors that the logs of these pods have shown.
	Reports int `json:"reports,omitempty"`
	// From and To are when its first and its last line were answered.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Rules that were checked, in the order of README.md.
	Rules      []string    `json:"rules"`
	Violations []Violation `json:"violations,omitempty"`
}

const (
	defaultManager = "system:serviceaccount:lockstep-system:lockstep-manager"
	defaultMax     = 100
)

// checker plays a log.
type checker struct {
	manager string
	world   *world
	// due are the pods that a step restarts, by UID, and since when; overSince the holds that should be gone.
	due, overSince map[string]time.Time
	// told is what was reported, and seenKeys are the keys of the holds of jobs that the log has shown.
	told, seenKeys map[string]bool
	// ranks are all pods of ranks that the log has shown, by UID, each as it was last; latest the last one of each rank that is no spare.
	ranks  map[string]*pod
	latest map[place]*pod
	// began is when pods got their nodes, by UID; zero for those that had theirs when the log began.
	began map[string]time.Time
	// founded are the incarnations that ranks, or all of a task, got with a reason.
	founded map[place]int
	// stepAt is when an incident last replaced the ranks that failed, by its key.
	stepAt map[string]time.Time
	// managerAt is when the manager last wrote anything, backAt when it first did after a silence, and spoke when it wrote the status of a job, by
	// UID.
	managerAt, backAt time.Time
	spoke             map[string]time.Time
	// lifts are the gates that the manager has lifted, by the UID of the pod, and homeAt is when the home of a job last changed.
	lifts  map[string]lift
	homeAt map[string]time.Time
	// spells are the conditions that may not last, by key. looks reports whether they are checked after this line; lookedAt and lookedBefore are
	// the last two checks.
	spells                 map[string]spell
	looks                  bool
	lookedAt, lookedBefore time.Time
}

func newChecker(manager string) *checker {
	return &checker{
		manager: manager, world: newWorld(), due: map[string]time.Time{}, overSince: map[string]time.Time{}, told: map[string]bool{}, seenKeys: map[string]bool{},
		ranks: map[string]*pod{}, latest: map[place]*pod{}, began: map[string]time.Time{}, founded: map[place]int{},
		stepAt: map[string]time.Time{}, spoke: map[string]time.Time{}, spells: map[string]spell{},
		lifts: map[string]lift{}, homeAt: map[string]time.Time{},
	}
}

// Check plays the audit logs of a cluster's API servers, and reports what does not hold. Requests are played in the order in which they were
// answered, whatever the order of the logs. It returns an error where a log cannot be read, there are no objects, or there are TrainingJobs
// and no request of the manager.
func Check(o Options, logs ...io.Reader) (*Report, error) {
	if o.Manager == "" {
		o.Manager = defaultManager
	}
	if o.Max == 0 {
		o.Max = defaultMax
	}
	entries, err := read(logs)
	if err != nil {
		return nil, err
	}
	c, report := newChecker(o.Manager), &Report{}
	for _, r := range rules {
		report.Rules = append(report.Rules, r.name)
	}
	for i := range entries {
		line, err := c.world.take(&entries[i])
		if err != nil {
			return nil, err
		}
		if line.isUnsure() {
			continue
		}
		report.count(c, line)
		c.note(line)
		for _, r := range rules {
			message := r.check(c, line)
			if message != "" && len(report.Violations) < o.Max {
				report.Violations = append(report.Violations, Violation{Line: line.line, Time: c.world.now, Rule: r.name, Message: message})
			}
		}
	}
	report.Jobs, report.Pods = len(c.seenKeys), len(c.ranks)
	if report.Jobs > 0 && report.ByManager == 0 {
		return nil, fmt.Errorf("no request in the log is the manager's, %s: give its user name with --manager; each line of the log has one as user.username", o.Manager)
	}
	if o.PodLogs != nil {
		found, n, err := c.checkRuns(o.PodLogs, report.To)
		if err != nil {
			return nil, fmt.Errorf("read the logs of pods: %w", err)
		}
		report.Reports, report.Rules = n, append(report.Rules, ruleOneEpoch)
		report.Violations = append(report.Violations, found[:min(len(found), o.Max-len(report.Violations))]...)
	}
	return report, nil
}

// note keeps what a line shows, for the lines after it.
func (c *checker) note(line *change) {
	if c.byManager(line) {
		if c.world.now.Sub(c.managerAt) > silentFor {
			c.backAt = c.world.now
		}
		c.managerAt = c.world.now
	}
	c.notePod(line)
	c.noteHome(line)
	c.noteLift(line)
	c.noteReasons(line)
	c.noteSteps(line)
	if c.looks = c.world.now.Sub(c.lookedAt) >= lookEvery; c.looks {
		c.lookedBefore, c.lookedAt = c.lookedAt, c.world.now
	}
}

// rankOf is the place of a pod in its job, as the job's status has it by now.
func (c *checker) rankOf(p *pod) (rank, bool) {
	of, ok := p.rank()
	if by, _, moved := c.world.job(of.job).holder(p); ok && moved {
		return by, true
	}
	return of, ok
}

// incarnationOf is that of a pod: the one that it was given, or that a spare took over with.
func (c *checker) incarnationOf(p *pod) int {
	of, _ := p.rank()
	if _, entry, moved := c.world.job(of.job).holder(p); moved && entry.UID == p.Metadata.UID {
		return max(p.incarnation(), entry.Incarnation)
	}
	return p.incarnation()
}

// notePod keeps what a line shows of the pod of a rank.
func (c *checker) notePod(line *change) {
	p := line.podIs
	if p == nil {
		return
	}
	of, ok := c.rankOf(p)
	if !ok {
		return
	}
	uid := p.Metadata.UID
	at := place{of.job, of.task, of.index}
	if last := c.latest[at]; !of.spare && (last == nil || last.Metadata.UID == uid || c.ranks[uid] == nil) {
		c.latest[at] = p
	}
	c.ranks[uid] = p
	if _, known := c.began[uid]; !known && p.Spec.NodeName != "" {
		c.began[uid] = time.Time{}
		if line.podWas != nil || line.Verb == "create" {
			c.began[uid] = c.world.now
		}
	}
}

// count notes a line.
func (r *Report) count(c *checker, line *change) {
	if r.Lines == 0 {
		r.From = c.world.now
	}
	r.Lines++
	r.To = c.world.now
	if c.byManager(line) {
		r.ByManager++
	}
	if line.jobIs != nil {
		c.seenKeys[keyOf(line.jobIs)] = true
	}
}
