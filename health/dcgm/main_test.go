// The tests of this room run the real go-dcgm against the simulator of test/dcgmsim.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// library is the simulator, and why there is none.
var (
	library  string
	noSimErr error
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dcgmsim")
	if err != nil {
		panic(err)
	}
	if os.Getenv(libraryEnv) == "" {
		library, noSimErr = dcgmsim.Build(dir)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// libraryEnv names the library for a test that runs in a process of its own.
const libraryEnv = "LOCKSTEP_TEST_LIBRARY"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is a reader of a simulated host engine, at a time that the test says.
type rig struct {
	*testing.T
	engine *dcgmsim.State
	reader *Reader
	now    time.Time
}

// aRig has two GPUs, GPU-a and GPU-b, that are linked by two NVLinks each.
func aRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	if noSimErr != nil {
		t.Skip(noSimErr)
	}
	path := filepath.Join(t.TempDir(), "state")
	t.Setenv(dcgmsim.StateEnv, path)
	engine, err := dcgmsim.NewState(path)
	if err != nil {
		t.Fatal(err)
	}
	for id, uuid := range []string{"GPU-a", "GPU-b"} {
		engine.AddGPU(id, uuid, dcgmsim.StatusOK)
		engine.SetLink(id, 0, dcgmsim.LinkUp)
		engine.SetLink(id, 1, dcgmsim.LinkUp)
	}
	o := Options{Address: Address{Mode: TCP, Target: "127.0.0.1:5555"}, Library: library, Fields: []health.Field{202}}
	for _, c := range change {
		c(&o)
	}
	r := &rig{T: t, engine: engine, reader: NewReader(o), now: start}
	t.Cleanup(func() {
		engine.Resume()
		r.eventually("close", func() bool { return r.reader.Close(context.Background()) == nil })
	})
	return r
}

// after lets time pass, and reads.
func (r *rig) after(d time.Duration) health.Sample {
	r.Helper()
	r.now = r.now.Add(d)
	return r.reader.Sample(context.Background(), r.now)
}

// sample reads what has to be readable.
func (r *rig) sample() health.Sample {
	r.Helper()
	s := r.after(10 * time.Second)
	if !s.Reachable {
		r.Fatalf("not reachable: %s", s.Message)
	}
	return s
}

func (r *rig) eventually(what string, done func() bool) {
	r.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	r.Fatalf("%s: not within 10 s", what)
}

func (r *rig) equal(what string, want, got any) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// reads is what a field of an entity reads in a sample, in words.
func reads(s health.Sample, kind health.Kind, id string, f health.Field) string {
	v, known := s.Values[health.Entity{Kind: kind, ID: id}][f]
	switch {
	case !known:
		return "absent"
	case v.Blank:
		return "blank"
	default:
		return fmt.Sprint(v.Float)
	}
}
