// Collectives that abort: all ranks of a gang end within seconds.

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	defaults "github.com/lockstep-dev/lockstep/policies/rules"
	"github.com/lockstep-dev/lockstep/test/check"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/evidence"
)

// sizes are numbers of ranks, as a flag.
type sizes []int

func (s *sizes) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*s), " ", ","), "[]")
}

func (s *sizes) Set(text string) error {
	*s = nil
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		if n < 2 {
			return errors.New("a gang that aborts has two ranks or more")
		}
		*s = append(*s, n)
	}
	return nil
}

var (
	abortSizes = sizes{4, 40}
	abortFile  = flag.String("abort.json", "", "the file into which TestALargeGangAborts writes what it has seen")
)

func init() {
	flag.Var(&abortSizes, "abort.sizes", "ranks of the gangs of TestALargeGangAborts, separated by commas")
}

// abort is a gang that aborts, and what came of it.
type abort struct {
	// Template is the restartPolicy of the pods.
	Template corev1.RestartPolicy `json:"template"`
	Ranks    int                  `json:"ranks"`
	// Failed is the number of ranks whose program ends, and StayDown that of those whose kubelet does not start them again.
	Failed   int `json:"failed"`
	StayDown int `json:"stayDown"`
	// Replaced is the number of ranks that have another pod at the end, and InPlace that of those whose container started again in its pod.
	Replaced int `json:"replaced"`
	InPlace  int `json:"inPlace"`
	// Running is the number of ranks whose pod is ready at the end.
	Running   int `json:"running"`
	Incidents int `json:"incidents"`
	// Steps counts the steps of all incidents, by action.
	Steps map[v1alpha1.Action]int `json:"steps"`
	// Attempts is the number of Volcano Jobs.
	Attempts int32 `json:"attempts"`
}

// Gangs that are larger than the lists of names in their status abort over three seconds.
func TestALargeGangAborts(t *testing.T) {
	var seen []*abort
	if *abortFile != "" {
		of, err := evidence.Of(t.Context(), "make test-abort", *abortFile)
		if err != nil {
			t.Fatal("name what is tested:", err)
		}
		t.Cleanup(func() { writeAborts(t, of, seen) })
	}
	for _, ranks := range abortSizes {
		for _, c := range []struct {
			name string
			a    abort
			run  func(*scenario, *abort)
		}{
			{"never", abort{Template: corev1.RestartPolicyNever, Failed: ranks - 1}, (*scenario).abortForGood},
			{"inplace", abort{Template: corev1.RestartPolicyOnFailure, Failed: ranks}, (*scenario).abortInPlace},
			{"onedown", abort{Template: corev1.RestartPolicyOnFailure, Failed: ranks, StayDown: 1}, (*scenario).abortInPlace},
		} {
			a := &c.a
			a.Ranks = ranks
			seen = append(seen, a)
			t.Run(fmt.Sprintf("%d/%s", ranks, c.name), func(t *testing.T) {
				s := newScenario(t, fmt.Sprintf("abort-%s-%d", c.name, ranks), 1, ranks+1)
				s.run(s.trainingJob(int32(ranks), func(j *v1alpha1.TrainingJob) {
					j.Spec.Tasks[0].Template.Spec.RestartPolicy = a.Template
					j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: unhurried(defaults.DefaultRules(false))}
				}))
				c.run(s, a)
			})
		}
	}
}

// unhurried are rules whose steps come an hour later, except those that come at once: a machine that is busy takes none of them.
func unhurried(rules []v1alpha1.Rule) []v1alpha1.Rule {
	for _, rule := range rules {
		for i := range rule.Steps {
			if step := &rule.Steps[i]; step.AfterSeconds > 0 {
				step.AfterSeconds += 3600
			}
		}
	}
	return rules
}

// overThreeSeconds calls end for a sixth of the pods at a time. The first replacements come meanwhile.
func (s *scenario) overThreeSeconds(pods []client.ObjectKey, end func(pods ...client.ObjectKey) error) {
	s.t.Helper()
	const batches = 6
	for batch := range slices.Chunk(pods, (len(pods)+batches-1)/batches) {
		s.must(end(batch...), "end the programs of some ranks")
		time.Sleep(3 * time.Second / batches)
	}
}

