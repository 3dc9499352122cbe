package real

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// silence is how long a test waits for the operator to say something that it does not say today.
const silence = 45 * time.Second

func TestAnImageThatFailsOnOneNode(t *testing.T) {
	s := neverStarts(t, "image", func(ctx context.Context, node string) error {
		return ground.RemoveImage(ctx, node, TrainerImage)
	}, "ErrImagePull", "ImagePullBackOff")
	s.must(ground.ImportImage(s.ctx, s.Job.Spec.Tasks[0].Template.Spec.NodeSelector[hostname], ground.TrainerArchive()))
	s.must(s.Finish(s.ctx))
}

func TestASandboxThatFailsOnOneNode(t *testing.T) {
	s := neverStarts(t, "sandbox", func(ctx context.Context, node string) error {
		return ground.FailSandboxes(ctx, node)
	}, "FailedCreatePodSandBox")
	s.must(ground.MendSandboxes(s.ctx, s.Job.Spec.Tasks[0].Template.Spec.NodeSelector[hostname]))
	s.must(s.Finish(s.ctx))
}

const hostname = corev1.LabelHostname

// neverStarts runs a gang whose rank 0 is bound to a node on which it cannot start. It records what
// the operator says of it, which is nothing today.
func neverStarts(t *testing.T, name string, fail func(context.Context, string) error, reasons ...string) *scenario {
	t.Helper()
	node := ground.Nodes.Node(0, 0)
	s := &scenario{Training: ground.NewTraining(name, 3, 60), t: t, ctx: context.WithoutCancel(t.Context())}
	master := s.Job.Spec.Tasks[0].Template.Spec.NodeSelector
	s.Job.Spec.Tasks[0].Template.Spec.NodeSelector = map[string]string{hostname: node}
	maps.Copy(s.Job.Spec.Tasks[0].Template.Spec.NodeSelector, master)
	s.must(fail(s.ctx, node))
	s.must(ground.Client().Create(s.ctx, s.Job))
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		s.must(s.Delete(s.ctx))
	})
	s.must(await(s.ctx, fmt.Sprintf("the kubelet says %v", reasons), func(ctx context.Context) (bool, error) {
		return s.kubeletSays(ctx, reasons)
	}))
	began := time.Now()
	for time.Since(began) < silence {
		s.must(s.Refresh(s.ctx))
		if mentions(s.Job, reasons) {
			break
		}
		time.Sleep(time.Second)
	}
	s.knownFailure("the job's conditions say why the pod does not start", mentions(s.Job, reasons),
		"after %s the state is %s, %d incidents", silence, s.Job.Status.State, len(s.Job.Status.Incidents))
	return s
}

// kubeletSays reports whether the container of rank 0 waits for one of the reasons, or an event of its
// pod has one.
func (s *scenario) kubeletSays(ctx context.Context, reasons []string) (bool, error) {
	pods, err := s.Pods(ctx)
	if err != nil {
		return false, err
	}
	for _, status := range pods[0].Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil && contains(waiting.Reason, reasons) {
			return true, nil
		}
	}
	events := &corev1.EventList{}
	if err := ground.Client().List(ctx, events); err != nil {
		return false, err
	}
	for _, event := range events.Items {
		if event.InvolvedObject.UID == pods[0].UID && contains(event.Reason, reasons) {
			return true, nil
		}
	}
	return false, nil
}

func mentions(job *v1alpha1.TrainingJob, reasons []string) bool {
	for _, condition := range job.Status.Conditions {
		if contains(condition.Message, reasons) || contains(condition.Reason, reasons) {
			return true
		}
	}
	return false
}

func contains(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
