// Reasons: why a status restarts a rank.

package audit

import (
	"math"
	"time"
)

// crossesWithin is how long a pod has to have its node before who restarts its rank has to know that.
const crossesWithin = 10 * time.Second

// place is a rank, or with index -1 all of a task.
type place struct {
	job, task string
	index     int
}

// noteReasons keeps the incarnations that a status asks for with a reason. Those of the first status that the log shows of a job have theirs
// before it.
func (c *checker) noteReasons(line *change) {
	is, was := line.jobIs, line.jobWas
	if is == nil {
		return
	}
	for _, t := range is.Status.Tasks {
		all := place{is.Metadata.UID, t.Name, -1}
		if was == nil || t.Incarnation > was.task(t.Name).Incarnation && restartsTask(was, is, t.Name) {
			c.founded[all] = t.Incarnation
		}
		for _, r := range t.Ranks {
			for _, index := range r.all() {
				of := place{is.Metadata.UID, t.Name, index}
				if was == nil || r.Incarnation > was.wantedOf(t.Name, index) && c.restartsRank(was, is, of, r.Reason) {
					c.founded[of] = r.Incarnation
				}
			}
		}
	}
}

// isFounded reports whether a pod is of an earlier incarnation than one that its rank got with a reason.
func (c *checker) isFounded(p *pod, of rank) bool {
	return c.incarnationOf(p) < max(c.founded[place{of.job, of.task, -1}], c.founded[place{of.job, of.task, of.index}])
}

// restartsTask reports whether a new step restarts every rank of a task.
func restartsTask(was, is *trainingJob, task string) bool {
	for i := range is.Status.Incidents {
		inc := &is.Status.Incidents[i]
		for _, s := range newSteps(was, inc) {
			reach := replaces[s.Action]
			if reach == ofJob || reach == ofTasks && (inc.unnamed() || inc.namesAny(task, 0, math.MaxInt)) {
				return true
			}
		}
	}
	return false
}

// restartsRank reports whether there is a reason to restart one rank. Where no pod of it works nothing is lost, and there need not be one.
func (c *checker) restartsRank(was, is *trainingJob, of place, reason string) bool {
	switch {
	case reason == "NodeInherited" || !c.worksAt(of):
		return true
	case reason == "JoinedIncident":
		return joins(is, of)
	case reason == "Step":
		return stepReaches(was, is, of)
	}
	return false // the others are for ranks whose pods are gone, or have found no node
}

// joins reports whether a rank is one of those that an incident restarts.
func joins(is *trainingJob, of place) bool {
	for i := range is.Status.Incidents {
		if inc := &is.Status.Incidents[i]; inc.acted() && inc.names(of.task, of.index) {
			return true
		}
	}
	return false
}

// stepReaches reports whether a new step is about a rank.
func stepReaches(was, is *trainingJob, of place) bool {
	for i := range is.Status.Incidents {
		inc := &is.Status.Incidents[i]
		for _, s := range newSteps(was, inc) {
			if replaces[s.Action] != 0 && is.concerns(inc, of) {
				return true
			}
		}
	}
	return false
}

// concerns reports whether an incident is about a rank: it failed, or a step has replaced more than what failed.
func (j *trainingJob) concerns(inc *incident, of place) bool {
	reach := 0
	for _, s := range inc.Steps {
		if s.acts() {
			reach = max(reach, replaces[s.Action])
		}
	}
	from, to := of.index, of.index+1
	switch reach {
	case ofPartitions:
		from, to = j.partition(of)
	case ofTasks:
		from, to = 0, math.MaxInt
	}
	return reach == ofJob || inc.unnamed() || inc.namesAny(of.task, from, to)
}

// partition is that of a rank, from its first index until before the next one's. A task without partitions is one.
func (j *trainingJob) partition(of place) (int, int) {
	for _, t := range j.Spec.Tasks {
		if t.Name == of.task && t.Partition != nil && t.Partition.Size > 0 {
			first := of.index - of.index%t.Partition.Size
			return first, first + t.Partition.Size
		}
	}
	return 0, math.MaxInt
}

// worksAt reports whether the pod of a rank has worked for a while, on a node that the log knows.
func (c *checker) worksAt(of place) bool {
	p := c.latest[of]
	if p == nil || c.world.pods[p.Metadata.UID] == nil || !p.works() || p.Metadata.DeletionTimestamp != nil {
		return false
	}
	n := c.world.nodes[p.Spec.NodeName]
	return n != nil && c.world.now.Sub(c.began[p.Metadata.UID]) > crossesWithin
}
