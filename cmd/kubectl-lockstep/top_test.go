package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
	"github.com/lockstep-dev/lockstep/test/check"
)

// Where nobody sits in front of it, top prints once, from one list of jobs.
func TestTopPrintsOnce(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	list := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind + "List", APIVersion: "v1"} }
	s := &server{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), objects: map[string]any{
		theJobs: listOf(jobIn("default", "llama", v1alpha1.StateRunning)), theJobs + "/llama": jobIn("default", "llama", v1alpha1.StateRunning),
		"/apis/lockstep.dev/v1alpha1/trainingjobs": listOf(jobIn("default", "llama", v1alpha1.StateRunning), jobIn("research", "t5", v1alpha1.StateQueued)),
		"/apis/lockstep.dev/v1alpha1/nodehealths":  v1alpha1.NodeHealthList{TypeMeta: metav1.TypeMeta{Kind: "NodeHealthList", APIVersion: "lockstep.dev/v1alpha1"}},
		"/api/v1/nodes": corev1.NodeList{TypeMeta: list("Node"), Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}}},
		"/apis/topology.volcano.sh/v1alpha1/hypernodes": topologyv1alpha1.HyperNodeList{TypeMeta: metav1.TypeMeta{Kind: "HyperNodeList", APIVersion: "topology.volcano.sh/v1alpha1"}},
	}}
	address := s.serve(t, core, product, resources("topology.volcano.sh/v1alpha1", "HyperNode"))
	for name, tc := range map[string]struct {
		args  []string
		wants []string
	}{
		"namespace": {nil, []string{"03:04:05 UTC. Jobs: 1 (1 Running)", "\nllama  Running  4/4"}},
		"all":       {[]string{"-A"}, []string{"\nresearch   t5     Queued"}},
		"a job":     {[]string{"tj/llama", "--once"}, []string{"\nllama  Running  4/4", "TrainingJob default/llama: Running"}},
		"nodes":     {[]string{"nodes"}, []string{"0 HyperNodes, 1 node: 1 not ready.", "gpu-1  no"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := lockstep(append([]string{"top", address}, tc.args...)...)
			check.Equal(t, "error", nil, err)
			for _, want := range tc.wants {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
	if slices.ContainsFunc(s.asked, func(url string) bool { return strings.Contains(url, "/pods") }) {
		t.Errorf("pods were read: %v", s.asked)
	}
}

func TestTopNamesTheFlagThatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"--interval: 10ms is too short: give 100ms or more":                  {"--interval=10ms"},
		"--all-namespaces goes with no name of a job: leave out one of them": {"llama", "-A"},
	} {
		if _, err := lockstep(append([]string{"top"}, args...)...); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", args, err, want)
		}
	}
}

// The screen is drawn again at the interval. q and Ctrl-C end it, and so does the end of the context; the terminal is as it was: the other
// screen is left, and the cursor shown.
func TestTheTerminalIsRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		keys string
		over bool
	}{"q": {keys: "xq"}, "ctrl-c": {keys: "\x03"}, "end of the context": {over: true}} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			in, keys := io.Pipe()
			t.Cleanup(func() { _ = keys.Close() })
			drawn := 0
			draw := func(_ context.Context, s top.Screen) string {
				if drawn++; drawn == 3 && tc.over {
					end()
				} else if drawn == 3 {
					go func() { _, _ = io.WriteString(keys, tc.keys) }()
				}
				return fmt.Sprintf("drawn %d\n%d columns", drawn, s.Width)
			}
			var out bytes.Buffer
			check.Equal(t, "error", nil, show(ctx, genericiooptions.IOStreams{In: in, Out: &out}, time.Millisecond, draw))
			for _, want := range []string{"\x1b[?1049h", "drawn 1\r\n0 columns", "drawn 3", "\x1b[?1049l", "\x1b[?25h"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in %q", want, out.String())
				}
			}
		})
	}
}

// A drawing that waits for the API server ends with the screen.
func TestTheScreenEndsWhileItWaits(t *testing.T) {
	in, keys := io.Pipe()
	t.Cleanup(func() { _ = keys.Close() })
	draw := func(ctx context.Context, _ top.Screen) string {
		_, _ = io.WriteString(keys, "q")
		<-ctx.Done()
		return ""
	}
	check.Equal(t, "error", nil, show(t.Context(), genericiooptions.IOStreams{In: in, Out: io.Discard}, time.Millisecond, draw))
}
