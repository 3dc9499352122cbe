// Places: which rank the pods are that are named otherwise.

package policies

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Place is the rank of a pod: its index in its task, its incarnation, and its RANK in PyTorch, negative where it has none.
type Place struct{ Index, Incarnation, PyTorchRank int32 }

// places are those of the pods that stand by or have stood by, and are of a rank now, by their UIDs.
func (j job) places(s *v1alpha1.TrainingJobStatus) map[string]Place {
	out := map[string]Place{}
	for _, r := range gang.Moved(s) {
		if p := j.Pod(r); p != nil && !p.Spare && !p.Gated && !gang.IsStale(s, p) {
			out[p.UID] = Place{Index: r.Index, Incarnation: p.Incarnation, PyTorchRank: j.pyTorchRank(r)}
		}
	}
	return out
}

// pyTorchRank is the RANK that Volcano's plugin gives a rank.
func (j job) pyTorchRank(r gang.Rank) int32 {
	f := j.Job.Spec.Framework
	switch {
	case f == nil || f.PyTorch == nil:
		return -1
	case r.Task == f.PyTorch.Master:
		return 0
	case r.Task == f.PyTorch.Worker:
		return r.Index + 1
	}
	return -1
}

// hosts are the addresses of the ranks whose pods are named otherwise, as lines of hosts(5), by the names that programs know. It is false while
// one has a pod without an address: nobody would find it.
func (j job) hosts(s *v1alpha1.TrainingJobStatus) (lines string, known bool) {
	var out strings.Builder
	known = true
	domain := gang.VolcanoJobName(j.Job, s.Attempt)
	for _, r := range gang.Moved(s) {
		p := j.Pod(r)
		if p == nil || p.Spare || gang.IsStale(s, p) || p.Finished() || gang.SlotOf(s, r) == r {
			continue
		}
		if p.IP == "" {
			known = false
			continue
		}
		name := gang.PodName(j.Job, s.Attempt, r)
		fmt.Fprintf(&out, "%s %s.%s %s", p.IP, name, domain, name)
		if t := j.Task(r.Task); t.Replicas == 1 && t.Template.Spec.Hostname != "" { // by which Volcano's plugin names a master
			fmt.Fprintf(&out, " %s.%s", t.Template.Spec.Hostname, domain)
		}
		out.WriteString("\n")
	}
	return out.String(), known
}
