// Rules: what must hold after each line. Each has a name, by which the report and README.md call it.

package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Violation is a line of the log after which something does not hold that the manager promises.
type Violation struct {
	// Line of the log, from 1, and when the API server answered it. What the logs of pods show has no line.
	Line int       `json:"line,omitempty"`
	Time time.Time `json:"time"`
	// Rule is its name, and Message what was seen.
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

func (v Violation) String() string {
	if v.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", v.Time.UTC().Format(time.RFC3339Nano), v.Rule, v.Message)
	}
	return fmt.Sprintf("line %d, %s: %s: %s", v.Line, v.Time.UTC().Format(time.RFC3339Nano), v.Rule, v.Message)
}

// rule looks at the world after a line, and says what does not hold; empty where all does.
type rule struct {
	name  string
	check func(c *checker, line *change) string
}

// The rules, in the order of README.md.
var rules = []rule{
	{"OneLife", (*checker).oneLife},
	{"OneRun", (*checker).oneRun},
	{"Deletions", (*checker).deletions},
	{"Restarts", (*checker).restarts},
	{"Reached", (*checker).reached},
	{"Incidents", (*checker).incidents},
	{"Ends", (*checker).ends},
	{"Budget", (*checker).budget},
	{"Holds", (*checker).holds},
	{"Home", (*checker).home},
	{"Fit", (*checker).fit},
	{"Admits", (*checker).admits},
	{"Quiet", (*checker).quiet},
}

// ruleOneEpoch is the rule for what supervisors have logged: no program starts in an epoch while one of an earlier epoch runs.
const ruleOneEpoch = "OneEpoch"

const (
	// restartWithin is how long the manager may take to delete the pod of a rank that a step restarts.
	restartWithin = time.Minute
	// releaseWithin is how long a hold may outlive its job or its time.
	releaseWithin = time.Minute
)

// byManager reports whether the manager has made a request.
func (c *checker) byManager(line *change) bool { return line.by() == c.manager }

// begins returns the pod of a rank that has a node from this line on, and may run there; nil where there is none.
func (c *checker) begins(line *change) (*pod, rank) {
	is := line.podIs
	if is == nil || !is.works() || (line.podWas != nil && line.podWas.works()) {
		return nil, rank{}
	}
	of, ok := c.rankOf(is)
	if !ok {
		return nil, rank{}
	}
	return is, of
}

// oneLife: no rank has two pods that have a node and have not ended.
func (c *checker) oneLife(line *change) string {
	is, of := c.begins(line)
	if is == nil {
		return ""
	}
	for uid, other := range c.world.pods {
		if r, ok := c.rankOf(other); ok && uid != is.Metadata.UID && r == of && other.works() {
			return fmt.Sprintf("pod %s is on node %s while pod %s of the same rank is on %s", nameOf(is), is.Spec.NodeName, nameOf(other), other.Spec.NodeName)
		}
	}
	return ""
}

// oneRun: no pod of an attempt works while one of an earlier attempt of the same job does, unless the node of that one is silent.
func (c *checker) oneRun(line *change) string {
	is, of := c.begins(line)
	if is == nil || of.spare {
		return ""
	}
	for _, other := range c.world.pods {
		r, ok := c.rankOf(other)
		earlier := ok && !r.spare && r.job == of.job && r != of && other.attempt() < is.attempt() && other.works()
		if n := c.world.nodes[other.Spec.NodeName]; earlier && n != nil && n.ready() {
			return fmt.Sprintf("pod %s is on node %s while pod %s of an earlier attempt is on %s", nameOf(is), is.Spec.NodeName, nameOf(other), other.Spec.NodeName)
		}
	}
	return ""
}

