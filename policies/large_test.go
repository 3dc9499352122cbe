// Tests of gangs that are larger than the lists of names in a status.

package policies

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

// large is a running job of so many workers, ten to a node.
func large(replicas int32, rules ...v1alpha1.Rule) *scene {
	s := starting(replicas, rules...)
	for i := range s.Pods {
		s.bind(i, fmt.Sprintf("n%02d", i/((len(s.Pods)+5)/6)))
	}
	s.decide()
	return s
}

// outstanding counts the ranks that have failed and that nothing restarts.
func (s *scene) outstanding() int {
	n := 0
	for i := range s.Pods {
		p := &s.Pods[i]
		if (p.Phase == corev1.PodFailed || !s.Nodes[p.Node].Ready) && !gang.IsStale(s.status(), p) {
			n++
		}
	}
	return n
}

// A collective of ranks whose pods are not restarted in place aborts over three seconds: the first step restarts every rank, however many
// have failed before it and after it.
func TestALargeGangAborts(t *testing.T) {
	for _, replicas := range []int32{3, 4, 33, 34, 40, 100, 400, 1000} {
		for _, first := range []int{1, 32, 33, 60} {
			t.Run(fmt.Sprintf("%d of %d at first", first, replicas), func(t *testing.T) {
				s := large(replicas)
				n := min(first, len(s.Pods)-1)
				for i := range n {
					s.crash(i, 1)
				}
				s.decide()
				for second := range 3 {
					for i := n + second; i < len(s.Pods)-1; i += 3 { // one is alive, so that its Volcano Job goes on
						s.crash(i, 1)
					}
					s.after(time.Second).decide()
				}
				check.Equal(t, "ranks that are not restarted", 0, s.outstanding())
				check.Equal(t, "incidents", 1, len(s.status().Incidents))
				check.Equal(t, "charged", int32(1), s.status().Restarts.Charged)
				check.Equal(t, "pods", replicas-1, s.incident(t).PodCount)
				check.Equal(t, "ranks", fmt.Sprintf("0-%d", replicas-2), s.incident(t).Ranks[0].Failed)
			})
		}
	}
}

// A collective of ranks that kubelets restart in place aborts over three seconds. The first step restarts the one that stays down, and
// nobody else.
func TestALargeGangAbortsInPlace(t *testing.T) {
	for _, replicas := range []int32{1, 4, 33, 34, 40, 100, 400, 1000} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			s := large(replicas)
			for second := range 3 {
				for i := second; i < len(s.Pods); i += 3 {
					s.unready(i)
					s.Pods[i].LastExit = &gang.ContainerFailure{Name: "train", ExitCode: 1, StartedTime: s.Now.Add(-time.Hour), Time: s.Now}
				}
				s.after(time.Second).decide()
			}
			for i := range s.Pods {
				s.Pods[i].Ready = i > 0
			}
			s.decide()
			s.after(88 * time.Second).decide()
			check.Equal(t, "fired", []string{"RestartPod@90"}, s.fired(t))
			lives := make([]int32, replicas)
			lives[0] = 1
			check.Equal(t, "lives", lives, s.lives())
		})
	}
}

// A power domain fails, and the node controller reports its nodes one after the other: the ranks of each are replaced as it is reported.
func TestNodesOfALargeGangAreLostOneByOne(t *testing.T) {
	s := large(100, rule("at-once", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 420)))
	for n := range 5 {
		s.breakNode(fmt.Sprintf("n%02d", n))
		s.after(time.Second).decide()
	}
	check.Equal(t, "ranks that are not restarted", 0, s.outstanding())
	check.Equal(t, "fired", []string{"RestartPod@0"}, s.fired(t))
}

// Pods that are deleted before a step has asked for it are restarted at once, however many there are.
func TestPodsOfALargeGangAreDeleted(t *testing.T) {
	s := large(100, rule("later", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 90)))
	s.breakNode("n00")
	for i := range 50 {
		s.unready(i)
	}
	s.decide()
	for i := range 50 {
		s.replace(i)
	}
	s.after(time.Second).decide()
	for i, life := range s.lives()[:50] {
		check.Equal(t, fmt.Sprintf("incarnation of rank %d", i), int32(1), life)
	}
	s.after(time.Second).decide()
	check.Equal(t, "restarted once", int32(1), s.lives()[49])
}

