// Checkpoints in the simulation: programs that save, refuse, cannot be reached or sleep, and
// the invariant that no pod is moved before they were asked and had their time.

package policies

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// drawCheckpoint has the program asked for checkpoints, or not.
func (c *cluster) drawCheckpoint(job *v1alpha1.TrainingJob) {
	job.Spec.Checkpoint = nil
	if c.one(3) {
		return
	}
	jobWrapper{job}.saving()
	job.Spec.Checkpoint.Request.TimeoutSeconds = []int32{1, 10, 60, 600}[c.rng.IntN(4)]
	switch c.rng.IntN(4) {
	case 0:
		job.Spec.Checkpoint.Pods = &v1alpha1.CheckpointPods{Ranks: v1alpha1.CheckpointFirst}
	case 1:
		job.Spec.Checkpoint.Pods = &v1alpha1.CheckpointPods{Tasks: []string{"worker"}, Ranks: v1alpha1.CheckpointAll}
	}
}

func (c *cluster) changeCheckpoint() {
	c.edit(c.drawCheckpoint)
	c.changed("the checkpoint is changed")
}

// ask posts to a pod. It does not wait for the answer.
func (c *cluster) ask(a Ask, p AskedPod) {
	key := AnswerKey{a.ID, p.UID}
	if c.leads() {
		s := &c.job.Status
		inc := incidentOf(s, a.Incident)
		c.require(inc.Outcome == "" && asking(&inc), "3: pod %s is asked for a checkpoint, and incident %d does not say so", p.Name, a.Incident)
		c.require(c.acting.job.Annotations[v1alpha1.DryRun] != "true", "pod %s is asked for a checkpoint in a dry run", p.Name)
	}
	_, twice := c.acting.answers[key]
	c.require(!twice, "pod %s is asked twice by one process", p.Name)
	if slices.Contains(c.ledger.posts, key) {
		c.happened("pod is asked again by another process")
	}
	c.ledger.posts = append(c.ledger.posts, key)
	if c.acting.answers == nil {
		c.acting.answers = map[AnswerKey]Answer{}
	}
	c.acting.answers[key] = Answer{}
	c.acting.posts = append(c.acting.posts, key)
	c.changed("the manager asks pod %s for a checkpoint", p.Name)
}

// programsAnswer lets the programs that were asked do what they do.
func (c *cluster) programsAnswer() {
	m := c.manager
	for _, key := range m.posts {
		a := m.answers[key]
		if a.Saved || a.Refused || c.lazy() {
			continue
		}
		switch p := c.podOfUID(key.Pod); {
		case p == nil || !c.executes(p) || c.one(6):
			if a.Message == "" {
				c.answers(m, key, Answer{Message: "connection refused"})
			}
		case c.one(6):
			c.answers(m, key, Answer{Refused: true, Message: "answered 500 Internal Server Error"})
		case !c.one(3):
			if c.ledger.saved == nil {
				c.ledger.saved = map[AnswerKey]bool{}
			}
			c.ledger.saved[key] = true
			if !c.one(8) { // else the answer is lost
				c.answers(m, key, Answer{Saved: true})
			}
		}
	}
}

func (c *cluster) answers(m *manager, key AnswerKey, a Answer) {
	m.answers[key] = a
	c.changed("pod of uid %s answers %+v", key.Pod, a)
}