// deletions: the manager deletes no rank's pod that works but one that a step, a new attempt or the end of its job reaches. Spares are
// placeholders, and work at nothing.
func (c *checker) deletions(line *change) string {
	was := line.podWas
	if line.Verb != "delete" || !c.byManager(line) || was == nil || !was.works() || was.Metadata.DeletionTimestamp != nil {
		return ""
	}
	of, ok := c.rankOf(was)
	job := c.world.job(of.job)
	if !ok || of.spare || job == nil || job.rests() || was.attempt() < job.Status.Attempt || c.isFounded(was, of) {
		return ""
	}
	if c.incarnationOf(was) < job.wanted(of) {
		return fmt.Sprintf("the manager deletes pod %s on node %s, and no step and no other reason restarts its rank, although its incarnation is %d, and should be %d",
			nameOf(was), was.Spec.NodeName, c.incarnationOf(was), job.wanted(of))
	}
	return fmt.Sprintf("the manager deletes pod %s on node %s, and no step restarts its rank: its incarnation is %d, and should be %d",
		nameOf(was), was.Spec.NodeName, c.incarnationOf(was), job.wanted(of))
}

// restarts: a pod that a step restarts is deleted within a minute, unless its node is silent.
func (c *checker) restarts(*change) string {
	for uid, since := range c.due {
		p := c.world.pods[uid]
		if p == nil || !c.isDue(p) {
			delete(c.due, uid)
		} else if c.world.now.Sub(since) > restartWithin {
			delete(c.due, uid)
			c.told[uid] = true
			return fmt.Sprintf("pod %s should have been deleted since %s", nameOf(p), since.UTC().Format(time.RFC3339Nano))
		}
	}
	for uid, p := range c.world.pods {
		if _, known := c.due[uid]; !known && !c.told[uid] && c.isDue(p) {
			c.due[uid] = c.world.now
		}
	}
	return ""
}

// isDue reports whether a pod is to be deleted because a step restarts its rank.
func (c *checker) isDue(p *pod) bool {
	of, ok := c.rankOf(p)
	job := c.world.job(of.job)
	if !ok || job == nil || job.rests() || p.Metadata.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 || !p.works() {
		return false
	}
	n := c.world.nodes[p.Spec.NodeName]
	return n != nil && n.ready() && p.attempt() == job.Status.Attempt && c.incarnationOf(p) < job.wanted(of) &&
		job.Metadata.Annotations["lockstep.dev/dry-run"] != "true"
}

// incidents: an incident that has ended stays as it is, steps are only added, none of its rule is taken twice, and none is open when its job has
// ended.
func (c *checker) incidents(line *change) string {
	is, was := line.jobIs, line.jobWas
	if is == nil {
		return ""
	}
	for _, one := range is.Status.Incidents {
		if is.finished() && one.Outcome == "" {
			return fmt.Sprintf("job %s has ended, and its incident %d is open", is.Metadata.Name, one.ID)
		}
		if n, twice := one.repeats(); twice {
			return fmt.Sprintf("incident %d of job %s has taken step %d of its rule twice", one.ID, is.Metadata.Name, n)
		}
	}
	if was == nil {
		return ""
	}
	for _, before := range was.Status.Incidents {
		for _, now := range is.Status.Incidents {
			switch {
			case now.ID != before.ID:
			case before.Outcome != "" && now.Outcome != before.Outcome:
				return fmt.Sprintf("incident %d of job %s had ended as %s, and is %q now", now.ID, is.Metadata.Name, before.Outcome, now.Outcome)
			case len(now.Steps) < len(before.Steps):
				return fmt.Sprintf("incident %d of job %s has lost a step", now.ID, is.Metadata.Name)
			}
		}
	}
	return ""
}

// The budget of a job that sets none.
const defaultRestarts, defaultWindow = 20, 24 * time.Hour

// budget: no more restarts are charged within the window than the budget has.
func (c *checker) budget(line *change) string {
	is := line.jobIs
	if is == nil || line.jobWas == nil {
		return ""
	}
	if over := c.overBudget(is.Spec.RestartPolicy, line.jobWas.Status.Restarts.ChargedTimes, is.Status.Restarts.ChargedTimes); over != "" {
		return fmt.Sprintf("job %s %s", is.Metadata.Name, over)
	}
	for _, task := range is.Status.Tasks {
		p := is.policyOf(task.Name)
		if p == nil || p.Budget == nil {
			continue
		}
		if over := c.overBudget(p, line.jobWas.chargesOf(task.Name), task.ChargedTimes); over != "" {
			return fmt.Sprintf("task %s of job %s %s", task.Name, is.Metadata.Name, over)
		}
	}
	return ""
}

