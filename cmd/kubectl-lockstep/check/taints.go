package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
)

// taints finds taints of Lockstep's whose cause is gone. The manager removes these at once, so one that is seen has been left behind.
func taints(c *Cluster) (string, []Finding) {
	owners := map[string]*v1alpha1.TrainingJob{}
	for i := range c.TrainingJobs.Items {
		owners[policies.HoldKey(&c.TrainingJobs.Items[i])] = &c.TrainingJobs.Items[i]
	}
	verdicts := map[string]*v1alpha1.HealthVerdict{}
	for i := range c.NodeHealths.Items {
		verdicts[c.NodeHealths.Items[i].Name] = c.NodeHealths.Items[i].Status.Verdict
	}
	n := 0
	var out []Finding
	for i := range c.Nodes.Items {
		node := &c.Nodes.Items[i]
		for _, taint := range node.Spec.Taints {
			why := ""
			switch {
			case strings.HasPrefix(taint.Key, v1alpha1.HoldTaintPrefix):
				why = c.leftHold(taint, owners[taint.Key])
			case taint.Key == v1alpha1.TaintQuarantine:
				why = leftQuarantine(verdicts[node.Name])
			default:
				continue
			}
			n++
			if why != "" {
				out = append(out, leftover(node.Name, taint, why))
			}
		}
	}
	return fmt.Sprintf("%s of Lockstep's on %s", count(n, "taint"), count(len(c.Nodes.Items), "node")), out
}

func leftover(node string, taint corev1.Taint, why string) Finding {
	return Finding{
		Severity: Problem, Subject: "Node/" + node,
		What:    fmt.Sprintf("The taint %s=%s keeps jobs away, and %s.", taint.Key, taint.Value, why),
		Fix:     "See that the manager runs: it removes the taint. Without one, remove it.",
		Command: fmt.Sprintf("kubectl taint node %s %s:%s-", node, taint.Key, taint.Effect),
	}
}

// leftHold says why a hold should be gone; empty where it stands for a job that needs its node.
func (c *Cluster) leftHold(taint corev1.Taint, owner *v1alpha1.TrainingJob) string {
	switch {
	case owner == nil:
		return "the TrainingJob that held the node does not exist"
	case over(owner) && c.Now.Sub(ended(owner)) > reactionTime:
		return fmt.Sprintf("TrainingJob %s/%s, which held the node, has ended", owner.Namespace, owner.Name)
	case !over(owner) && policies.HoldExpired(taint.Value, c.Now.Add(-reactionTime)):
		return fmt.Sprintf("the time for which TrainingJob %s/%s held the node has passed", owner.Namespace, owner.Name)
	}
	return ""
}

// ended is when a job ended, or began to be deleted; zero where that is not known.
func ended(job *v1alpha1.TrainingJob) time.Time {
	switch {
	case job.DeletionTimestamp != nil:
		return job.DeletionTimestamp.Time
	case job.Status.CompletionTime != nil:
		return job.Status.CompletionTime.Time
	}
	return time.Time{}
}

// leftQuarantine says why a quarantine should be gone.
func leftQuarantine(v *v1alpha1.HealthVerdict) string {
	switch {
	case v == nil:
		return "no NodeHealth says why"
	case v.QuarantinedTime == nil:
		return "the verdict on the node is " + string(v.State) + ", without a quarantine"
	}
	return ""
}

// health finds what waits for a person.
func health(c *Cluster) (string, []Finding) {
	var out []Finding
	policy := c.policy()
	if open := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionBreakerOpen); open != nil && open.Status == "True" {
		out = append(out, Finding{
			Severity: Warning, Subject: "HealthPolicy/" + policy.Name,
			What:    fmt.Sprintf("The breaker holds ill nodes back, and nothing is done about them: %s.", strings.TrimSuffix(open.Message, ".")),
			Fix:     "Find out whether the reports are true. If they are, acknowledge them.",
			Command: "kubectl lockstep ack breaker",
		})
	}
	var lemons []string
	for i := range c.NodeHealths.Items {
		if h := &c.NodeHealths.Items[i]; h.Status.Verdict != nil && h.Status.Verdict.Lemon {
			lemons = append(lemons, h.Name)
		}
	}
	if len(lemons) > 0 {
		out = append(out, Finding{
			Severity: Warning, Subject: "NodeHealth/" + slices.Min(lemons),
			What:    fmt.Sprintf("%s in quarantine until somebody has looked at it, after repeated failures: %s.", countAre(len(lemons), "node"), some(lemons)),
			Fix:     "Repair the node, and acknowledge it.",
			Command: "kubectl lockstep ack node " + slices.Min(lemons),
		})
	}
	return count(len(c.NodeHealths.Items), "NodeHealth"), out
}
