// How many writes a recovery costs the API server, Events aside: with many jobs
// broken by one switch, they are what a recovery waits for.

package chaos

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestWritesOfOnePodsRecovery(t *testing.T) {
	keepsPlace := func(j *v1alpha1.TrainingJob) { j.Spec.MinAvailable = ptr.To[int32](2) }
	standing := func(j *v1alpha1.TrainingJob) { j.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways} }
	fail := func(l *lane, p corev1.Pod) { l.must(testCluster.FailPod(l.ctx, keyOf(p), 1), "fail the pod") }
	remove := func(l *lane, p corev1.Pod) { l.must(testCluster.Client().Delete(l.ctx, &p), "delete the pod") }
	lose := func(l *lane, p corev1.Pod) { l.loseNode(p.Spec.NodeName) }
	tests := map[string]struct {
		job    []func(*v1alpha1.TrainingJob)
		strike func(*lane, corev1.Pod)
		most   int
	}{
		"failed":          {[]func(*v1alpha1.TrainingJob){keepsPlace, standing}, fail, 4},
		"failed-held":     {nil, fail, 4 + 3},
		"deleted":         {[]func(*v1alpha1.TrainingJob){keepsPlace, standing}, remove, 4},
		"deleted-held":    {nil, remove, 4 + 3},
		"node-gone":       {[]func(*v1alpha1.TrainingJob){keepsPlace}, lose, 4},
		"node-gone-place": {nil, lose, 5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLane(t, "writes-"+name, 1, 4)
			l.run(l.trainingJob(3, tc.job...))
			l.await("all ranks run", func() bool { return l.job.Status.Ready == "3/3" }) // Volcano may bind what is more than minAvailable in a later round
			l.idle()
			before := l.before()
			l.wire.arm(target{}, fault{})
			tc.strike(l, l.ranks()[1])
			l.recovered(before)
			w := l.changes()
			if t.Logf("%d writes: %v", len(w), w); len(w) > tc.most {
				t.Errorf("that is more than %d", tc.most)
			}
		})
	}
}

// changes are the writes of one recovery that changed something. A delete or a patch
// that a cache a moment behind asks for again does not, and the place in the queue is
// counted once: a round of the scheduler that had begun before may undo the first. Nor
// is counted what is told while a slow machine has the pod wait, nor a binding, which the scheduler
// writes otherwise.
func (l *lane) changes() []call {
	placed := false
	var last v1alpha1.TrainingJobStatus
	return slices.DeleteFunc(l.wire.writes(), func(c call) bool {
		again := c.kind == "PodGroup" && placed
		placed = placed || c.kind == "PodGroup"
		if job, ok := c.obj.(*v1alpha1.TrainingJob); ok && !c.failed {
			again = equality.Semantic.DeepEqual(last, untold(job.Status))
			last = untold(job.Status)
		}
		return c.failed || again || c.sub == "binding"
	})
}

// untold is a status without what it tells of an incident that is open, and since when a pod of it has waited.
func untold(s v1alpha1.TrainingJobStatus) v1alpha1.TrainingJobStatus {
	s = *s.DeepCopy()
	s.Message = ""
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRecovering); c != nil {
		c.Message = ""
	}
	for i := range s.Incidents {
		s.Incidents[i].NoRoomTime = nil
	}
	return s
}
