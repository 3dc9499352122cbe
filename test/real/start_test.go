// Pods that have their nodes and cannot start there.

package real

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestAnImageThatFailsOnOneNode(t *testing.T) {
	startsElsewhere(t, "image", func(ctx context.Context, node string) error {
		return ground.RemoveImage(ctx, node, TrainerImage)
	}, func(ctx context.Context, node string) error {
		return ground.ImportImage(ctx, node, ground.TrainerArchive())
	}, "ErrImagePull", "ImagePullBackOff")
}

func TestASandboxThatFailsOnOneNode(t *testing.T) {
	startsElsewhere(t, "sandbox", func(ctx context.Context, node string) error {
		return ground.FailSandboxes(ctx, node)
	}, func(ctx context.Context, node string) error {
		return ground.MendSandboxes(ctx, node)
	}, "FailedCreatePodSandBox")
}

// startsElsewhere runs a gang in a rack of which one node cannot start pods. The only other node that
// would do is cordoned until the gang has been bound, and so is the other rack. Nothing pins a rank.
func startsElsewhere(t *testing.T, name string, fail, mend func(context.Context, string) error, reasons ...string) {
	t.Helper()
	broken, kept := ground.Nodes.Node(0, 0), append(ground.Nodes.RackNodes(1), ground.Nodes.Node(0, 3))
	s := described(t, name, 3, 60, inOneRack)
	t.Cleanup(func() {
		s.must(ground.Uncordon(s.ctx, kept...))
		s.must(mend(s.ctx, broken))
	})
	s.must(ground.Cordon(s.ctx, kept...))
	s.must(fail(s.ctx, broken))
	began := time.Now()
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(await(s.ctx, "all ranks have nodes", s.bound))
	s.must(ground.Uncordon(s.ctx, kept...))
	before := s.pods()
	stuck := rankOn(before, broken)
	s.must(s.AwaitSteps(s.ctx, 1))
	t.Logf("one node does not start its rank: the gang trains %s after it was applied", time.Since(began).Round(10*time.Millisecond))
	s.must(s.Finish(s.ctx))
	s.survivorsStay(before, stuck)
	s.atHome(before)
	s.blames(before, stuck)
	incident := s.Job.Status.Incidents[0]
	if incident.Trigger != v1alpha1.PodNotStarted || !contains(incident.Cause.Reason+incident.Cause.Message, reasons) {
		t.Errorf("the incident's trigger is %s, and its cause %+v", incident.Trigger, incident.Cause)
	}
}

// What no node can start is not for the nodes: nothing moves, and the job says why it does not run.
func TestAnImageThatNoNodeHas(t *testing.T) {
	s := described(t, "absent", 3, 60, inOneRack)
	for i := range s.Job.Spec.Tasks {
		s.Job.Spec.Tasks[i].Template.Spec.Containers[0].Image = "lockstep-absent:dev"
	}
	s.must(ground.Client().Create(s.ctx, s.Job))
	s.must(await(s.ctx, "all ranks have nodes", s.bound))
	before, began := s.pods(), time.Now()
	s.must(s.AwaitJob(s.ctx, "the condition Running says that pods have not started", func(job *v1alpha1.TrainingJob) bool {
		running := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionRunning)
		return running != nil && running.Reason == v1alpha1.ReasonPodsNotStarted
	}))
	t.Logf("an image that no node has: told %s after the gang was bound", time.Since(began).Round(10*time.Millisecond))
	s.must(await(s.ctx, "an event says so", s.toldOfPodsNotStarted))
	condition := meta.FindStatusCondition(s.Job.Status.Conditions, v1alpha1.ConditionRunning).Message
	t.Logf("condition: %s\nmessage: %s", condition, s.Job.Status.Message)
	for what, text := range map[string]string{"condition": condition, "message": s.Job.Status.Message} {
		names := slices.ContainsFunc([]corev1.Pod{before[0], before[1], before[2]}, func(p corev1.Pod) bool { return strings.Contains(text, p.Name) })
		if !names || !strings.Contains(text, "container trainer") || !contains(text, []string{"ErrImagePull", "ImagePullBackOff"}) {
			t.Errorf("the %s does not name a pod, its container and the kubelet's reason: %s", what, text)
		}
	}
	if len(s.Job.Status.Incidents) > 0 {
		t.Errorf("the incidents are %+v", s.Job.Status.Incidents)
	}
	s.survivorsStay(before)
}

// bound reports whether every rank has a node.
func (s *scenario) bound(ctx context.Context) (bool, error) {
	pods, err := s.Pods(ctx)
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			return false, err
		}
	}
	return len(pods) == s.Ranks, err
}

// rankOn returns the rank that is on a node, or -1.
func rankOn(pods map[int]corev1.Pod, node string) int {
	for rank, pod := range pods {
		if pod.Spec.NodeName == node {
			return rank
		}
	}
	return -1
}

func (s *scenario) toldOfPodsNotStarted(ctx context.Context) (bool, error) {
	events := &corev1.EventList{}
	err := ground.Client().List(ctx, events)
	return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.UID == s.Job.UID && e.Reason == v1alpha1.ReasonPodsNotStarted
	}), err
}

func contains(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}
