// What was asked for: the essentials of the spec, and the restart policy in force.

package describe

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

func (p page) spec() {
	s := &p.Job.Spec
	p.field("Queue", s.Queue)
	p.field("Priority class", s.PriorityClassName)
	if s.Suspend {
		p.field("Suspended", "spec.suspend is true")
	}
	p.field("Gang", gangOf(s))
	p.field("Topology", topologyOf(s.NetworkTopology))
	p.field("Framework", frameworkOf(s.Framework))
	if s.SuccessPolicy != nil {
		p.field("Succeeds with", "tasks "+strings.Join(s.SuccessPolicy.Tasks, ", "))
	}
	if d := s.ActiveDeadlineSeconds; d != nil {
		p.field("Deadline", seconds(*d)+" of activity")
	}
	if d := s.TTLSecondsAfterFinished; d != nil {
		p.field("Deleted", seconds(*d)+" after its end")
	}
	p.field("Nodes are held", holdOf(s.Hold))
	p.field("Checkpoint", checkpointOf(s.Checkpoint))
	if s.Supervisor != nil {
		p.field("Supervisor", supervisorOf(s.Supervisor))
		p.field("  progress", progressOf(s.Supervisor.Progress, p.Job.Status.RestartsWithoutProgress))
		p.field("  epoch", p.epoch())
	}
}

func supervisorOf(s *v1alpha1.Supervisor) string {
	others := "programs start again together, in their pods"
	if s.Survivors == v1alpha1.SurvivorsKeep {
		others = "a program that ends starts again in its pod, and the others run on"
	}
	return fmt.Sprintf("%s; %s to stop, %s for a manager", others, seconds(ptr.Deref(s.StopSeconds, 10)), seconds(ptr.Deref(s.ManagerTimeoutSeconds, 60)))
}

func progressOf(progress *v1alpha1.Progress, without int32) string {
	if progress == nil {
		return "is not watched"
	}
	return fmt.Sprintf("by %s; restarts in a row without: %d of %d", progress.CheckpointFile, without, ptr.Deref(progress.MaxRestarts, 3))
}

// epoch is the present run of the programs, and since when.
func (p page) epoch() string {
	s := &p.Job.Status
	if s.EpochTime == nil {
		return fmt.Sprint(s.Epoch)
	}
	return fmt.Sprintf("%d, since %s", s.Epoch, p.when(metav1.NewTime(s.EpochTime.Time)))
}

func holdOf(h *v1alpha1.Hold) string {
	switch {
	case h == nil:
		return ""
	case h.Policy == v1alpha1.HoldAlways:
		return "from placement to the end of the job (Always)"
	case h.Seconds == nil:
		return "in a recovery (OnRecovery)"
	}
	return fmt.Sprintf("in a recovery, for %s at most (OnRecovery)", seconds(*h.Seconds))
}

func gangOf(s *v1alpha1.TrainingJobSpec) string {
	all := int32(0)
	for i := range s.Tasks {
		all += s.Tasks[i].Replicas
	}
	if s.MinAvailable == nil {
		return "all of " + counted(all, "pod")
	}
	return fmt.Sprintf("%d of %s", *s.MinAvailable, counted(all, "pod"))
}

func topologyOf(t *v1alpha1.NetworkTopology) string {
	switch {
	case t == nil:
		return "not constrained"
	case t.HighestTierAllowed == nil:
		return string(t.Mode)
	}
	return fmt.Sprintf("%s, one HyperNode of tier %d at most", t.Mode, *t.HighestTierAllowed)
}

func frameworkOf(f *v1alpha1.Framework) string {
	switch {
	case f == nil:
		return ""
	case f.PyTorch != nil:
		return "pytorch"
	case f.MPI != nil:
		return "mpi"
	case f.TensorFlow != nil:
		return "tensorflow"
	case f.Ray != nil:
		return "ray"
	}
	return ""
}

func checkpointOf(c *v1alpha1.Checkpoint) string {
	if c == nil {
		return "the program is not asked to save"
	}
	ranks, tasks := v1alpha1.CheckpointAll, "all tasks"
	if c.Pods != nil {
		ranks = c.Pods.Ranks
		if len(c.Pods.Tasks) > 0 {
			tasks = strings.Join(c.Pods.Tasks, ", ")
		}
	}
	who := "every rank"
	if ranks == v1alpha1.CheckpointFirst {
		who = "the first rank"
	}
	return fmt.Sprintf("POST :%d%s to %s of %s, %s for an answer", c.Request.HTTPPost.Port, c.Request.HTTPPost.Path, who, tasks, seconds(c.Request.TimeoutSeconds))
}

