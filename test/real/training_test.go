package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// scenario is a training in a test.
type scenario struct {
	*Training
	t        *testing.T
	ctx      context.Context
	failures []string
}

// train runs a training and takes it away after the test.
func train(t *testing.T, name string, ranks, steps int, change ...func(*Training)) *scenario {
	t.Helper()
	s := described(t, name, ranks, steps, change...)
	s.must(s.Run(s.ctx))
	return s
}

// described is a training that the test applies itself. It is taken away after it.
func described(t *testing.T, name string, ranks, steps int, change ...func(*Training)) *scenario {
	t.Helper()
	s := &scenario{Training: ground.NewTraining(name, ranks, steps), t: t, ctx: context.WithoutCancel(t.Context())}
	for _, f := range change {
		f(s.Training)
	}
	s.removedAtTheEnd()
	return s
}

func (s *scenario) removedAtTheEnd() {
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.dump()
			s.t.Logf("what failed:\n%s\n%s", strings.Join(s.failures, "\n"), s.brief()) // again: it is far up by now
		}
		s.must(s.Delete(s.ctx))
	})
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.failures = append(s.failures, err.Error())
		s.t.Fatal(err)
	}
}

func (s *scenario) errorf(format string, args ...any) {
	s.t.Helper()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
	s.t.Errorf(format, args...)
}

func (s *scenario) pods() map[int]corev1.Pod {
	s.t.Helper()
	pods, err := s.Pods(s.ctx)
	s.must(err)
	return pods
}

func (s *scenario) dump() {
	if err := s.Refresh(s.ctx); err != nil {
		s.t.Log(err)
		return
	}
	status, _ := yaml.Marshal(s.Job.Status)
	s.t.Logf("the job at the end:\n%s", status)
	for rank, pod := range s.pods() {
		log, err := s.Log(s.ctx, pod, 8)
		s.t.Logf("rank %d: %s on %s, %s\n%s%v", rank, pod.Name, pod.Spec.NodeName, pod.Status.Phase, log, err)
	}
}

// brief says in a line each what the manager did about the job, and where each rank is: where output is cut, its end is kept.
func (s *scenario) brief() string {
	var out strings.Builder
	lines := strings.Split(ground.Log(operator.Name), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, fmt.Sprintf("%q", s.Job.Name)) })
	for _, line := range lines[max(0, len(lines)-15):] {
		fmt.Fprintln(&out, line[:min(len(line), 300)])
	}
	pods := s.pods()
	for rank := range s.Ranks {
		pod, made := pods[rank]
		if !made {
			fmt.Fprintf(&out, "rank %d: no pod\n", rank)
			continue
		}
		log, err := s.Log(s.ctx, pod, 1)
		if len(pod.Status.ContainerStatuses) > 0 {
			c := pod.Status.ContainerStatuses[0]
			log = fmt.Sprintf("ready %t, restarts %d, %s", c.Ready, c.RestartCount, log)
		}
		fmt.Fprintf(&out, "rank %d: %s on %q, %s, %s, %.300s %v\n", rank, pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.CreationTimestamp.UTC().Format(time.TimeOnly), strings.TrimSpace(log), err)
	}
	nodes := &corev1.NodeList{}
	if err := ground.Client().List(s.ctx, nodes); err != nil {
		fmt.Fprintln(&out, err)
	}
	for _, node := range nodes.Items {
		fmt.Fprintf(&out, "node %s: ready %v, taints %v, allocatable %v\n", node.Name, readyOf(node), node.Spec.Taints, node.Status.Allocatable[gpuResource])
	}
	return out.String()
}

func readyOf(node corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// resumes does something to the gang, and returns the time until it trains again.
func (s *scenario) resumes(what string, disturb func() error) time.Duration {
	s.t.Helper()
	before := s.Generation()
	began := time.Now()
	s.must(disturb())
	s.must(s.AwaitNewGeneration(s.ctx, before))
	took := time.Since(began)
	s.t.Logf("%s: trains again after %s", what, took.Round(10*time.Millisecond))
	return took
}

func (s *scenario) key(rank int) client.ObjectKey {
	s.t.Helper()
	pod := s.pods()[rank]
	return client.ObjectKeyFromObject(&pod)
}
