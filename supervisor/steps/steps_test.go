package steps

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func step(n int64) *wire.Progress { return &wire.Progress{Step: &n} }

// same leaves out the first step, and when the last one was said.
func same(t *testing.T, what string, want, got *wire.Progress) {
	t.Helper()
	if got != nil {
		got.FirstStep, got.MovedMicros = nil, 0
	}
	if !proto.Equal(want, got) {
		t.Errorf("%s: want %v, got %v", what, want, got)
	}
}

// What a statement does not name stays as it was said before.
func TestWhatIsNotNamedStays(t *testing.T) {
	var l Listener
	same(t, "before anything is said", nil, l.Last())
	l.hear(0, t0, &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, TotalSteps: new(int64(50))})
	l.hear(0, t0, step(7))
	l.hear(0, t0, &wire.Progress{Phase: wire.Phase_PHASE_EVALUATE})
	same(t, "said", &wire.Progress{Phase: wire.Phase_PHASE_EVALUATE, Phases: true, Step: new(int64(7)), TotalSteps: new(int64(50))}, l.Last())
}

// What is said again, and what says no step, is no move.
func TestWhenTheProgramMoved(t *testing.T) {
	var l Listener
	for i, said := range []struct {
		what  string
		said  *wire.Progress
		moved int // in seconds
	}{
		{"a checkpoint", &wire.Progress{CheckpointStep: new(int64(5))}, -1},
		{"a step", step(7), 1},
		{"the same step", step(7), 1},
		{"how many there will be", &wire.Progress{TotalSteps: new(int64(9))}, 1},
		{"a phase", &wire.Progress{Phase: wire.Phase_PHASE_EVALUATE}, 1},
		{"the next step", step(8), 5},
	} {
		l.hear(0, t0.Add(time.Duration(i)*time.Second), said.said)
		want := int64(0)
		if said.moved >= 0 {
			want = t0.Add(time.Duration(said.moved) * time.Second).UnixMicro()
		}
		check.Equal(t, said.what, want, l.Last().GetMovedMicros())
	}
	l.Reset(t0)
	l.hear(1, t0, &wire.Progress{TotalSteps: new(int64(9))})
	check.Equal(t, "of the next program", 0, l.Last().GetMovedMicros())
}

// The step of a checkpoint is none that the next one is expected after: every rank may see the checkpoint.
func TestStepsOfCheckpoints(t *testing.T) {
	var l Listener
	l.Saved(t0, 100)
	same(t, "a checkpoint", &wire.Progress{CheckpointStep: new(int64(100))}, l.Last())
	l.hear(0, t0, step(250))
	l.Saved(t0, 200)
	same(t, "of a program that says its steps", &wire.Progress{Step: new(int64(250)), CheckpointStep: new(int64(200))}, l.Last())
}

// A program trains from its first step on, and from the one after a pause of more than two minutes, or a count that goes back.
func TestSinceWhenAProgramTrains(t *testing.T) {
	var l Listener
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	check.Equal(t, "says nothing", time.Time{}, l.TrainsSince(at(1)))
	l.hear(0, at(2), step(1))
	l.hear(0, at(3), step(2))
	check.Equal(t, "two steps", at(2), l.TrainsSince(at(4)))
	l.hear(0, at(5), &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT})
	l.hear(0, at(120), &wire.Progress{Phase: wire.Phase_PHASE_TRAIN})
	l.hear(0, at(123), step(3))
	check.Equal(t, "a checkpoint of two minutes", at(2), l.TrainsSince(at(243)))
	check.Equal(t, "in a longer pause", at(244), l.TrainsSince(at(244)))
	l.hear(0, at(245), step(4))
	check.Equal(t, "after it", at(245), l.TrainsSince(at(250)))
	l.hear(0, at(251), step(2))
	check.Equal(t, "a count that goes back", at(251), l.TrainsSince(at(252)))
	l.Reset(at(600))
	check.Equal(t, "another program", time.Time{}, l.TrainsSince(at(600)))
	l.hear(1, at(601), step(3))
	check.Equal(t, "its first step", at(601), l.TrainsSince(at(602)))
}

// What an earlier program said, or a door read of it, is nothing of the next one's.
func TestAnEarlierProgramIsForgotten(t *testing.T) {
	var l Listener
	before := l.program()
	l.hear(before, t0, step(7))
	l.hear(before, t0, step(9))
	check.Equal(t, "first step", 7, l.Last().GetFirstStep())
	l.Reset(time.Time{})
	same(t, "after a restart", nil, l.Last())
	l.hear(before, t0, step(8))
	same(t, "when an earlier program is heard", nil, l.Last())
	l.hear(l.program(), t0, step(1))
	same(t, "when the program is heard", step(1), l.Last())
	check.Equal(t, "its first step", 1, l.Last().GetFirstStep())
}

