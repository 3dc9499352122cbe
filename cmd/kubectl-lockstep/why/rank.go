// The rank: where it is, who put it there, what it had before, and what its pod waits for.

package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

// Rank answers why a rank is where it is, why its last pod was deleted, and what it waits for.
func Rank(s *Snapshot, sub Subject) []Fact {
	return slices.Concat(unseen(s), thePod(s, sub), noPod(s, sub), bound(s, sub), allowed(s, sub), came(s, sub), illNodes(s), held(s, sub),
		restarted(s, sub), podWaits(s, sub), lastEvents(s, sub), unread(s))
}

// pod is a pod of the job; nil where it is not there.
func (s *Snapshot) pod(name string) *corev1.Pod {
	i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Pods[i]
}

// podOf is the pod of a rank or spare in the present attempt; nil where it is not there.
func (s *Snapshot) podOf(r gang.Rank) *corev1.Pod {
	return s.pod(gang.PodNameOf(s.Job, &s.Job.Status, r))
}

// thePod says what the pod of the rank is.
func thePod(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub.Pod)
	if p == nil {
		return nil
	}
	source := "Pod " + p.Name
	where := "without a node"
	if p.Spec.NodeName != "" {
		where = "on node " + p.Spec.NodeName
		if around := s.Topology.Containing(p.Spec.NodeName); len(around) > 0 {
			where += " of HyperNode " + around[0].Name + tierStory(&around[0].Tier)
		}
	}
	out := told(source, "Rank %s is pod %s, which was created at %s and is %s %s.",
		Name(sub.Rank), p.Name, s.at(p.CreationTimestamp.Time), p.Status.Phase, where)
	if p.DeletionTimestamp.IsZero() {
		return out
	}
	out = append(out, told(source, "Somebody has asked for its deletion: its grace ends at %s.", s.at(p.DeletionTimestamp.Time))...)
	n := cmp.Or(s.node(p.Spec.NodeName), &corev1.Node{})
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			out = append(out, told("Node "+n.Name, "Node %s does not answer since %s, so no kubelet says that the pod has ended. Lockstep removes it when it %s.",
				n.Name, s.at(c.LastTransitionTime.Time), silenceOf(s.view().Policy(sub.Rank.Task)))...)
		}
	}
	return out
}

// bound says who bound the pod to its node: the manager says so in its event, and the scheduler in its own.
func bound(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub.Pod)
	if p == nil || p.Spec.NodeName == "" || !s.couldRead("Events") {
		return nil
	}
	for _, e := range slices.Backward(s.Events) {
		if e.Reason == "Scheduled" && e.InvolvedObject.UID == p.UID {
			return told("Event", "%s bound it at %s: %s.", reporter(&e), s.at(lastSeen(&e)), strings.TrimSuffix(e.Message, "."))
		}
	}
	return told("Events", "Who bound it to its node is not known: no event of that is left.")
}

// allowed says which nodes the pod might go to when its gate was opened.
func allowed(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub.Pod)
	if p == nil || gated(p) {
		return nil
	}
	placed, err := time.Parse(time.RFC3339Nano, p.Annotations[v1alpha1.AnnotationPlacedTime])
	if err != nil {
		return nil
	}
	to := "left its node to the scheduler" + within(s.Job.Spec.NetworkTopology)
	switch pins := placement.PinsOf(p); {
	case len(pins) == 1:
		to = "allowed it node " + pins[0] + " only"
	case len(pins) > 1:
		to = "allowed it " + lines.Count(len(pins), "node") + ": " + s.listed(pins)
	}
	return told("Pod "+p.Name, "The manager opened its gate at %s, and %s.", s.at(placed), to)
}

// came says how the rank came to its node: at the first start, back to it, or in place of another.
func came(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub.Pod)
	if p == nil || p.Spec.NodeName == "" {
		return nil
	}
	if p.Annotations[v1alpha1.AnnotationResume] == "false" {
		return told("Pod "+p.Name, "It is the first pod of the rank: nothing of the job had been restarted before.")
	}
	inc, before := s.lastLoss(sub.Rank)
	restarts := s.restartsOf(sub)
	switch {
	case inc != nil && len(restarts) > 0 && restarts[0].ID > inc.ID: // it went along with others, or is one of many that failed
		return told("status.incidents", "Incident %d restarted it last, and does not say on which node the pod before was.", restarts[0].ID)
	case inc == nil && groupOf(s.Job, sub.Rank.Task).spare:
		return nil
	case inc == nil:
		return told("status.incidents", "No incident that the status remembers names the rank, so it does not tell on which node the pod before was.")
	case before == p.Spec.NodeName:
		return told("status.incidents", "It went back to its own node: when incident %d began, the rank was on node %s, too.", inc.ID, before)
	}
	out := told("status.incidents", "It took node %s in place of node %s, on which the rank was when incident %d began.", p.Spec.NodeName, before, inc.ID)
	return slices.Concat(out, s.tellLostNode(inc, before), s.sparesUsed(sub.Rank))
}

// lastLoss returns the last incident that names a rank, and the node that the rank was on then; nil where none does.
func (s *Snapshot) lastLoss(r gang.Rank) (*v1alpha1.Incident, string) {
	for _, inc := range slices.Backward(s.Job.Status.Incidents) {
		for _, p := range inc.Pods {
			if p.Task == r.Task && p.Index == r.Index && p.Node != "" {
				return &inc, p.Node
			}
		}
	}
	return nil, ""
}

