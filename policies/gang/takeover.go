// Take-over: a spare's pod becomes that of a rank, and the next pod of the rank's name becomes the spare's. No pod is renamed: the status
// says which rank, or spare, has the pods of another name.

package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// TakesOver reports whether spares of a task take over its ranks.
func (g *Gang) TakesOver(task string) bool {
	return g.IsSupervised(task) && g.Job.Spec.Supervisor.TakeOver != nil
}

// Waits reports whether a spare, of which there may be no pod, waits for its rank.
func (g *Gang) Waits(p *Pod) bool { return g.isSpareIn(p, ProcessWaiting) }

// Comes reports whether a spare, of which there may be no pod, goes to the barrier, as each does for a moment with each run.
func (g *Gang) Comes(p *Pod) bool { return g.isSpareIn(p, ProcessStopping) }

func (g *Gang) isSpareIn(p *Pod, state ProcessState) bool {
	return p != nil && p.Process != nil && p.Process.State == state && p.Phase == corev1.PodRunning && g.Nodes[p.Node].Ready
}

// SlotOf is the rank, or the spare, that the pods of one are named after.
func SlotOf(s *v1alpha1.TrainingJobStatus, r Rank) Rank {
	if entry := podEntry(s, r); entry != nil {
		return slotNamed(entry.Pod)
	}
	return r
}

// PodNameOf is the name of the pods that a rank, or a spare, has by now.
func PodNameOf(job *v1alpha1.TrainingJob, s *v1alpha1.TrainingJobStatus, r Rank) string {
	return PodName(job, s.Attempt, SlotOf(s, r))
}

// RankOf is the rank, or the spare, that has the pods of a name: the inverse of SlotOf.
func RankOf(s *v1alpha1.TrainingJobStatus, slot Rank) Rank {
	if r, moved := holders(s)[holding{s.Attempt, slot}]; moved {
		return r
	}
	return slot
}

// Moved are the ranks that have, or had, a pod of another name in the present attempt, and the spares.
func Moved(s *v1alpha1.TrainingJobStatus) (moved []Rank) {
	for i := range s.Tasks {
		for _, entry := range s.Tasks[i].Pods {
			if entry.Attempt == s.Attempt {
				moved = append(moved, Rank{s.Tasks[i].Name, entry.Index})
			}
		}
	}
	return moved
}

// holding is the rank, or the spare, that pods are named after, in an attempt.
type holding struct {
	attempt int32
	slot    Rank
}

// holders are the ranks that have the pods of another name, by these.
func holders(s *v1alpha1.TrainingJobStatus) map[holding]Rank {
	out := map[holding]Rank{}
	for i := range s.Tasks {
		for _, entry := range s.Tasks[i].Pods {
			out[holding{entry.Attempt, slotNamed(entry.Pod)}] = Rank{s.Tasks[i].Name, entry.Index}
		}
	}
	return out
}

// TakeOver gives a rank the pod of a spare, as an incarnation that neither has had, and the spare the pods of the rank's name: those that come.
func TakeOver(s *v1alpha1.TrainingJobStatus, r, spare Rank, pod types.UID) {
	of, was := SlotOf(s, spare), SlotOf(s, r)
	next := max(Incarnation(s, r.Task, r.Index), Incarnation(s, spare.Task, spare.Index)) + 1
	raise(s, r, next, v1alpha1.RestartTakenOver)
	raise(s, spare, next, v1alpha1.RestartTakenOver)
	setSlot(s, r, v1alpha1.RankPod{Index: r.Index, Attempt: s.Attempt, Pod: nameOfSlot(of), UID: pod, Incarnation: next})
	setSlot(s, spare, v1alpha1.RankPod{Index: spare.Index, Attempt: s.Attempt, Pod: nameOfSlot(was)})
}

// NextAttempt asks for a new Volcano Job, of which every rank has the pods of its own name. Those of the attempt that ends may still run.
func NextAttempt(s *v1alpha1.TrainingJobStatus) {
	for i := range s.Tasks {
		s.Tasks[i].Pods = slices.DeleteFunc(s.Tasks[i].Pods, func(entry v1alpha1.RankPod) bool { return entry.Attempt != s.Attempt })
	}
	s.Attempt++
}

// placed is an observation whose pods are of the ranks that a status gives them. The pods of the observation itself stay as they are.
func placed(o *Observation, s *v1alpha1.TrainingJobStatus) *Observation {
	ranks := holders(s)
	for i := range o.Pods {
		p := &o.Pods[i]
		if r, incarnation := p.holder(s, ranks); r != p.Rank() || incarnation != p.Incarnation {
			o = new(*o)
			o.Pods = slices.Clone(o.Pods)
			Place(o.Pods, s)
			break
		}
	}
	return o
}

// Place says of which rank, or spare, each pod is by a status.
func Place(pods []Pod, s *v1alpha1.TrainingJobStatus) {
	ranks := holders(s)
	for i := range pods {
		p := &pods[i]
		r, incarnation := p.holder(s, ranks)
		if r != p.Rank() {
			p.Task, p.Spare = strings.CutSuffix(r.Task, v1alpha1.SpareSuffix)
			p.Index = r.Index
		}
		p.Incarnation = incarnation
	}
}

// holder is the rank, or the spare, that has a pod by a status, and as which incarnation.
func (p *Pod) holder(s *v1alpha1.TrainingJobStatus, ranks map[holding]Rank) (r Rank, incarnation int32) {
	if p.Slot.Task == "" {
		return p.Rank(), p.Incarnation
	}
	r, moved := ranks[holding{p.Attempt, p.Slot}]
	if !moved {
		return p.Slot, p.Incarnation
	}
	if entry := podEntry(s, r); entry != nil && p.Attempt == s.Attempt && string(entry.UID) == p.UID {
		return r, max(p.Incarnation, entry.Incarnation)
	}
	return r, p.Incarnation
}

func podEntry(s *v1alpha1.TrainingJobStatus, r Rank) *v1alpha1.RankPod {
	t := TaskStatus(s, r.Task)
	if t == nil {
		return nil
	}
	if i := slices.IndexFunc(t.Pods, func(entry v1alpha1.RankPod) bool { return entry.Index == r.Index && entry.Attempt == s.Attempt }); i >= 0 {
		return &t.Pods[i]
	}
	return nil
}

// setSlot replaces what is known of the pod of a rank. One that has the pods of its own name, and has not taken them over, needs no entry.
func setSlot(s *v1alpha1.TrainingJobStatus, r Rank, entry v1alpha1.RankPod) {
	t := TaskStatus(s, r.Task)
	t.Pods = slices.DeleteFunc(t.Pods, func(e v1alpha1.RankPod) bool { return e.Index == r.Index && e.Attempt == s.Attempt })
	if entry.Pod == nameOfSlot(r) && entry.UID == "" {
		return
	}
	t.Pods = append(t.Pods, entry)
	slices.SortFunc(t.Pods, func(a, b v1alpha1.RankPod) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Index, b.Index))
	})
}

func nameOfSlot(r Rank) string { return fmt.Sprintf("%s-%d", r.Task, r.Index) }

func slotNamed(name string) Rank {
	at := strings.LastIndex(name, "-")
	if at < 0 {
		return Rank{Task: name}
	}
	index, _ := strconv.ParseInt(name[at+1:], 10, 32)
	return Rank{name[:at], int32(index)}
}
