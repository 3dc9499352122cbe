// The agent on a simulated DCGM and a simulated API server: what it publishes outlives it.

//go:build linux && cgo && !nodcgm

package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/health/dcgm"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// story is a node with two GPUs, through the lives of several agents.
type story struct {
	*testing.T
	engine  *dcgmsim.State
	library string
	client  client.Client
	dir     string // of overrides
	now     time.Time
	reader  *dcgm.Reader
	agent   *Agent
}

func aStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, dir: t.TempDir(), now: time.Unix(1_700_000_000, 0)}
	var err error
	if s.library, err = dcgmsim.Build(t.TempDir()); err != nil {
		t.Skip(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv(dcgmsim.StateEnv, state)
	if s.engine, err = dcgmsim.NewState(state); err != nil {
		t.Fatal(err)
	}
	s.engine.AddGPU(0, "GPU-a", dcgmsim.StatusOK)
	s.engine.AddGPU(1, "GPU-b", dcgmsim.StatusOK)
	for gpu := range 2 {
		for link := range 18 {
			s.engine.SetLink(gpu, link, dcgmsim.LinkUp)
		}
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	// The fake takes the status of an object that is not there for its creation, so it is there.
	there := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(there).WithObjects(there).Build()
	return s
}

// start starts an agent that knows nothing but what was published.
func (s *story) start() *story {
	metrics := NewMetrics()
	s.reader = dcgm.NewReader(dcgm.Options{Address: dcgm.Address{Mode: dcgm.TCP, Target: "127.0.0.1:5555"}, Library: s.library})
	s.agent = &Agent{
		DCGM:      s.reader,
		Overrides: &Overrides{Dir: os.DirFS(s.dir)},
		Host:      Host{"boot", time.Unix(0, 0)}, Sysfs: fstest.MapFS{}, Metrics: metrics,
		Log: slog.New(slog.NewTextHandler(s.Output(), nil)),
		Reporter: &Reporter{
			Metrics:   metrics,
			Publisher: &Publisher{Client: s.client, Node: "n1", Source: health.SourceName, Heartbeat: time.Hour},
			Holders:   func(context.Context) (map[string][]string, error) { return nil, nil },
		},
	}
	return s
}

func (s *story) stop() {
	s.Helper()
	if err := s.reader.Close(context.Background()); err != nil {
		s.Fatal(err)
	}
}

// polls lets the agent poll, and returns what is published then.
func (s *story) polls(n int) v1alpha1.NodeHealthStatus {
	s.Helper()
	for range n {
		s.now = s.now.Add(10 * time.Second)
		s.agent.poll(context.Background(), s.now)
	}
	published := &v1alpha1.NodeHealth{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Name: "n1"}, published); err != nil {
		s.Fatal(err)
	}
	return published.Status
}

func TestAGPUVanishesWhileNoAgentRuns(t *testing.T) {
	s := aStory(t).start()
	status := s.polls(3)
	if got := strings.Join(status.Sources[0].Expected, " "); got != "gpu/GPU-a gpu/GPU-b nvlink/GPU-a/0-17 nvlink/GPU-b/0-17" {
		t.Errorf("expected are %s", got)
	}
	s.stop()
	s.engine.Lose(1)
	status = s.start().polls(2)
	if len(status.Reports) > 0 {
		t.Errorf("too early: %+v", status.Reports)
	}
	status = s.polls(1)
	if len(status.Reports) != 1 || status.Reports[0].Entity != "gpu/GPU-b" || status.Reports[0].Signal != "GPULost" || status.Reports[0].State != v1alpha1.HealthStateFailed {
		t.Errorf("reports %+v", status.Reports)
	}
	s.stop()
}

func TestOverridesTakeEffect(t *testing.T) {
	s := aStory(t).start()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "own.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.engine.SetField(dcgmsim.GPU, 0, 150, 99)
	if status := s.polls(3); len(status.Reports) > 0 || status.Sources[0].Message != "" {
		t.Errorf("by default: %+v", status)
	}
	hot := `rows: [{id: 150/hot, name: GPU_TEMP, entity: gpu, signal: TooHot, when: {above: 95}, state: Degraded}]`
	write(hot)
	if status := s.polls(1); len(status.Reports) != 1 || status.Reports[0].Message != "field 150 GPU_TEMP: 99; ill where it is above 95" {
		t.Errorf("with a row for a field that was not watched: %+v", status.Reports)
	}
	write(strings.Replace(hot, "above", "beyond", 1))
	status := s.polls(1)
	if len(status.Reports) != 1 || status.Sources[0].State != v1alpha1.HealthHealthy ||
		!strings.Contains(status.Sources[0].Message, "own.yaml: row 1 (150/hot)") || !strings.Contains(status.Sources[0].Message, "beyond") {
		t.Errorf("a bad row is said, and the one before stays: %+v", status)
	}
	s.engine.SetField(dcgmsim.GPU, 0, 150, 60)
	write(hot)
	if status := s.polls(1); len(status.Reports) > 0 || status.Sources[0].Message != "" {
		t.Errorf("mended, and cooler: %+v", status)
	}
	s.stop()
}
