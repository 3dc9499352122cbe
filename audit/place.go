// Places: what a HyperNode has in it, and what a pod may be bound to.

package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// hyperNode is one of Volcano's.
type hyperNode struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Members []member `json:"members"`
	} `json:"spec"`
}

type member struct {
	Type     string `json:"type"` // Node or HyperNode
	Selector struct {
		ExactMatch *struct {
			Name string `json:"name"`
		} `json:"exactMatch"`
		RegexMatch *struct {
			Pattern string `json:"pattern"`
		} `json:"regexMatch"`
		LabelMatch *selector `json:"labelMatch"`
	} `json:"selector"`
}

// names reports whether a member names an object by its name.
func (m *member) names(name string) bool {
	switch s := m.Selector; {
	case s.ExactMatch != nil:
		return s.ExactMatch.Name == name
	case s.RegexMatch != nil:
		matched, err := regexp.MatchString(s.RegexMatch.Pattern, name)
		return err == nil && matched
	}
	return false
}

type selector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"matchExpressions"`
}

// selects reports whether labels are what a selector asks for.
func (s *selector) selects(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		value, there := labels[e.Key]
		holds := map[string]bool{
			"In": there && slices.Contains(e.Values, value), "NotIn": !slices.Contains(e.Values, value), "Exists": there, "DoesNotExist": !there,
		}
		if !holds[e.Operator] {
			return false
		}
	}
	return true
}

// maxDepth is how many tiers are looked through: HyperNodes may name each other in a ring.
const maxDepth = 10

// holds reports whether a node is in a HyperNode, at any depth.
func (w *world) holds(name string, n *node, depth int) bool {
	h := w.hypers[name]
	if h == nil || depth > maxDepth {
		return false
	}
	for i := range h.Spec.Members {
		m := &h.Spec.Members[i]
		switch by := m.Selector.LabelMatch; {
		case m.Type == "HyperNode":
			if slices.ContainsFunc(slices.Collect(maps.Keys(w.hypers)), func(below string) bool { return m.names(below) && w.holds(below, n, depth+1) }) {
				return true
			}
		case m.names(n.Metadata.Name) || by != nil && by.selects(n.Metadata.Labels):
			return true
		}
	}
	return false
}

// isWhole reports whether the log has shown a HyperNode and all that it names. Which ones a pattern names beside those that the log has shown is
// not known.
func (w *world) isWhole(name string, depth int) bool {
	h := w.hypers[name]
	return h != nil && depth <= maxDepth && !slices.ContainsFunc(h.Spec.Members, func(m member) bool {
		by := m.Selector.ExactMatch
		return m.Type == "HyperNode" && (by == nil || !w.isWhole(by.Name, depth+1))
	})
}

// builtAt is when a HyperNode, or one within it, was last written.
func (w *world) builtAt(name string, depth int) time.Time {
	at, h := w.hyperAt[name], w.hypers[name]
	if h == nil || depth > maxDepth {
		return at
	}
	for i := range h.Spec.Members {
		m := &h.Spec.Members[i]
		for below := range w.hyperAt {
			if m.Type != "HyperNode" || !m.names(below) {
				continue
			}
			if inner := w.builtAt(below, depth+1); inner.After(at) {
				at = inner
			}
		}
	}
	return at
}

// home: what the manager binds is at home, and not on a node that its job excludes. What another one binds is at home where the manager let it
// go when home was known.
func (c *checker) home(line *change) string {
	if !c.byManager(line) {
		return c.homeOfLifted(line)
	}
	p, n, job := c.bound(line)
	if n == nil || job == nil {
		return ""
	}
	for _, e := range job.Status.ExcludedNodes {
		if e.Name == n.Metadata.Name && c.world.now.Before(e.Until) {
			return fmt.Sprintf("the manager binds pod %s to node %s, which its job excludes until %s", nameOf(p), e.Name, e.Until.UTC().Format(time.RFC3339))
		}
	}
	if home := job.Status.Placement.HyperNode; c.world.isWhole(home, 0) && !c.world.holds(home, n, 0) {
		return fmt.Sprintf("the manager binds pod %s to node %s, which is not in its job's home %s", nameOf(p), n.Metadata.Name, home)
	}
	return ""
}

// noteHome keeps when the home of a job changed.
func (c *checker) noteHome(line *change) {
	is, was := line.jobIs, line.jobWas
	if is != nil && (was == nil || was.Status.Placement.HyperNode != is.Status.Placement.HyperNode) {
		c.homeAt[is.Metadata.UID] = c.world.now
	}
}

// lift is the home that a job had when the manager lifted the gate of its pod, and when that was.
type lift struct {
	home string
	at   time.Time
}

// noteLift keeps where the job of a pod lives as the manager lifts the pod's gate. Spares go wherever there is room.
func (c *checker) noteLift(line *change) {
	was, is := line.podWas, line.podIs
	if !c.byManager(line) || was == nil || is == nil || len(was.Spec.SchedulingGates) == 0 || len(is.Spec.SchedulingGates) > 0 {
		return
	}
	of, ok := c.rankOf(is)
	if job := c.world.job(of.job); ok && job != nil && !of.spare {
		c.lifts[is.Metadata.UID] = lift{job.Status.Placement.HyperNode, c.world.now}
	}
}

// homeOfLifted judges where somebody else binds a pod whose gate the manager has lifted. Where home, or a HyperNode, has changed since then, or
// just before, the manager did not know.
func (c *checker) homeOfLifted(line *change) string {
	p := line.podIs
	if p == nil || line.ObjectRef.Subresource != "binding" {
		return ""
	}
	of, _ := c.rankOf(p)
	n, job, let := c.world.nodes[p.Spec.NodeName], c.world.job(of.job), c.lifts[p.Metadata.UID]
	knew := let.at.Sub(c.world.builtAt(let.home, 0)) > settledFor && let.at.Sub(c.homeAt[of.job]) > settledFor
	if n == nil || job == nil || !knew || !c.world.isWhole(let.home, 0) || job.Status.Placement.HyperNode != let.home || c.world.holds(let.home, n, 0) {
		return ""
	}
	return fmt.Sprintf("the manager let pod %s go, and %s binds it to node %s, which is not in its job's home %s", nameOf(p), line.by(), n.Metadata.Name, let.home)
}

// settledFor is how long a node has to have its taints before a binding that does not look at them is wrong: two requests that cross
// each other are nobody's fault.
const settledFor = time.Second

// admits: the manager binds nothing to a node that is cordoned or has a taint that the pod does not tolerate. On a node that its job holds, what
// another job holds is room beside it.
func (c *checker) admits(line *change) string {
	p, n, job := c.bound(line)
	if n == nil || c.world.now.Sub(c.world.settled[n.Metadata.Name]) < settledFor {
		return ""
	}
	if n.Spec.Unschedulable {
		return fmt.Sprintf("the manager binds pod %s to node %s, which is cordoned", nameOf(p), n.Metadata.Name)
	}
	covered := func(t taint) bool {
		return slices.ContainsFunc(p.Spec.Tolerations, func(one toleration) bool { return one.covers(t) })
	}
	held := job != nil && slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.Key == keyOf(job) })
	for _, t := range n.Spec.Taints {
		if t.Effect == "PreferNoSchedule" || covered(t) || (held && strings.HasPrefix(t.Key, holdPrefix)) {
			continue
		}
		return fmt.Sprintf("the manager binds pod %s to node %s, and it does not tolerate the taint %s=%s:%s", nameOf(p), n.Metadata.Name, t.Key, t.Value, t.Effect)
	}
	return ""
}

// bound is a pod that the manager binds with a line, its node and its job; nil where there is none, or it is older than the log.
func (c *checker) bound(line *change) (*pod, *node, *trainingJob) {
	if line.ObjectRef.Subresource != "binding" || !c.byManager(line) || line.podIs == nil {
		return nil, nil, nil
	}
	of, _ := c.rankOf(line.podIs)
	return line.podIs, c.world.nodes[line.podIs.Spec.NodeName], c.world.job(of.job)
}