// tellLostNode says what keeps the rank from the node that it had.
func (s *Snapshot) tellLostNode(inc *v1alpha1.Incident, node string) []Fact {
	var out []Fact
	for _, x := range s.Job.Status.ExcludedNodes {
		if x.Name == node {
			out = s.tellExclusion(x)
		}
	}
	if !s.couldRead("nodes") {
		return out
	}
	if trouble := s.trouble(node, ""); trouble != "" {
		out = append(out, told("Node "+node, "Node %s %s.", node, trouble)...)
	}
	if len(out) == 0 {
		out = told("Node "+node, "Nothing keeps the job from node %s now. What did when incident %d replaced the pod is not recorded beyond its cause.", node, inc.ID)
	}
	return out
}

// sparesUsed says that spares of the rank's task have given up their nodes. The status does not say for whom.
func (s *Snapshot) sparesUsed(r gang.Rank) []Fact {
	var used []string
	if t := gang.TaskStatus(&s.Job.Status, r.Task+v1alpha1.SpareSuffix); t != nil {
		for i := range t.Ranks {
			if set := &t.Ranks[i]; set.Reason == v1alpha1.RestartSpareUsed {
				gang.RestartedRanks(set).Each(func(index int32) { used = append(used, Name(gang.SpareRank(r.Task, index))) })
			}
		}
	}
	if len(used) == 0 {
		return nil
	}
	return told("status.tasks", "Of the spares of its task these have given their node to a rank: %s. The status does not say to which.", s.listed(used))
}

// held says whether the node of the rank is kept for the job.
func held(s *Snapshot, sub Subject) []Fact {
	node := gang.NodeOf(s.Job.Status.Placement, sub.Rank)
	hold := placement.HoldOn(s.Job.Status.Holds, node)
	if hold == nil {
		return nil
	}
	if hold.Until != nil {
		return told("status.holds", "The job holds node %s for it, until %s at most.", node, s.until(hold.Until.Time))
	}
	return told("status.holds", "The job holds node %s until it ends.", node)
}

// podWaits says what the pod of a rank waits for, and what that does for the job.
func podWaits(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub.Pod)
	if p == nil || !p.DeletionTimestamp.IsZero() || p.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	var out []Fact
	if p.Spec.NodeName == "" {
		out = told("Pod "+p.Name, "It has no node: %s.", unplacedStory(p))
		out = slices.Concat(out, recovering(s), unscheduled(s))
		if s.Waits() { // a spare does not
			out = slices.Concat(out, sparesOfOthers(s), capacity.Of(s.Job, &s.Cluster), queue(s), kept(s))
		}
		return out
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		out = append(out, s.tellContainer(p, &c)...)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			out = append(out, told("Pod "+p.Name, "It is not ready since %s%s.", s.at(c.LastTransitionTime.Time), reasonStory(c.Reason, c.Message))...)
		}
	}
	return out
}

// tellContainer describes a container that does not run, or that ran before.
func (s *Snapshot) tellContainer(p *corev1.Pod, c *corev1.ContainerStatus) []Fact {
	source := "Pod " + p.Name
	if w := c.State.Waiting; w != nil {
		return told(source, "Its container %s waits%s.", c.Name, reasonStory(w.Reason, w.Message))
	}
	if e := c.State.Terminated; e != nil && e.ExitCode != 0 {
		return told(source, "Its container %s exited with %d at %s%s.", c.Name, e.ExitCode, s.at(e.FinishedAt.Time), reasonStory(e.Reason, e.Message))
	}
	if e := c.LastTerminationState.Terminated; e != nil && c.RestartCount > 0 {
		return told(source, "The kubelet has restarted its container %s %s. It exited with %d at %s%s.",
			c.Name, lines.Count(int(c.RestartCount), "time"), e.ExitCode, s.at(e.FinishedAt.Time), reasonStory(e.Reason, e.Message))
	}
	return nil
}

func reasonStory(reason, message string) string {
	out := ""
	if reason != "" {
		out = ", reason " + reason
	}
	if message = strings.TrimSuffix(strings.TrimSpace(message), "."); message != "" {
		out += ": " + message
	}
	return out
}

// lastEvents lists the last events of a pod that does not run.
func lastEvents(s *Snapshot, sub Subject) []Fact {
	p := s.pod(sub.Pod)
	if p != nil && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp.IsZero() {
		return nil
	}
	out := s.tellEvents(3, func(o *corev1.ObjectReference) bool {
		return o.Kind == "Pod" && o.Name == sub.Pod && (p == nil || o.UID == p.UID)
	})
	if len(out) == 0 && p == nil && s.couldRead("Events") {
		return told("Events", "There is no event of pod %s: Kubernetes keeps events for an hour, unless it is configured otherwise.", sub.Pod)
	}
	return out
}

// events lists the last events of a whole job.
func events(s *Snapshot) []Fact {
	return s.tellEvents(10, func(o *corev1.ObjectReference) bool { return o.UID == s.Job.UID })
}

// tellEvents lists the last events about an object, the oldest first.
func (s *Snapshot) tellEvents(most int, about func(*corev1.ObjectReference) bool) []Fact {
	found := slices.DeleteFunc(slices.Clone(s.Events), func(e corev1.Event) bool { return !about(&e.InvolvedObject) })
	slices.SortStableFunc(found, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	var out []Fact
	for _, e := range found[max(0, len(found)-most):] {
		out = append(out, told("Event", "%s, told by %s at %s%s.", e.Reason, reporter(&e), s.at(lastSeen(&e)), reasonStory("", e.Message))...)
	}
	return out
}

// lastSeen is when an event was seen last.
func lastSeen(e *corev1.Event) time.Time {
	last := ptr.Deref(e.Series, corev1.EventSeries{}).LastObservedTime
	return instant.Latest(e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time, last.Time)
}

// reporter is who an event is of.
func reporter(e *corev1.Event) string { return cmp.Or(e.ReportingController, e.Source.Component) }
