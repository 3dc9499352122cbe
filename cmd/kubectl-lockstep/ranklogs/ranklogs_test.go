package ranklogs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/why"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func pod(name, attempt string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelAttempt: attempt}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName:       "node-" + attempt,
			InitContainers: []corev1.Container{{Name: "fetch"}}, Containers: []corev1.Container{{Name: "train"}, {Name: "sidecar"}},
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

func restartedOnce(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
}

func TestTheLogOfARank(t *testing.T) {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "llama"}}
	first, second, other := pod("llama-1-worker-3", "1", nil), pod("llama-2-worker-3", "2", nil), pod("llama-2-worker-30", "2", nil)
	for name, tc := range map[string]struct {
		pods    []corev1.Pod
		attempt int32
		o       Options
		want    Source
		err     string
	}{
		"its pod":              {[]corev1.Pod{first, other, second}, 2, Options{}, Source{"worker-3", "llama-2-worker-3", "node-2", "train", false}, ""},
		"an earlier pod":       {[]corev1.Pod{first, second}, 1, Options{}, Source{"worker-3", "llama-1-worker-3", "node-1", "train", false}, ""},
		"a container":          {[]corev1.Pod{second}, 2, Options{Container: "fetch"}, Source{"worker-3", "llama-2-worker-3", "node-2", "fetch", false}, ""},
		"the default one":      {[]corev1.Pod{pod("llama-2-worker-3", "2", func(p *corev1.Pod) { p.Annotations[defaultContainer] = "sidecar" })}, 2, Options{}, Source{"worker-3", "llama-2-worker-3", "node-2", "sidecar", false}, ""},
		"a restart":            {[]corev1.Pod{first, pod("llama-2-worker-3", "2", restartedOnce)}, 2, Options{Previous: true}, Source{"worker-3", "llama-2-worker-3", "node-2", "train", true}, ""},
		"of another container": {[]corev1.Pod{first, pod("llama-2-worker-3", "2", restartedOnce)}, 2, Options{Previous: true, Container: "sidecar"}, Source{"worker-3", "llama-1-worker-3", "node-1", "sidecar", false}, ""},
		"the pod before":       {[]corev1.Pod{first, second}, 2, Options{Previous: true}, Source{"worker-3", "llama-1-worker-3", "node-1", "train", false}, ""},
		"nothing before": {[]corev1.Pod{second}, 2, Options{Previous: true}, Source{"worker-3", "llama-2-worker-3", "node-2", "train", false},
			"rank worker-3 has no previous log: container train of pod llama-2-worker-3 has not restarted, and no earlier pod of the rank is left: logs go with their pods"},
		"no pod":            {[]corev1.Pod{other}, 2, Options{}, Source{Rank: "worker-3"}, "rank worker-3 has no pod: `kubectl lockstep why llama worker-3` says why"},
		"no such container": {[]corev1.Pod{second}, 2, Options{Container: "x"}, Source{Rank: "worker-3"}, `-c: rank worker-3: pod llama-2-worker-3 has no container "x", but train, sidecar, fetch`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Find(job, &why.Subject{Rank: gang.Rank{Task: "worker", Index: 3}, Attempt: tc.attempt}, tc.pods, tc.o)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			check.Equal(t, "source", tc.want, got)
		})
	}
}

// A job that is suspended has no pods: no need to ask why.
func TestNoLogOfASuspendedJob(t *testing.T) {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "llama"}, Spec: v1alpha1.TrainingJobSpec{Suspend: true}}
	_, err := Find(job, &why.Subject{Rank: gang.Rank{Task: "worker", Index: 3}, Attempt: 1}, nil, Options{})
	check.Equal(t, "error", "rank worker-3 has no pod: the job is suspended, and the logs went with the pods: `kubectl lockstep resume llama` starts it", fmt.Sprint(err))
}

// Lines of several streams, some of them long, stay whole, and those of one stream in their order.
func TestStreamsAreMergedLineByLine(t *testing.T) {
	const streams, count = 8, 50
	var out bytes.Buffer
	m := NewMerger(&out)
	var all sync.WaitGroup
	for s := range streams {
		all.Go(func() {
			var in strings.Builder
			for n := range count {
				fmt.Fprintf(&in, "%d %s\n", n, strings.Repeat("x", n*4000))
			}
			if err := m.Copy(fmt.Sprintf("[%d] ", s), strings.NewReader(strings.TrimSuffix(in.String(), "\n"))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := make([]int, streams)
	for line := range strings.Lines(out.String()) {
		var stream, n int
		if _, err := fmt.Sscanf(line, "[%d] %d ", &stream, &n); err != nil || n != seen[stream] || len(line) != len(fmt.Sprintf("[%d] %d \n", stream, n))+n*4000 {
			t.Fatalf("line %d of stream %d: %.40q of %d bytes: %v", seen[stream], stream, line, len(line), err)
		}
		seen[stream]++
	}
	check.Equal(t, "lines", true, !slices.ContainsFunc(seen, func(n int) bool { return n != count }))
}

func TestAStreamThatBreaksOff(t *testing.T) {
	var out bytes.Buffer
	in, feed := io.Pipe()
	go func() {
		fmt.Fprint(feed, "one\ntw")
		feed.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if err := NewMerger(&out).Copy("", in); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	check.Equal(t, "output", "one\ntw\n", out.String())
}
