// The story: an incident in a sentence.

package incident

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Story tells an incident in a sentence.
func Story(inc *v1alpha1.Incident) string {
	var b strings.Builder
	c := &inc.Cause
	fmt.Fprintf(&b, "incident %d, %s", inc.ID, inc.Trigger)
	if inc.Trigger == v1alpha1.RestartRequested {
		b.WriteString(request(inc))
	}
	if c.Signal != "" {
		fmt.Fprintf(&b, " by %s", c.Signal)
	}
	if c.Pod != "" {
		fmt.Fprintf(&b, " of pod %s", c.Pod)
	}
	if c.Node != "" {
		fmt.Fprintf(&b, " on node %s", c.Node)
	}
	switch {
	case c.ExitCode != nil:
		fmt.Fprintf(&b, ", container %s exited with %d", c.Container, *c.ExitCode)
	case c.Container != "":
		fmt.Fprintf(&b, ", container %s", c.Container)
	}
	if c.Reason != "" {
		fmt.Fprintf(&b, " (%s)", c.Reason)
	}
	if inc.PodCount > 1 {
		fmt.Fprintf(&b, ", %d pods in all", inc.PodCount)
	}
	if n := inc.VictimCount; n > 0 {
		fmt.Fprintf(&b, ", %d more fell with it", n)
	}
	if n := inc.RestartsWithoutProgress; n > 0 {
		fmt.Fprintf(&b, ", no newer checkpoint since %d restarts", n)
	}
	if told := doing(inc); told != "" {
		b.WriteString(": " + told)
	}
	if inc.ResumeStep != nil {
		fmt.Fprintf(&b, "; all ranks were told to resume from step %d", *inc.ResumeStep)
	}
	if n := inc.LostSteps; n != nil {
		fmt.Fprintf(&b, ", steps lost: %d", *n)
	}
	return b.String()
}

// request tells what a user asked for, until it is done, and the reason that they gave.
func request(inc *v1alpha1.Incident) string {
	var parts []string
	if len(inc.Steps) == 0 {
		parts = append(parts, string(inc.RequestedAction))
	}
	if inc.Cause.Message != "" {
		parts = append(parts, strconv.Quote(inc.Cause.Message))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// doing tells the last step that was taken, and the request for a checkpoint that came
// with it or after it.
func doing(inc *v1alpha1.Incident) string {
	n, asked := len(inc.Steps), ""
	if c := inc.Checkpoint; c != nil && (Asking(inc) || (c.EndTime != nil && (n == 0 || !c.EndTime.Before(&inc.Steps[n-1].Time)))) {
		asked = CheckpointStory(c)
	}
	if n == 0 {
		return asked
	}
	step := inc.Steps[n-1]
	told := string(step.Action)
	switch {
	case step.DryRun:
		told += " would be taken, but this is a dry run"
	case rules.ActionOf(step.Action).LeavesNode && asked == "":
		asked = "without a checkpoint"
	}
	if asked != "" {
		told += ", " + asked
	}
	return told
}

// CheckpointStory tells of a request for a checkpoint.
func CheckpointStory(c *v1alpha1.IncidentCheckpoint) string {
	told := ""
	switch c.Outcome {
	case "":
		return fmt.Sprintf("waits for a checkpoint of %d pods until %s UTC", c.Pods, c.Deadline.UTC().Format("15:04:05"))
	case v1alpha1.CheckpointSaved:
		return fmt.Sprintf("checkpoint saved by %d of %d pods in %s", c.Answered, c.Pods, c.EndTime.Sub(c.RequestTime.Time).Round(100*time.Millisecond))
	case v1alpha1.CheckpointCancelled:
		told = "checkpoint cancelled"
	default:
		told = fmt.Sprintf("without a checkpoint: %s, %d of %d pods answered", c.Outcome, c.Answered, c.Pods)
	}
	if c.Message != "" {
		told += " (" + c.Message + ")"
	}
	return told
}