// From the start of a program until its first step it restores what it has saved.
func TestTheTimeUntilTheFirstStep(t *testing.T) {
	var l Listener
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	l.Reset(at(0))
	l.hear(1, at(5), &wire.Progress{Phase: wire.Phase_PHASE_INIT})
	check.Equal(t, "before a step", 0, l.Last().GetFirstStepMicros())
	l.hear(1, at(8), step(0)) // of a bar
	l.hear(1, at(40), step(100))
	l.hear(1, at(50), step(101))
	check.Equal(t, "after two steps", 40e6, l.Last().GetFirstStepMicros())
	l.Reset(at(60))
	l.hear(2, at(62), step(7))
	check.Equal(t, "of the next program", 2e6, l.Last().GetFirstStepMicros())
}

// A bar is drawn before the program knows at which step it resumes: it is not the first step, from which those count that are trained again.
func TestABarBeforeTheFirstStep(t *testing.T) {
	var l Listener
	for i, n := range []int64{0, 1001, 1002} {
		l.hear(0, t0.Add(time.Duration(i)*time.Second), step(n))
	}
	check.Equal(t, "first step", 1001, l.Last().GetFirstStep())
}

// The first step of a run took 132 s, where later ones take one: Megatron-LM on many GPUs.
func TestTheFirstStepIsNotThePace(t *testing.T) {
	var l Listener
	now := t0.Add(132 * time.Second)
	for _, want := range []int64{0, 0, 1e6, 1e6} {
		n := l.Last().GetStep() + 1
		l.hear(0, now, step(n))
		check.Equal(t, "pace", want, l.Last().GetStepMicros())
		now = now.Add(time.Second)
	}
	l.hear(0, now.Add(time.Hour), step(4))
	check.Equal(t, "pace while no step comes", 1e6, l.Last().GetStepMicros())
	l.hear(0, now, step(2))
	check.Equal(t, "pace of a count that goes back", 0, l.Last().GetStepMicros())
	l.hear(0, now.Add(6*time.Second), step(5))
	check.Equal(t, "pace after that", 2e6, l.Last().GetStepMicros())
}

// Within how long a step is expected, and when it is overdue, by what is known of those before.
func TestOverdue(t *testing.T) {
	many := func(n int, d time.Duration) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }
	for name, tc := range map[string]struct {
		took   []time.Duration
		phases bool
		every  int64 // 1 by default

		expected, overdue time.Duration
	}{
		"the first step, 132 times as long":     {took: []time.Duration{132 * time.Second, 1, 1, 1}, phases: true, expected: 0, overdue: 0},
		"too few":                               {took: many(6, time.Second), phases: true, expected: 0, overdue: 0},
		"fast steps":                            {took: append([]time.Duration{132 * time.Second}, many(6, time.Second)...), phases: true, expected: 25 * time.Second, overdue: 45 * time.Second},
		"fast steps of one that names no phase": {took: append([]time.Duration{132 * time.Second}, many(6, time.Second)...), expected: 25 * time.Second, overdue: 10 * time.Minute},
		"slow steps":                            {took: many(7, time.Minute), phases: true, expected: 5 * time.Minute, overdue: 5 * time.Minute},
		"slow steps of one that names no phase": {took: many(7, time.Minute), expected: 10*time.Minute + 10*time.Second, overdue: time.Hour},
		"steps of forty minutes":                {took: many(7, 40*time.Minute), phases: true, expected: time.Hour, overdue: time.Hour},
		"an evaluation that was not named":      {took: append(many(7, time.Second), 20*time.Minute), expected: 30 * time.Minute, overdue: 30 * time.Minute},
		"the same, long ago":                    {took: append(append(many(7, time.Second), 20*time.Minute), many(2*kept, time.Second)...), expected: 30 * time.Minute, overdue: 30 * time.Minute},
		"a machine that slept for a day":        {took: append(many(7, time.Second), 24*time.Hour), expected: 6 * time.Hour, overdue: 6 * time.Hour},
		"every hundredth step of ten seconds":   {took: many(7, 1000*time.Second), every: 100, expected: 1510 * time.Second, overdue: 1590 * time.Second},
		"the same with phases":                  {took: many(7, 1000*time.Second), phases: true, every: 100, expected: 25 * time.Minute, overdue: 25 * time.Minute},
		"steps of two seconds":                  {took: many(7, 2*time.Second), expected: 30 * time.Second, overdue: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var l Listener
			now := t0
			for n, took := range tc.took {
				now = now.Add(took)
				said := step(int64(n) * max(tc.every, 1))
				if tc.phases {
					said.Phase = wire.Phase_PHASE_TRAIN
				}
				l.hear(0, now, said)
			}
			check.Equal(t, "expected within", tc.expected, time.Duration(l.Last().GetExpectedMicros())*time.Microsecond)
			check.Equal(t, "overdue after", tc.overdue, time.Duration(l.Last().GetOverdueMicros())*time.Microsecond)
		})
	}
}

