// Ranks that resume from copies of their own.

package real

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/evidence"
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
		if *padMiB > 0 {
			container.Env = append(container.Env, corev1.EnvVar{Name: "PAD_MIB", Value: strconv.Itoa(*padMiB)}, corev1.EnvVar{Name: "KEEP_COPIES", Value: "2"})
		}
	}
	if *restores > 1 {
		t.Job.Spec.RestartPolicy.ExcludeNodeSeconds = new(int32(0)) // a node that has its power again is lost once more
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
	all := &restored{MiB: *padMiB, Seconds: map[v1alpha1.CheckpointScope][]float64{}, LostSteps: map[string][]int{}}
	write := all.record(t)
	for range *restores {
		lost := s.pods()[2].Spec.NodeName
		repair := sync.OnceValue(func() error { return errors.Join(ground.PowerOn(s.ctx, lost), ground.AwaitGPUs(s.ctx, lost)) })
		s.resumeAfter(all.add,
			fault{"a program is killed", 2, func() error { return ground.KillPrograms(s.ctx, s.key(2)) }, memory, 1},
			fault{"a pod is deleted", 1, func() error { return s.deletePods(1) }, cluster.LocalPath, onNode},
			fault{"a node loses its power", 2, func() error {
				t.Cleanup(func() { s.must(repair()) })
				return ground.PowerOff(s.ctx, lost)
			}, cluster.SharedPath, inShared},
		)
		s.must(repair())
	}
	write()
}

// restored is what was measured of restores, for -record.
type restored struct {
	evidence.Tested
	// MiB is how large the checkpoints are.
	MiB int `json:"mib"`
	// Seconds that ranks took to read one, by where it was.
	Seconds map[v1alpha1.CheckpointScope][]float64 `json:"seconds"`
	// Ratios of the medians to that of memory.
	Ratios map[v1alpha1.CheckpointScope]float64 `json:"ratios"`
	// LostSteps were made again, by what had happened.
	LostSteps map[string][]int `json:"lostSteps"`
}

// add adds how the ranks have resumed after a fault.
func (r *restored) add(what string, lostSteps int, ranks []resumption) {
	r.LostSteps[what] = append(r.LostSteps[what], lostSteps)
	for _, rank := range ranks {
		scope := scopes[rank.folder]
		r.Seconds[scope] = append(r.Seconds[scope], rank.seconds)
	}
}

// record returns what writes it.
func (r *restored) record(t *testing.T) (write func()) {
	t.Helper()
	if *record == "" || r.MiB == 0 {
		return func() {}
	}
	path := filepath.Join(*record, restoresFile)
	var err error
	if r.Tested, err = evidence.Of(t.Context(), "make test-restores", path); err != nil {
		t.Fatal(err)
	}
	median := func(scope v1alpha1.CheckpointScope) float64 {
		seconds := slices.Sorted(slices.Values(r.Seconds[scope]))
		return seconds[len(seconds)/2]
	}
	return func() {
		if t.Failed() {
			return
		}
		r.Ratios = map[v1alpha1.CheckpointScope]float64{}
		for scope := range r.Seconds {
			r.Ratios[scope] = math.Round(100*median(scope)/median(v1alpha1.CheckpointScopePod)) / 100
		}
		if err := evidence.Write(path, r); err != nil {
			t.Error(err)
		}
	}
}

// withSurvivors has ranks save their last whole step when they cannot go on, and rank 0 every thirtieth.
func withSurvivors(t *Training) {
	for i := range t.Job.Spec.Tasks {
		container := &t.Job.Spec.Tasks[i].Template.Spec.Containers[0]
		container.Env = append(container.Env, corev1.EnvVar{Name: "SURVIVORS_SAVE", Value: "1"}, corev1.EnvVar{Name: "CHECKPOINT_EVERY", Value: "30"})
	}
	t.Job.Spec.Supervisor.CheckpointTiers = []v1alpha1.CheckpointTier{{Path: cluster.SharedPath, Scope: v1alpha1.CheckpointScopeShared}}
}

// TestSurvivorsSave kills a program, whose peers see their collective fail, and powers a node off, whose peers hang until they are stopped. The gang goes
// on from the step of its survivors.
func TestSurvivorsSave(t *testing.T) {
	s := torchrun(t, "survivors", 100_000, (*Training).Supervise, (*Training).WithoutAgents, withSurvivors)
	before := s.pods()
	s.resumeAfter(func(string, int, []resumption) {},
		fault{"a program is killed", 2, func() error { return ground.KillPrograms(s.ctx, s.key(2)) }, cluster.SharedPath, 1},
		fault{"a node loses its power", 2, func() error { return s.powerOff(before[2].Spec.NodeName) }, cluster.SharedPath, 1},
	)
}

// scopes of the folders.
var scopes = map[string]v1alpha1.CheckpointScope{
	memory: v1alpha1.CheckpointScopePod, cluster.LocalPath: v1alpha1.CheckpointScopeNode, cluster.SharedPath: v1alpha1.CheckpointScopeShared,
}

