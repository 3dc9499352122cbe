package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/model"
)

// place is a rank's folders; each incarnation gets a local one of its own.
type place struct {
	t      *testing.T
	shared string
}

func (p place) store(incarnation int) *Store {
	p.t.Helper()
	s := &Store{Local: p.t.TempDir(), Shared: p.shared, Rank: 1, Incarnation: incarnation, Fingerprint: "f", Keep: 2,
		Ignored: func(path string, why error) { p.t.Log(filepath.Base(path), why) },
		Refused: func(path string, why error) { p.t.Log(filepath.Base(path), why) }}
	return s
}

func (p place) claimed(incarnation int) *Store {
	p.t.Helper()
	s := p.store(incarnation)
	if err := s.Claim(); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func at(step int) *Checkpoint {
	return &Checkpoint{Stream: []byte{1, 2, 3}, State: model.State{
		Step: step, Loss: 0.25, Params: []float64{1, float64(step)}, Velocity: []float64{3, 4},
	}}
}

func save(t *testing.T, s *Store, steps ...int) {
	t.Helper()
	for _, step := range steps {
		if err := s.Save(at(step)); err != nil {
			t.Fatal(err)
		}
	}
}

// loadable are the steps that Scan finds, with the incarnation that wrote each.
func loadable(t *testing.T, s *Store) map[int]int {
	t.Helper()
	found, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]int{}
	for _, f := range found {
		out[f.Step] = f.Incarnation
	}
	return out
}

func TestSaveAndLoad(t *testing.T) {
	s := place{t, t.TempDir()}.claimed(0)
	save(t, s, 10)
	loadable(t, s)
	got, from, err := s.Load(10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at(10), got); diff != "" {
		t.Error(diff)
	}
	if from.Place != local || from.Digest != got.Digest() {
		t.Errorf("loaded from %+v", from)
	}
}

// Every byte counts: with one bit flipped, or cut off anywhere, a file is not used.
func TestDamage(t *testing.T) {
	whole, err := header{Fingerprint: "f"}.encode(at(10))
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		flipped := append([]byte{}, whole...)
		flipped[i] ^= 1
		if _, _, err := decode(flipped); !errors.Is(err, errCorrupt) {
			t.Fatalf("with byte %d of %d changed: %v", i, len(whole), err)
		}
		if _, _, err := decode(whole[:i]); !errors.Is(err, errCorrupt) {
			t.Fatalf("cut off after %d of %d: %v", i, len(whole), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	whole, err := header{Fingerprint: "f"}.encode(at(10))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = decode(b) })
}

func TestForeignFiles(t *testing.T) {
	p := place{t, t.TempDir()}
	s := p.claimed(0)
	save(t, s, 10, 20)
	other := *s
	other.Fingerprint = "other flags"
	if got := loadable(t, &other); len(got) != 0 {
		t.Errorf("with other flags %v are loadable", got)
	}
	// A file under another step's name is not that step's.
	from, to := filepath.Join(s.dir(shared), name(20, 1, 0)), filepath.Join(s.dir(shared), name(30, 1, 0))
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int]int{10: 0, 20: 0}, loadable(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestFence(t *testing.T) {
	p := place{t, t.TempDir()}
	old := p.claimed(0)
	save(t, old, 10)
	var refused []string
	old.Refused = func(path string, _ error) { refused = append(refused, filepath.Base(path)) }
	next := p.claimed(10) // by number, not by letter
	if err := old.Save(at(20)); !errors.Is(err, ErrFenced) {
		t.Errorf("a stale save: %v", err)
	}
	if diff := cmp.Diff([]string{name(20, 1, 0)}, refused); diff != "" {
		t.Errorf("writes that were refused: %s", diff)
	}
	if err := p.store(9).Claim(); !errors.Is(err, ErrFenced) {
		t.Errorf("a stale start: %v", err)
	}
	if err := p.store(10).Claim(); err != nil {
		t.Errorf("a restart in place: %v", err)
	}
	if diff := cmp.Diff(map[int]int{10: 0}, loadable(t, next)); diff != "" {
		t.Errorf("what the successor can load: %s", diff)
	}
}

// publish does what a stale process does that was frozen after its look at the claims.
func publish(t *testing.T, s *Store, step int) {
	t.Helper()
	b, err := header{Fingerprint: s.Fingerprint, Rank: s.Rank, Incarnation: s.Incarnation}.encode(at(step))
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(s.dir(shared), name(step, s.Rank, s.Incarnation)), b); err != nil {
		t.Fatal(err)
	}
}

func TestStalePublishIsNotLoaded(t *testing.T) {
	p := place{t, t.TempDir()}
	old := p.claimed(0)
	save(t, old, 10, 20)
	next := p.claimed(1)
	if err := next.Resumed(20); err != nil {
		t.Fatal(err)
	}
	save(t, next, 30)
	publish(t, old, 30)
	publish(t, old, 40)
	third := p.claimed(2)
	if diff := cmp.Diff(map[int]int{10: 0, 20: 0, 30: 1}, loadable(t, third)); diff != "" {
		t.Errorf("of the chain of incarnations: %s", diff)
	}
}

func TestBaseOnlyFalls(t *testing.T) {
	p := place{t, t.TempDir()}
	save(t, p.claimed(0), 10, 20)
	next := p.claimed(1)
	for _, step := range []int{20, 10, 20} {
		if err := next.Resumed(step); err != nil {
			t.Fatal(err)
		}
		next = p.claimed(1) // a restart in place keeps the base
	}
	if diff := cmp.Diff(map[int]int{10: 0}, loadable(t, next)); diff != "" {
		t.Error(diff)
	}
}

func TestPrune(t *testing.T) {
	p := place{t, t.TempDir()}
	save(t, p.claimed(0), 10, 20)
	s := p.claimed(1)
	save(t, s, 30, 40, 50)
	other := p.store(0)
	other.Rank = 2
	save(t, other, 10)
	if err := s.Prune(50); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int]int{40: 1, 50: 1}, loadable(t, s)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int]int{10: 0}, loadable(t, other)); diff != "" {
		t.Errorf("another rank's files: %s", diff)
	}
}

func TestSweep(t *testing.T) {
	s := place{t, t.TempDir()}.claimed(1)
	save(t, s, 10)
	mine := filepath.Join(s.dir(shared), tempPrefix+name(20, 1, 1))
	others := filepath.Join(s.dir(shared), tempPrefix+name(20, 2, 1))
	for _, f := range []string{mine, others} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.Sweep()
	if _, err := os.Stat(mine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("this rank's torn write is still there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("another rank's write: %v", err)
	}
}
