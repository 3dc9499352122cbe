// Culprits: which of several failures the others followed from.

package incident

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// Precedes reports whether a failure is the one that an incident really began with: programs ended in both, and this
// one did so first. The news of several pods that fail together come in any order. What ends after a restart ends because of it. What ended in
// place while another rank has yet to start has only waited for that, and no pod has failed for good because of it.
func (v *View) Precedes(s *v1alpha1.TrainingJobStatus, inc *v1alpha1.Incident, f rules.Failure) bool {
	of := rules.Failure{Event: inc.Trigger, Class: inc.Class}
	if !of.ByProgram() || f.ExitTime().IsZero() || v.Now.Sub(inc.StartTime.Time) > gang.Wake {
		return false
	}
	if Restarted(inc) && !f.ExitTime().Before(FirstRestart(inc).Truncate(time.Second)) {
		return false
	}
	if !Restarted(inc) && f.InPlace() && !rules.InPlace(inc.Trigger) && v.OthersStart(s, f.Rank) {
		return false
	}
	shown := *inc
	shown.Cause = v.shownSince(inc)
	return compareWithCause(&shown, f) < 0
}

// shownSince is the cause of an incident with the exit that its pod shows by now. A pod that was seen not ready may have ended just before, and its kubelet not have said so yet.
func (v *View) shownSince(inc *v1alpha1.Incident) v1alpha1.Cause {
	cause := inc.Cause
	i := slices.IndexFunc(v.Pods, func(p gang.Pod) bool {
		return p.Name == cause.Pod && p.LastExit != nil && inc.StartTime.Sub(p.LastExit.Time) <= gang.Wake
	})
	if cause.ExitCode != nil || i < 0 {
		return cause
	}
	exit := v.Pods[i].LastExit
	cause.ExitCode, cause.Reason, cause.Time = &exit.ExitCode, exit.Reason, new(metav1.NewTime(exit.Time))
	return cause
}

// ExitFollows reports whether a program exited after that of another pod, with which an incident began.
func ExitFollows(inc *v1alpha1.Incident, f rules.Failure) bool {
	of := rules.Failure{Event: inc.Trigger, Class: inc.Class}
	return of.ByProgram() && f.ByProgram() && f.Pod != inc.Cause.Pod && compareWithCause(inc, f) > 0
}

// compareWithCause orders a failure and the cause of an incident by their exits.
func compareWithCause(inc *v1alpha1.Incident, f rules.Failure) int {
	of := rules.Failure{Event: f.Event, Class: inc.Class}
	if inc.Cause.ExitCode != nil {
		of.Details.Containers = []gang.ContainerFailure{{ExitCode: *inc.Cause.ExitCode, Reason: inc.Cause.Reason}}
		if inc.Cause.Time != nil {
			of.Details.Containers[0].Time = inc.Cause.Time.Time
		}
	}
	return rules.CompareEvidence(f, of)
}

// FirstExit returns the failure that the exit of a program followed from: that of a rank whose process had exited
// just before and which the kubelet has restarted already. It is the failure itself where there is none.
func (v *View) FirstExit(s *v1alpha1.TrainingJobStatus, f rules.Failure) rules.Failure {
	if !f.InPlace() || f.ExitTime().IsZero() || v.IsIndependent(f.Rank.Task) {
		return f
	}
	first := f
	gang.EachRank(v.Effective, func(r gang.Rank) {
		p := v.Pod(r)
		if p == nil || p.LastExit == nil || v.IsIndependent(r.Task) || v.State(s, r) < gang.Impaired || !f.MayFollow(p.LastExit.Time) {
			return
		}
		other := v.FailureBy(s, p, v1alpha1.PodNotReady, v1alpha1.ClassUser)
		other.Details.Containers = []gang.ContainerFailure{*p.LastExit}
		if rules.CompareEvidence(other, first) < 0 {
			first = other
		}
	})
	return first
}

// MaxCauseMessage is how much is kept of the end of a failure's message, in bytes.
const MaxCauseMessage = 512

// CauseOf is what is kept of a failure.
func CauseOf(f rules.Failure) v1alpha1.Cause {
	c := v1alpha1.Cause{Pod: f.Pod, Node: f.Node, Container: f.Container, Reason: f.Details.Reason, Message: f.Details.Message}
	if len(f.Details.Containers) > 0 {
		first := f.Details.Containers[0]
		c.Container, c.ExitCode = first.Name, &first.ExitCode
		c.Reason, c.Message = first.Reason, first.Message
		if !first.Time.IsZero() {
			c.Time = new(metav1.NewTime(first.Time))
		}
	}
	if f.Disrupted != "" {
		c.Reason = f.Disrupted
	}
	if f.Signal.Name != "" {
		c.Signal, c.Message = f.Signal.Name, f.Signal.Message
	}
	if f.Blameless {
		c.Pod, c.Node = "", ""
	}
	if len(c.Message) > MaxCauseMessage {
		c.Message = strings.ToValidUTF8(c.Message[len(c.Message)-MaxCauseMessage:], "")
	}
	return c
}