// How long steps take is known when a program starts again, but not when its first one comes.
func TestOverdueAfterARestart(t *testing.T) {
	var l Listener
	now, n := t0, int64(0)
	steps := func(count int) {
		for range count {
			now, n = now.Add(time.Second), n+1
			l.hear(l.program(), now, &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, Step: &n})
		}
	}
	steps(10)
	l.Reset(time.Time{})
	steps(1)
	check.Equal(t, "after the first step", 0, l.Last().GetOverdueMicros())
	steps(1)
	check.Equal(t, "after the second one", (45 * time.Second).Microseconds(), l.Last().GetOverdueMicros())
}

// A checkpoint that the program names is no step.
func TestTheTimeOfAnotherPhaseIsThatOfNoStep(t *testing.T) {
	var l Listener
	now := t0
	for n := range int64(20) {
		now = now.Add(time.Second)
		l.hear(0, now, &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT})
		now = now.Add(10 * time.Minute)
		l.hear(0, now, &wire.Progress{Phase: wire.Phase_PHASE_TRAIN})
		for i := range int64(3) {
			now = now.Add(time.Second)
			l.hear(0, now, step(3*n+i))
		}
	}
	check.Equal(t, "overdue after", (45 * time.Second).Microseconds(), l.Last().GetOverdueMicros())
}

func TestParse(t *testing.T) {
	for content, want := range map[string]*wire.Progress{
		"120\n":        step(120),
		`{"step": 0}`:  step(0),
		`{}`:           {},
		`{"loss": 1}`:  {},
		`{"step":9e2}`: nil,
		`{"phase": "checkpoint", "step": 3, "totalSteps": 9, "checkpointStep": 2}`: {
			Phase: wire.Phase_PHASE_CHECKPOINT, Step: new(int64(3)), TotalSteps: new(int64(9)), CheckpointStep: new(int64(2)),
		},
		`{"phase": "training"}`: nil,
		`{"step": -1}`:          nil,
		`-1`:                    nil,
		`1.5`:                   nil,
		`step 3`:                nil,
		`{"step": 3`:            nil,
		`[3]`:                   nil,
	} {
		got, err := parse([]byte(content))
		if (err == nil) != (want != nil) || !proto.Equal(want, got) {
			t.Errorf("%s: want %v, got %v, %v", content, want, got, err)
		}
	}
}

// A file that cannot be read harms nobody, and why is said once.
func TestFilesThatAreNone(t *testing.T) {
	write := func(content string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	for name, tc := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a pipe":      {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "it is no file"},
		"a folder":    {func(path string) error { return os.Mkdir(path, 0o700) }, "it is no file"},
		"a link":      {func(path string) error { return os.Symlink("/dev/zero", path) }, "too many levels of symbolic links"},
		"a large one": {write(strings.Repeat("1", fileLimit+1)), "it has 4097 bytes: want 4096 at most"},
		"prose":       {write("step 3"), `want a number of steps, or an object such as {\"step\": 120`},
		"a phase":     {write(`{"phase": "training"}`), `phase \"training\": want init, train, evaluate or checkpoint`},
	} {
		t.Run(name, func(t *testing.T) {
			var l Listener
			var log strings.Builder
			f := NewFile(filepath.Join(t.TempDir(), "progress.json"), &l, slog.New(slog.NewTextHandler(&log, nil)))
			must(t, tc.make(f.path))
			f.Look(t0)
			f.Look(t0)
			if strings.Count(log.String(), tc.want) != 1 {
				t.Errorf("want %q once: %s", tc.want, log.String())
			}
			same(t, "heard", nil, l.Last())
			must(t, os.RemoveAll(f.path))
			must(t, os.WriteFile(f.path, []byte("3"), 0o600))
			f.Look(t0)
			same(t, "heard of a file", step(3), l.Last())
		})
	}
}

func TestAFileThatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.json")
	must(t, os.WriteFile(path, []byte("99"), 0o600))
	var l Listener
	f := NewFile(path, &l, slog.New(slog.DiscardHandler))
	f.Look(t0)
	same(t, "of an earlier container", nil, l.Last())
	must(t, os.WriteFile(path, nil, 0o600))
	f.Look(t0)
	same(t, "while it is written", nil, l.Last())
	must(t, os.WriteFile(path, []byte("100"), 0o600))
	f.Look(t0)
	same(t, "once it is written", step(100), l.Last())
	l.Reset(time.Time{})
	f.Look(t0)
	same(t, "as it was, to another program", nil, l.Last())
	must(t, os.WriteFile(path+".next", []byte("101"), 0o600))
	must(t, os.Rename(path+".next", path))
	f.Look(t0)
	same(t, "replaced", step(101), l.Last())
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"phase": "train", "step": 3, "totalSteps": 9, "checkpointStep": 2}`))
	f.Add([]byte("120"))
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := parse(content)
		if err == nil && min(p.GetStep(), p.GetTotalSteps(), p.GetCheckpointStep()) < 0 {
			t.Errorf("%q: %v", content, p)
		}
	})
}