// Every rank that is moved away from a degraded node stays away from it, named or not.
func TestALargeGangMovesOffDegradedNodes(t *testing.T) {
	s := large(100, rule("move", on(v1alpha1.HealthDegraded), step(v1alpha1.MigratePod, 10)))
	for i := range 60 {
		s.Pods[i].Signals = []gang.Signal{{Name: "NVLinkReplay"}}
	}
	s.decide()
	s.after(10 * time.Second).decide()
	check.Equal(t, "fired", []string{"MigratePod@10"}, s.fired(t))
	var excluded []string
	for _, x := range s.status().ExcludedNodes {
		excluded = append(excluded, x.Name)
	}
	check.Equal(t, "excluded", []string{"n00", "n01", "n02", "n03"}, excluded)
}

// Every node whose kubelet has killed a rank is excluded, whether the incident names the rank or not.
func TestALargeGangKeepsAwayFromNodesThatFailedIt(t *testing.T) {
	s := large(100, rule("all", step(v1alpha1.RestartPod, 0)))
	for i := range 60 {
		s.crash(i, 1)
		s.Pods[i].Disrupted = corev1.PodReasonTerminationByKubelet
	}
	s.decide()
	check.Equal(t, "excluded", []string{"n00", "n01", "n02", "n03"}, s.excluded())
}

// Ranks that fail one after the other, each on its own, fill neither the conditions nor the status.
func TestAStatusStaysSmall(t *testing.T) {
	job := aJob().tasks(task("worker", 400, func(t *v1alpha1.Task) { t.Independent = true }))
	job.Spec.RestartPolicy = policy(budget(1000, 86400), withRules(rule("r", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0))))
	s := aScene(job).started()
	for i := range s.Pods {
		s.bind(i, fmt.Sprintf("n%02d", i%6))
	}
	s.decide()
	for i := range 300 {
		s.after(11*time.Second).crash(i, 1)
		s.decide()
		check.Equal(t, "restarted", int32(1), s.lives()[i])
	}
	raw, err := json.Marshal(s.status())
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 64<<10 {
		t.Errorf("the status takes %d bytes", len(raw))
	}
	if message := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRecovering).Message; len(message) > 4096 {
		t.Errorf("the message takes %d bytes", len(message))
	}
}

// An incident that an earlier version of the manager opened named 32 pods, and meant the whole job by more: the others join it, or open
// another one.
func TestAnIncidentOfAnEarlierVersion(t *testing.T) {
	s := large(100, rule("r", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0), step(v1alpha1.RestartTask, 420)))
	for i := range 40 {
		s.crash(i, 1)
	}
	s.decide()
	inc := s.incident(t)
	inc.Ranks = nil
	s.Job.Status.Tasks[0].Ranks = nil
	for i := range int32(32) { // as if the others had failed later
		s.Job.Status.Tasks[0].Ranks = append(s.Job.Status.Tasks[0].Ranks, v1alpha1.RankStatus{Index: i, Incarnation: 1, Reason: v1alpha1.RestartByStep})
	}
	s.after(time.Second).decide()
	check.Equal(t, "ranks that are not restarted", 0, s.outstanding())
	check.Equal(t, "ranks", "0-39", s.incident(t).Ranks[0].Failed)
}

// Where the first replacements are ready before the last ranks of a collective have aborted, these are restarted at once all the same.
func TestAGangAbortsWhileItIsReplaced(t *testing.T) {
	s := large(40).after(time.Minute)
	for i := range 38 {
		s.after(100*time.Millisecond).crash(i, 1)
		s.decide()
		check.Equal(t, fmt.Sprintf("incarnation of rank %d", i), int32(1), s.lives()[i])
		s.back(i, s.status().Placement.Tasks[0].Nodes[i])
		s.decide()
	}
}
