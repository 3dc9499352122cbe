// Ranks that resume from copies of their own.

package real

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// memory is where each rank keeps copies in the memory of its pod.
const memory = "/memory"

// How often copies are saved on the node, and checkpoints in the storage that all share, in steps. Copies in memory are saved at each.
const (
	onNode   = 5
	inShared = 10 // by default
)

// withCopies has each rank save copies in its pod's memory and on its node, and the job name these folders.
func withCopies(t *Training) {
	for i := range t.Job.Spec.Tasks {
		pod := &t.Job.Spec.Tasks[i].Template.Spec
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		})
		container := &pod.Containers[0]
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "memory", MountPath: memory})
		container.VolumeMounts[0].SubPath = t.folder
		container.Env = append(container.Env, corev1.EnvVar{Name: "COPIES", Value: fmt.Sprintf("%s=1,%s=%d", memory, cluster.LocalPath, onNode)})
	}
	t.Job.Spec.Supervisor.CheckpointTiers = []v1alpha1.CheckpointTier{
		{Path: memory, Scope: v1alpha1.CheckpointScopePod},
		{Path: cluster.LocalPath, Scope: v1alpha1.CheckpointScopeNode},
		{Path: cluster.SharedPath, Scope: v1alpha1.CheckpointScopeShared},
	}
}

// TestRanksResumeFromTheirNearestCopy kills a program, deletes a pod, and powers a node off. Each time all ranks resume from one step, which is the newest that each of them still
// has: from memory, from the disk of its node, or from the storage that all share.
func TestRanksResumeFromTheirNearestCopy(t *testing.T) {
	s := torchrun(t, "copies", 100_000, (*Training).Supervise, (*Training).WithoutAgents, withCopies)
	before := s.pods()
	for _, fault := range []struct {
		what   string
		rank   int
		strike func() error
		folder string // of the rank's copy
		every  int
	}{
		{"a program is killed", 2, func() error { return ground.KillPrograms(s.ctx, s.key(2)) }, memory, 1},
		{"a pod is deleted", 1, func() error { return s.deletePods(1) }, cluster.LocalPath, onNode},
		{"a node loses its power", 2, func() error { return s.powerOff(before[2].Spec.NodeName) }, cluster.SharedPath, inShared},
	} {
		s.must(s.Refresh(s.ctx))
		epoch := s.Job.Status.Epoch
		s.must(s.awaitPrinted(fmt.Sprintf("event=step rank=0 step=%d ", s.lastPrinted(s.pods()[0])+2*inShared)))
		s.must(fault.strike())
		s.must(s.AwaitJob(s.ctx, "the gang trains again", func(job *v1alpha1.TrainingJob) bool {
			return job.Status.Epoch > epoch && len(job.Status.Incidents) > 0 && job.Status.Incidents[len(job.Status.Incidents)-1].Outcome == v1alpha1.OutcomeRecovered
		}))
		s.resumedAlike(fault.what, fault.rank, fault.folder, fault.every)
	}
}

var bits = regexp.MustCompile(`event=step rank=\d+ step=(\d+) .*bits=(\S+)`)

// resumedAlike checks that all ranks have resumed from one step, which is as new as can be, that one of them has read it from a folder, and that steps that were made again have come
// to the same.
func (s *scenario) resumedAlike(what string, rank int, folder string, every int) {
	s.t.Helper()
	from, last, seen := map[int]string{}, 0, map[string]string{}
	resumed := regexp.MustCompile(fmt.Sprintf(`event=resumed rank=\d+ step=(\d+) folder=(\S+) epoch=%d\n`, s.Job.Status.Epoch))
	for r, pod := range s.pods() {
		var log string
		var begun []int
		s.must(await(s.ctx, fmt.Sprintf("rank %d makes steps again", r), func(ctx context.Context) (done bool, err error) {
			log, err = s.Log(ctx, pod, 100_000)
			begun = resumed.FindStringSubmatchIndex(log)
			return begun != nil && bits.MatchString(log[begun[1]:]), err
		}))
		step, _ := strconv.Atoi(log[begun[2]:begun[3]])
		from[step] += fmt.Sprintf(" %d:%s", r, log[begun[4]:begun[5]])
		if got := log[begun[4]:begun[5]]; r == rank && got != folder {
			s.errorf("%s: rank %d resumed from %s, want %s", what, r, got, folder)
		}
		for _, made := range bits.FindAllStringSubmatchIndex(log, -1) {
			n, value := log[made[2]:made[3]], log[made[4]:made[5]]
			if was, before := seen[n]; before && was != value {
				s.errorf("%s: step %s came to %s, and to %s", what, n, was, value)
			}
			seen[n] = value
			if made[0] < begun[0] {
				step, _ := strconv.Atoi(n)
				last = max(last, step)
			}
		}
	}
	s.t.Logf("%s: the last step was %d; resumed from %v", what, last, from)
	if len(from) != 1 {
		s.errorf("%s: ranks resumed from several steps: %v", what, from)
	}
	for step := range from {
		if step < last-every || step%every != 0 || step > last {
			s.errorf("%s: resumed from step %d after step %d, with a copy every %d", what, step, last, every)
		}
	}
}