// tasks lists the tasks, with their spares that hold a node.
func (p page) tasks() {
	var rows []lines.Row
	for i := range p.Job.Spec.Tasks {
		t := &p.Job.Spec.Tasks[i]
		cells := []string{t.Name, fmt.Sprint(t.Replicas), "", "", "", "", ""}
		if s := gang.TaskStatus(&p.Job.Status, t.Name); s != nil {
			cells[1], cells[2], cells[3] = fmt.Sprint(s.Replicas), fmt.Sprint(s.Ready), fmt.Sprint(s.Succeeded)
		}
		if t.Spares != nil {
			cells[4] = fmt.Sprintf("%d/%d", gang.ReadySpares(&p.Job.Status, t), *t.Spares)
		}
		if t.Partition != nil {
			cells[5] = fmt.Sprint(t.Partition.Size)
		}
		if t.MinReplicas != nil || t.MaxReplicas != nil {
			cells[6] = fmt.Sprintf("%d-%d", ptr.Deref(t.MinReplicas, t.Replicas), ptr.Deref(t.MaxReplicas, t.Replicas))
		}
		rows = append(rows, lines.Row{Cells: cells})
	}
	p.table("Tasks", []string{"NAME", "REPLICAS", "READY", "SUCCEEDED", "SPARES", "PARTITION", "ELASTIC"}, rows)
}

// noDefaults warns that rules of one's own replace all others.
const noDefaults = "; those of the default are not in use"

// policy tells the restart policy in force: that of the job, and of each task that has its own.
func (p page) policy() {
	policies := rules.Policies(p.Job)
	own := p.Job.Spec.RestartPolicy
	name := "the default (the job gives none)"
	if own != nil && len(own.Rules) > 0 {
		name = "the job's own rules" + noDefaults
	} else if own != nil {
		name = "the default rules, with the job's limits"
	}
	p.onePolicy("Restart policy", name, policies.Of(""))
	for i := range p.Job.Spec.Tasks {
		t := &p.Job.Spec.Tasks[i]
		if t.RestartPolicy == nil {
			continue
		}
		name := "the task's own rules" + noDefaults
		if policies.Of(t.Name).RulesOf == "" {
			name = "the rules of the job, with the task's limits"
		}
		p.onePolicy("  of task "+t.Name, name, policies.Of(t.Name))
	}
}

func (p page) onePolicy(label, name string, policy *rules.Policy) {
	p.field(label, name)
	for _, r := range policy.Rules {
		var steps []string
		for _, step := range r.Steps {
			text := string(step.Action)
			if step.AfterSeconds > 0 {
				text += " after " + seconds(step.AfterSeconds)
			}
			steps = append(steps, text)
		}
		for i, line := range lines.Wrap(fmt.Sprintf("%s: %s", r.Name, strings.Join(steps, ", ")), lines.Width-6) {
			fmt.Fprintln(p.out, map[bool]string{true: "  ", false: "      "}[i == 0]+line)
		}
	}
	limits := fmt.Sprintf("%s in %s; a faulty node is avoided for %s; a silent node counts as dead %s",
		counted(policy.MaxRestarts, "charged restart"), duration.HumanDuration(policy.Window), duration.HumanDuration(policy.ExcludeNode), silence(policy))
	if policy.InitialBackoff > 0 {
		limits += fmt.Sprintf("; backoff %s to %s", duration.HumanDuration(policy.InitialBackoff), duration.HumanDuration(policy.MaxBackoff))
	}
	p.wrapped("  ", "limits: "+limits)
}

// silence tells when a node that does not answer counts as dead.
func silence(policy *rules.Policy) string {
	if policy.RequireProof {
		return "only with proof"
	}
	text := "after " + duration.HumanDuration(policy.UnreachableAfter)
	if policy.GangDownAfter < policy.UnreachableAfter {
		text += fmt.Sprintf(", or %s where the rest of the gang is down", duration.HumanDuration(policy.GangDownAfter))
	}
	return text
}
