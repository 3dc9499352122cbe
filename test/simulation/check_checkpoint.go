package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// checkAsk is called before a pod is asked for a checkpoint.
func (t *tenant) checkAsk(a policies.Ask, p policies.AskedPod) {
	if t.leads() {
		inc := incidentOf(&t.job.Status, a.Incident)
		t.require(Once, inc.Outcome == "" && asksForCheckpoint(&inc), "pod %s is asked for a checkpoint, and incident %d does not say so", p.Name, a.Incident)
		t.require(DryRun, t.acting.job.Annotations[v1alpha1.DryRun] != "true", "pod %s is asked for a checkpoint in a dry run", p.Name)
		t.ledger.requests[a.Incident] = a.ID
	}
	_, twice := t.acting.answers[gang.AnswerKey{Request: a.ID, Pod: p.UID}]
	t.require(Checkpoint, !twice, "pod %s is asked twice by one process", p.Name)
}

// checkCheckpoint checks the request for a checkpoint of an incident that is recorded.
func (r *record) checkCheckpoint(was, inc *v1alpha1.Incident) {
	r.require(Checkpoint, inc.Outcome == "" || !asksForCheckpoint(inc), "incident %d is over and waits for a checkpoint", inc.ID)
	if was.Checkpoint != nil {
		r.require(Once, inc.Checkpoint != nil, "the checkpoint of incident %d is forgotten", inc.ID)
		same := was.Checkpoint.RequestTime.Truncate(time.Microsecond).Equal(inc.Checkpoint.RequestTime.Truncate(time.Microsecond))
		r.require(Once, same || !asksForCheckpoint(was), "incident %d asks for another checkpoint while it waits for one", inc.ID)
		changes := same && !asksForCheckpoint(was) && !asksForCheckpoint(inc) && !equality.Semantic.DeepEqual(was.Checkpoint, inc.Checkpoint)
		r.require(Checkpoint, !changes, "the checkpoint of incident %d is over, and changes", inc.ID)
	}
	for _, step := range newSteps(was, inc) {
		if (step.Action == v1alpha1.MigratePod || byRequest(inc, step)) && !step.DryRun && r.o.Job.Spec.Checkpoint != nil {
			r.checkAsked(was, inc, step)
		}
	}
}

// checkAsked checks a step that moves pods of a job whose program wants to be asked first.
func (r *record) checkAsked(was, inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	c := inc.Checkpoint
	before := was.Checkpoint != nil && was.Checkpoint.EndTime != nil // it was over in an earlier record, which may be of the same moment
	if c == nil || before || c.EndTime == nil || !c.EndTime.Equal(&step.Time) {
		r.require(Checkpoint, !r.couldSave(inc), "incident %d moves its pods, and nobody was asked for a checkpoint", inc.ID)
		return
	}
	r.require(Once, asksForCheckpoint(was), "incident %d moves its pods, and its request for a checkpoint was not recorded before", inc.ID)
	asked := r.asked()
	id := r.ledger.requests[inc.ID]
	switch c.Outcome {
	case v1alpha1.CheckpointSaved:
		n := 0
		for _, p := range r.o.Pods {
			if r.ledger.saved[gang.AnswerKey{Request: id, Pod: p.UID}] {
				n++
			}
		}
		r.require(Checkpoint, n >= int(c.Pods), "incident %d moves its pods, and %d of %d that were asked have saved", inc.ID, n, c.Pods)
	case v1alpha1.CheckpointRefused:
		refused := slices.ContainsFunc(asked, func(p *gang.Pod) bool { return r.o.Answers[gang.AnswerKey{Request: id, Pod: p.UID}].Refused })
		r.require(Checkpoint, refused, "incident %d: nobody has refused", inc.ID)
	case v1alpha1.CheckpointTimedOut, v1alpha1.CheckpointUnreachable:
		r.require(Checkpoint, !r.o.Now.Before(was.Checkpoint.Deadline.Time), "incident %d moves its pods before the deadline at %s", inc.ID, was.Checkpoint.Deadline)
	case v1alpha1.CheckpointOvertaken:
		r.require(Checkpoint, len(asked) < int(c.Pods) || !r.couldSave(inc), "incident %d: nothing came before the answers", inc.ID)
	default:
		r.require(Checkpoint, false, "incident %d moves its pods, and its checkpoint is %q", inc.ID, c.Outcome)
	}
}

// asked are the pods that were seen to run and that the job has asked.
func (r *record) asked() []*gang.Pod {
	var out []*gang.Pod
	pods := r.o.Job.Spec.Checkpoint.Pods
	for _, of := range ranksOf(r.o.Job, r.old) {
		other := pods != nil && ((pods.Ranks == v1alpha1.CheckpointFirst && of.index > 0) || (len(pods.Tasks) > 0 && !slices.Contains(pods.Tasks, of.task)))
		if p := r.seen(of); !other && r.runs(p) {
			out = append(out, p)
		}
	}
	return out
}

func (r *record) runs(p *gang.Pod) bool {
	return p != nil && p.Phase == corev1.PodRunning && p.IP != "" && !p.Deleting && p.Disrupted == "" && !p.Gated &&
		!replaced(r.old, p) && r.o.Nodes[p.Node].Ready
}

// programEnded reports whether the manager has heard that the program of a pod has ended with an error in the epoch of its gang.
func (r *record) programEnded(p *gang.Pod) bool {
	return p.Process != nil && p.Process.State == gang.ProcessFailed && p.Process.Epoch >= r.old.Epoch
}

// couldSave reports whether all that an incident concerns was seen to work, but for signals, and nothing else
// was restarted in the same record. A pod whose program has ended, or does not reach the epoch of its gang, may still be ready.
func (r *record) couldSave(inc *v1alpha1.Incident) bool {
	for i := range r.s.Incidents {
		other := &r.s.Incidents[i]
		was := incidentOf(r.old, other.ID)
		joined := hasRestarted(other) && other.PodCount > was.PodCount
		if other.ID != inc.ID && (joined || len(newSteps(&was, other)) > 0) {
			return false
		}
	}
	renewed := slices.ContainsFunc(r.ranksBefore(), func(of rank) bool {
		return !concerns(r.o.Job, inc, of) && incarnationOf(r.s, of) > incarnationOf(r.old, of)
	})
	if renewed || len(r.asked()) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.ranksBefore(), func(of rank) bool {
		p := r.seen(of)
		return concerns(r.o.Job, inc, of) && !r.works(of) && (!r.runs(p) || !p.Ready || r.programEnded(p) || r.isLate(p))
	})
}