// overBudget says that a charge is one too many for a policy; empty where none is.
func (c *checker) overBudget(p *restartPolicy, before, charges []time.Time) string {
	if len(charges) <= len(before) {
		return ""
	}
	most, window := defaultRestarts, defaultWindow
	if p != nil && p.Budget != nil {
		if p.Budget.MaxRestarts != nil {
			most = *p.Budget.MaxRestarts
		}
		if p.Budget.WindowSeconds != nil {
			window = time.Duration(*p.Budget.WindowSeconds) * time.Second
		}
	}
	charged := 0
	for _, at := range charges {
		if at.After(c.world.now.Add(-window)) {
			charged++
		}
	}
	if charged > most {
		return fmt.Sprintf("has been charged %d times within %s, and its budget is %d", charged, window, most)
	}
	return ""
}

const holdPrefix = "hold.lockstep.dev/"

// holds: no hold outlives its job or its time by a minute.
func (c *checker) holds(*change) string {
	for name, n := range c.world.nodes {
		for _, t := range n.Spec.Taints {
			key := name + " " + t.Key + "=" + t.Value
			if !strings.HasPrefix(t.Key, holdPrefix) || c.told[key] {
				continue
			}
			switch why := c.over(t); {
			case why == "":
				delete(c.overSince, key)
			case c.overSince[key].IsZero():
				c.overSince[key] = c.world.now
			case c.world.now.Sub(c.overSince[key]) > releaseWithin:
				c.told[key] = true
				return fmt.Sprintf("node %s still has the taint %s=%s, and %s since %s", name, t.Key, t.Value, why, c.overSince[key].UTC().Format(time.RFC3339Nano))
			}
		}
	}
	return ""
}

// over says why a hold should be gone; empty while it should not.
func (c *checker) over(t taint) string {
	until, _, _ := strings.Cut(t.Value, "-")
	if seconds, err := strconv.ParseInt(until, 10, 64); err == nil && !c.world.now.Before(time.Unix(seconds, 0)) {
		return "its time is over"
	}
	for _, job := range c.world.jobs {
		if keyOf(job) == t.Key {
			if job.finished() {
				return "its job has ended"
			}
			return ""
		}
	}
	if c.seenKeys[t.Key] {
		return "its job is gone"
	}
	return "" // the job is older than the log
}

// keyOf is the key of the taint by which a job holds nodes: its name, cut to 50 characters, and the first part of its UID.
func keyOf(job *trainingJob) string {
	uid, _, _ := strings.Cut(job.Metadata.UID, "-")
	name := job.Metadata.Name
	if len(name) > 50 {
		name = name[:50]
	}
	return holdPrefix + name + "-" + uid
}

// fit: what the manager binds to a node fits there, beside what is there already.
func (c *checker) fit(line *change) string {
	_, n, _ := c.bound(line)
	if n == nil || len(n.Status.Allocatable) == 0 {
		return "" // the node is older than the log
	}
	for name := range line.podIs.requests() {
		left := n.Status.Allocatable[name].DeepCopy()
		for _, p := range c.world.pods {
			if q, asks := p.requests()[name]; asks && p.works() && p.Spec.NodeName == n.Metadata.Name {
				left.Sub(q)
			}
		}
		if left.Sign() < 0 {
			return fmt.Sprintf("pod %s does not fit on node %s: the pods there request more %s than it has", nameOf(line.podIs), n.Metadata.Name, name)
		}
	}
	return ""
}

// quiet: the manager writes no status of a job that is so already. Patches of nodes and pods may come to nothing, where its cache is
// behind.
func (c *checker) quiet(line *change) string {
	if !line.same || !c.byManager(line) || line.ObjectRef.Resource != "trainingjobs" {
		return ""
	}
	return fmt.Sprintf("the manager writes the status of job %s, and nothing of it changes", line.ObjectRef.Name)
}

func nameOf(p *pod) string { return p.Metadata.Namespace + "/" + p.Metadata.Name }