func (c *cluster) podOfUID(uid string) *simPod {
	for _, p := range c.pods {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

// degradePod is a link that goes bad while its pod works on, and what comes of it.
func (c *cluster) degradePod() {
	p, ok := pick(c, c.pods, func(p *simPod) bool { return c.executes(p) && p.Ready && !p.Spare })
	if !ok {
		return
	}
	p.Signals = []Signal{{Name: "NVLinkReplay"}}
	c.changed("a link of pod %s is degraded", p.Name)
	for range c.rng.IntN(8) {
		c.pass(time.Duration(c.rng.IntN(20000)) * time.Millisecond)
		c.manager.pass(c)
		c.checkWorld()
		c.programsAnswer()
	}
}

// checkCheckpoint is about the request for a checkpoint of an incident that is recorded.
func (r *record) checkCheckpoint(was, inc *v1alpha1.Incident) {
	r.require(inc.Outcome == "" || !asking(inc), "incident %d is over and waits for a checkpoint", inc.ID)
	if was.Checkpoint != nil {
		r.require(inc.Checkpoint != nil, "3: the checkpoint of incident %d is forgotten", inc.ID)
		same := was.Checkpoint.RequestTime.Truncate(time.Microsecond).Equal(inc.Checkpoint.RequestTime.Truncate(time.Microsecond))
		r.require(same || !asking(was), "3: incident %d asks for another checkpoint while it waits for one", inc.ID)
		r.require(!same || asking(was) || asking(inc) || equality.Semantic.DeepEqual(was.Checkpoint, inc.Checkpoint), "the checkpoint of incident %d is over, and changes", inc.ID)
	}
	for _, step := range inc.Steps[len(was.Steps):] {
		if step.Action == v1alpha1.MigratePod && !step.DryRun && r.o.Job.Spec.Checkpoint != nil {
			r.checkMove(was, inc, step)
		}
	}
}

// checkMove is about a step that moves pods of a job whose program wants to be asked first.
func (r *record) checkMove(was, inc *v1alpha1.Incident, step v1alpha1.FiredStep) {
	c := inc.Checkpoint
	if c == nil || c.EndTime == nil || !c.EndTime.Equal(&step.Time) {
		r.require(!r.couldSave(inc), "incident %d moves its pods, and nobody was asked for a checkpoint", inc.ID)
		return
	}
	r.require(asking(was), "3: incident %d moves its pods, and its request for a checkpoint was not recorded before", inc.ID)
	asked := r.asked()
	id := requestID(r.o.Job, was)
	switch c.Outcome {
	case v1alpha1.CheckpointSaved:
		n := 0
		for _, p := range r.o.Pods {
			if r.ledger.saved[AnswerKey{id, p.UID}] {
				n++
			}
		}
		r.require(n >= int(c.Pods), "incident %d moves its pods, and %d of %d that were asked have saved", inc.ID, n, c.Pods)
	case v1alpha1.CheckpointRefused:
		refused := slices.ContainsFunc(asked, func(p *Pod) bool { return r.o.Answers[AnswerKey{id, p.UID}].Refused })
		r.require(refused, "incident %d: nobody has refused", inc.ID)
	case v1alpha1.CheckpointTimedOut, v1alpha1.CheckpointUnreachable:
		r.require(!r.o.Now.Before(was.Checkpoint.Deadline.Time), "incident %d moves its pods before the deadline at %s", inc.ID, was.Checkpoint.Deadline)
	case v1alpha1.CheckpointOvertaken:
		r.require(len(asked) < int(c.Pods) || !r.couldSave(inc), "incident %d: nothing came before the answers", inc.ID)
	default:
		r.require(false, "incident %d moves its pods, and its checkpoint is %q", inc.ID, c.Outcome)
	}
}

// asked are the pods that were seen to run and that the job has asked.
func (r *record) asked() []*Pod {
	var out []*Pod
	eachRank(Effective(r.o.Job, r.old), func(of rank) {
		pods := r.o.Job.Spec.Checkpoint.Pods
		other := pods != nil && ((pods.Ranks == v1alpha1.CheckpointFirst && of.index > 0) || (len(pods.Tasks) > 0 && !slices.Contains(pods.Tasks, of.task)))
		if p := r.seen(of); !other && r.runs(p, of) {
			out = append(out, p)
		}
	})
	return out
}

func (r *record) runs(p *Pod, of rank) bool {
	return p != nil && p.Phase == corev1.PodRunning && p.IP != "" && !p.Deleting && p.Disrupted == "" && !p.Gated &&
		p.Incarnation >= Incarnation(r.old, of.task, of.index) && r.o.Nodes[p.Node].Ready
}

// couldSave is true where all that an incident concerns was seen to work, but for signals,
// and nothing else was restarted in the same record.
func (r *record) couldSave(inc *v1alpha1.Incident) bool {
	for i := range r.s.Incidents {
		other := &r.s.Incidents[i]
		was := incidentOf(r.old, other.ID)
		joined := restarted(other) && other.PodCount > was.PodCount
		if other.ID != inc.ID && (joined || len(other.Steps) > len(was.Steps)) {
			return false
		}
	}
	return len(r.asked()) > 0 && r.before().everyRankOf(inc, func(of rank) bool {
		p := r.seen(of)
		return r.works(of) || (r.runs(p, of) && p.Ready)
	})
}