// fault is something that strikes a rank, which then resumes from a folder, where a step is saved every so often.
type fault struct {
	what   string
	rank   int
	strike func() error
	folder string
	every  int
}

// resumeAfter has faults strike, one after the other, and notes how many steps each has cost, and how the ranks have resumed.
func (s *scenario) resumeAfter(note func(what string, lostSteps int, ranks []resumption), faults ...fault) {
	s.t.Helper()
	for _, fault := range faults {
		s.must(s.Refresh(s.ctx))
		epoch := s.Job.Status.Epoch
		s.must(s.awaitPrinted(fmt.Sprintf("event=step rank=0 step=%d ", s.lastPrinted(s.pods()[0])+2*inShared)))
		s.must(fault.strike())
		s.must(s.AwaitJob(s.ctx, "the gang trains again", func(job *v1alpha1.TrainingJob) bool {
			return job.Status.Epoch > epoch && len(job.Status.Incidents) > 0 && job.Status.Incidents[len(job.Status.Incidents)-1].Outcome == v1alpha1.OutcomeRecovered
		}))
		lostSteps, ranks := s.resumedAlike(fault.what, fault.rank, fault.folder, fault.every)
		note(fault.what, lostSteps, ranks)
	}
}

var bits = regexp.MustCompile(`event=step rank=\d+ step=(\d+) .*bits=(\S+)`)

// resumption is how a rank has resumed.
type resumption struct {
	step    int
	folder  string
	seconds float64
	// last is the last step of the log before that, and bits what each step in the log came to.
	last int
	bits map[string][]string
}

// resumption reads from the log of a rank how it has resumed in the epoch of the job, once it makes steps again.
func (s *scenario) resumption(pod corev1.Pod) (r resumption) {
	s.t.Helper()
	resumed := regexp.MustCompile(fmt.Sprintf(`event=resumed rank=\d+ step=(\d+) folder=(\S+) seconds=(\S+) epoch=%d\n`, s.Job.Status.Epoch))
	var log string
	var begun []int
	s.must(await(s.ctx, pod.Name+" makes steps again", func(ctx context.Context) (done bool, err error) {
		log, err = s.Log(ctx, pod, 100_000)
		begun = resumed.FindStringSubmatchIndex(log)
		return begun != nil && bits.MatchString(log[begun[1]:]), err
	}))
	r = resumption{folder: log[begun[4]:begun[5]], bits: map[string][]string{}}
	r.step, _ = strconv.Atoi(log[begun[2]:begun[3]])
	r.seconds, _ = strconv.ParseFloat(log[begun[6]:begun[7]], 64)
	for _, made := range bits.FindAllStringSubmatch(log, -1) {
		r.bits[made[1]] = append(r.bits[made[1]], made[2])
	}
	for _, made := range bits.FindAllStringSubmatch(log[:begun[0]], -1) {
		step, _ := strconv.Atoi(made[1])
		r.last = max(r.last, step)
	}
	return r
}

// resumedAlike checks that all ranks have resumed from one step, which is as new as can be and in the incident, that one of them has read it from a folder, and that steps that were
// made again have come to the same. It returns how many those are, and how each rank has resumed.
func (s *scenario) resumedAlike(what string, rank int, folder string, every int) (lostSteps int, ranks []resumption) {
	s.t.Helper()
	inc := s.Job.Status.Incidents[len(s.Job.Status.Incidents)-1]
	step, last, folders, came := int(ptr.Deref(inc.ResumeStep, -1)), 0, map[int]string{}, map[string]string{}
	for r, pod := range s.pods() {
		resumed := s.resumption(pod)
		last, folders[r] = max(last, resumed.last), resumed.folder
		ranks = append(ranks, resumed)
		if resumed.step != step {
			s.errorf("%s: rank %d resumed from step %d, and the incident says %d", what, r, resumed.step, step)
		}
		for made, values := range resumed.bits {
			for _, value := range values {
				if was, before := came[made]; before && was != value {
					s.errorf("%s: step %s came to %s, and to %s", what, made, was, value)
				}
				came[made] = value
			}
		}
	}
	from := map[v1alpha1.CheckpointScope]int{}
	for _, folder := range folders {
		from[scopes[folder]]++
	}
	for _, source := range inc.ResumedFrom {
		from[source.Scope] -= int(source.Ranks)
	}
	for scope, ranks := range from {
		if ranks != 0 {
			s.errorf("%s: ranks resumed from %v, and the incident says %v, %d fewer of %s", what, folders, inc.ResumedFrom, ranks, scope)
		}
	}
	s.t.Logf("%s: the last step was %d; resumed from step %d in %v", what, last, step, folders)
	if folders[rank] != folder {
		s.errorf("%s: rank %d resumed from %s, want %s", what, rank, folders[rank], folder)
	}
	if step < last-every || step%every != 0 || step > last {
		s.errorf("%s: resumed from step %d after step %d, with a copy every %d", what, step, last, every)
	}
	return last - step, ranks
}