// abortForGood ends all pods but one, so that the Volcano Job lives on. Each of them is replaced by the first step of its incident, and the
// last one is left alone.
func (s *scenario) abortForGood(a *abort) {
	before, all := s.pods(), s.ranks()
	s.overThreeSeconds(all[:a.Failed], func(pods ...client.ObjectKey) error { return testCluster.FailPods(s.ctx, 1, pods...) })
	s.allRun(func(pod corev1.Pod) bool { return pod.Name == all[a.Failed].Name || pod.UID != before[pod.Name].UID })
	s.await("no incident is open", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	s.count(a, before)
	s.untouched(before, namesOf(all[:a.Failed])...)
	// An incident ends where all are back before the next ones fail.
	check.Equal(s.t, "steps", map[v1alpha1.Action]int{v1alpha1.RestartPod: a.Incidents}, a.Steps)
}

// abortInPlace ends the programs of all ranks, whose kubelets start them again in their pods. The first one to fail may stay down: it is
// replaced by the first step, and no other is.
func (s *scenario) abortInPlace(a *abort) {
	before, all := s.pods(), s.ranks()
	crash := func(pods ...client.ObjectKey) error {
		return testCluster.RestartContainersOf(s.ctx, cluster.Termination{ExitCode: 1}, pods...)
	}
	s.must(crash(all[0]), "end the program of a rank")
	s.noticed(1)
	s.overThreeSeconds(all[1:], crash)
	s.must(testCluster.ContainersReady(s.ctx, all[a.StayDown:]...), "let the ranks come back")
	want := map[v1alpha1.Action]int{}
	if a.StayDown > 0 {
		s.due(v1alpha1.RestartPod)
		want[v1alpha1.RestartPod] = 1
	}
	s.allRun(func(corev1.Pod) bool { return true })
	s.await("no incident is open", func() bool { return s.job.Status.State == v1alpha1.StateRunning })
	s.count(a, before)
	s.untouched(before, namesOf(all[:a.StayDown])...)
	check.Equal(s.t, "steps", want, a.Steps)
	check.Equal(s.t, "containers that have started again in their pods", a.Ranks-a.StayDown, a.InPlace)
}

// ranks are the keys of the pods of the present attempt, by rank.
func (s *scenario) ranks() []client.ObjectKey {
	out := make([]client.ObjectKey, s.job.Spec.Tasks[0].Replicas)
	for i := range out {
		out[i] = client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("%s-%d-worker-%d", s.job.Name, s.job.Status.Attempt, i)}
	}
	return out
}

func namesOf(keys []client.ObjectKey) []string {
	var out []string
	for _, key := range keys {
		out = append(out, key.Name)
	}
	return out
}

// allRun waits until every rank has a ready pod that satisfies a condition.
func (s *scenario) allRun(good func(corev1.Pod) bool) {
	s.t.Helper()
	all := s.ranks()
	s.awaitAny("every rank has a pod that is ready", func(context.Context) (bool, error) {
		now := s.pods()
		return !slices.ContainsFunc(all, func(key client.ObjectKey) bool {
			pod, there := now[key.Name]
			return !there || !isReady(&pod) || !good(pod)
		}), nil
	})
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// count fills in what came of an abort.
func (s *scenario) count(a *abort, before map[string]corev1.Pod) {
	s.t.Helper()
	for name, pod := range s.pods() {
		if isReady(&pod) {
			a.Running++
		}
		switch {
		case pod.UID != before[name].UID:
			a.Replaced++
		case pod.Status.ContainerStatuses[0].RestartCount > before[name].Status.ContainerStatuses[0].RestartCount:
			a.InPlace++
		}
	}
	a.Incidents, a.Attempts, a.Steps = len(s.job.Status.Incidents), s.job.Status.Attempt, map[v1alpha1.Action]int{}
	for _, action := range s.steps() {
		a.Steps[action]++
	}
	check.Equal(s.t, "ranks that run", a.Ranks, a.Running)
	check.Equal(s.t, "attempts", int32(1), a.Attempts)
}

// writeAborts writes what was seen into the file that the flag names.
func writeAborts(t *testing.T, of evidence.Tested, seen []*abort) {
	if t.Failed() {
		return
	}
	err := evidence.Write(*abortFile, struct {
		evidence.Tested
		Aborts []*abort `json:"aborts"`
	}{of, seen})
	if err != nil {
		t.Error("write what was seen:", err)
	}
}
