package steps

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

func trained(step, total int64) *wire.Progress {
	return &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, Step: &step, TotalSteps: &total}
}

// Lines as the trainers print them, and lines of the same programs that are no steps. The first of Megatron's and the first two of NeMo's are those of NVIDIA's Cluster
// Readiness Engine (helm/cluster-readiness-engine/templates/megatron-training.yaml and nemo4.yaml); the others are by the format strings of Megatron-LM's
// megatron/training/{training,checkpointing}.py, and tqdm's of std.py (format_meter).
func TestPresets(t *testing.T) {
	saves, ends := &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT}, &wire.Progress{Phase: wire.Phase_PHASE_TRAIN}
	saved := func(step int64) *wire.Progress {
		return &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, CheckpointStep: &step}
	}
	for preset, lines := range map[string]map[string]*wire.Progress{
		"Megatron": {
			"[2026-02-05 16:03:52] iteration        1/  158945 | consumed samples: 768 | elapsed time per iteration (ms): 132563.1 | throughput per GPU (TFLOP/s/GPU): 138.5 | lm loss: 1.218472E+01": trained(1, 158945),
			"[default7]: [2026-02-05 16:03:53] iteration   158945/  158945 | consumed samples: 9 | elapsed time per iteration (ms): 1.1 | lm loss: 1.2E+01":                                           trained(158945, 158945),
			" iteration     1200/    5000 | consumed samples:        76800 | elapsed time per iteration (ms): 611.2":                                                                                  trained(1200, 5000),
			"saving checkpoint at iteration     100 to /checkpoints in torch_dist format":                                                                                                             saves,
			"  successfully saved checkpoint from iteration     100 to /checkpoints [ t 1/1, p 1/1 ]":                                                                                                 saved(100),
			"  [2026-02-05 16:03:52.000000] successfully saved local checkpoint from iteration     100":                                                                                               saved(100),
			"  successfully saved checkpoint at iteration     100 to /checkpoints":                                                                                                                    saved(100), // of older versions and forks
			"  scheduled an async checkpoint save at iteration     100 to /checkpoints":                                                                                                               ends,
			" validation loss at iteration 1000 on validation set | lm loss value: 2.1E+00 | lm loss PPL:":                                                                                            nil,
			"  successfully loaded checkpoint from /checkpoints [ t 1/1, p 1/1 ] at iteration 100":                                                                                                    nil,
			"iteration 99999999999999999999/5 | consumed samples: 1":                                                                                                                                  nil,
		},
		"NeMo": {
			"Training epoch 0, iteration 1/9999 | lr: 1e-05 | global_batch_size: 8 | global_step: 1 | reduced_train_loss: 11.0 | train_step_timing in s: 4.314": step(1),
			"[NeMo I 2026-02-05] Successfully saved checkpoint from iteration     149 to /results/checkpoints":                                                  {Phase: wire.Phase_PHASE_TRAIN, CheckpointStep: new(int64(149))},
			"Validation: iteration 1/32 | global_step: 1": nil,
		},
		"HuggingFace": {
			" 12%|█▏        | 120/1000 [00:10<01:20, 10.90it/s]":      {Step: new(int64(120)), TotalSteps: new(int64(1000))},
			"100%|██████████| 1000/1000 [01:31<00:00, 10.93it/s]":     {Step: new(int64(1000)), TotalSteps: new(int64(1000))},
			"Map: 12%|█▏        | 120/1000 [00:10<01:20, 10.90it/s]":  nil,
			"{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': 0.1}":     nil,
			"Loading checkpoint shards: 50%|█████     | 1/2 [00:01<]": nil,
		},
	} {
		m := matching(t, `{"preset": "`+preset+`"}`)
		if m.save != nil && m.done == nil {
			t.Errorf("%s: no line ends a checkpoint", preset)
		}
		for line, want := range lines {
			if got := m.find([]byte(line)); !proto.Equal(want, got) {
				t.Errorf("%s: %q: want %v, got %v", preset, line, want, got)
			}
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                      "unexpected end",
		`{"preset": "Megatrom"}`: `preset "Megatrom": want HuggingFace, Megatron or NeMo`,
		`{}`:                     "neither a preset nor a pattern",
		`{"trainingStep": "(?P<globalStep>[0-9]+"}`:               "trainingStep: error parsing regexp: missing closing )",
		`{"trainingStep": "step ([0-9]+)"}`:                       `trainingStep: no group (?P<globalStep>\d+) takes the number of the step`,
		`{"checkpointSave": "(?:a?){990}"}`:                       "checkpointSave: repetition by {990} is too slow: use * or +",
		`{"trainingStep": "\\(?P<globalStep>[0-9]+"}`:             "trainingStep: no group",
		`{"checkpointDone": "(?=saved)"}`:                         "checkpointDone: error parsing regexp: invalid or unsupported Perl syntax",
		`{"checkpointSave": "` + strings.Repeat("a", 2000) + `"}`: "checkpointSave: 2000 characters: want 1024 at most",
	} {
		if _, err := NewPrinted(text, &Listener{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	m := matching(t, `{"preset": "Megatron", "trainingStep": "step (?P<iteration>[0-9]+)`+strings.Repeat("步*", 400)+`"}`)
	same(t, "a pattern in place of the preset's", &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, Step: new(int64(5))}, m.find([]byte("step 5")))
	same(t, "the preset's", &wire.Progress{Phase: wire.Phase_PHASE_CHECKPOINT}, m.find([]byte("saving checkpoint at iteration 5 to /c")))
}

// matching is the matcher of patterns.
func matching(t *testing.T, patterns string) matcher {
	t.Helper()
	door, err := NewPrinted(patterns, &Listener{})
	must(t, err)
	return door.matcher
}

// printing is a program that prints, and what a door hears of it.
type printing struct {
	t        *testing.T
	listener *Listener
	door     *Printed
	out      int
	log      *os.File
}

func newPrinting(t *testing.T, patterns string) *printing {
	t.Helper()
	p := &printing{t: t, listener: &Listener{}}
	var err error
	p.door, err = NewPrinted(patterns, p.listener)
	must(t, err)
	p.log, err = os.CreateTemp(t.TempDir(), "log")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go p.door.Run(ctx)
	p.begin()
	return p
}

func (p *printing) begin() {
	to, err := p.door.Pipes(p.log, p.log)
	must(p.t, err)
	unix.Close(to[1])
	p.out = to[0]
}

func (p *printing) print(text string) {
	for rest := []byte(text); len(rest) > 0; {
		n, err := unix.Write(p.out, rest)
		must(p.t, err)
		rest = rest[n:]
	}
}

// end ends the program, and returns what is heard of it.
func (p *printing) end() *wire.Progress {
	unix.Close(p.out)
	p.door.Settle(time.Hour)
	return p.listener.Last()
}

const megatron = `{"preset": "Megatron"}`

// What is printed reaches the log as it is, and the last line counts without its end.
func TestWhatIsPrinted(t *testing.T) {
	p := newPrinting(t, megatron)
	printed := "begins\n iteration  7/ 50 | consumed samples: 1\nsaving checkpoint at iteration 7 to /c\n successfully saved checkpoint from iteration 7 to /c\n" +
		strings.Repeat("x", 100_000) + " iteration 9/ 50 | consumed samples: 1\n iteration  8/ 50 | consumed samples: 1"
	p.print(printed)
	said := p.end()
	same(t, "said", &wire.Progress{Phase: wire.Phase_PHASE_TRAIN, Step: new(int64(8)), TotalSteps: new(int64(50)), CheckpointStep: new(int64(7))}, said)
	logged, err := os.ReadFile(p.log.Name())
	must(t, err)
	check.Equal(t, "log", printed, string(logged))
	if p.listener.pace.phases {
		t.Error("a program that prints of checkpoints says all of its phases")
	}
	p.listener.Reset(time.Time{})
	p.begin()
	same(t, "of the next program, which prints nothing", nil, p.end())
}

// A bar draws itself again without a new line. That of an evaluation has another total.
func TestABar(t *testing.T) {
	p := newPrinting(t, `{"preset": "HuggingFace"}`)
	p.print("\r  0%|          | 0/1000 [00:00<?, ?it/s]\r  1%|          | 10/1000 [00:10<16:30,  1.00s/it]")
	p.print("\n\r  0%|          | 0/5 [00:00<?, ?it/s]\r 80%|████████  | 4/5 [00:00<00:00]\n")
	said := p.end()
	same(t, "said", &wire.Progress{Step: new(int64(10)), TotalSteps: new(int64(1000))}, said)
}

// An evaluation, or a bar of the data, may come before the training, too.
func TestABarBeforeTraining(t *testing.T) {
	p := newPrinting(t, `{"preset": "HuggingFace"}`)
	p.print("\r  0%|          | 0/5 [00:00<?, ?it/s]\r100%|██████████| 5/5 [00:01<00:00]\n")
	p.print("\r  0%|          | 0/1000 [00:00<?, ?it/s]\r 90%|█████████ | 900/1000 [00:10<01:20]\n")
	p.print("\r100%|██████████| 5/5 [00:01<00:00]\n")
	said := p.end()
	same(t, "said", &wire.Progress{Step: new(int64(900)), TotalSteps: new(int64(1000))}, said)
	p = newPrinting(t, `{"preset": "HuggingFace"}`)
	p.print("100%|██████████| 500/500 [00:01<00:00]\n  9%|          | 9/100 [00:10<01:20]\n")
	said = p.end()
	same(t, "after an evaluation that is longer than the training", &wire.Progress{Step: new(int64(9)), TotalSteps: new(int64(100))}, said)
}

// Signals, as of a child that has ended, interrupt a door that waits for output. What has been printed is looked at all the same, although a process may print on.
func TestSignals(t *testing.T) {
	p := newPrinting(t, megatron)
	for range 20 {
		p.print(" iteration 7/ 50 | consumed samples: 1\n")
		threads, err := os.ReadDir("/proc/self/task")
		must(t, err)
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			must(t, err)
			_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG)
		}
		p.door.Settle(time.Hour)
		check.Equal(t, "step", 7, p.listener.Last().GetStep())
	}
	unix.Close(p.out)
}

// A door that nobody looks into, as where patterns take long, keeps no program waiting.
func TestAProgramNeverWaitsForPatterns(t *testing.T) {
	door, err := NewPrinted(megatron, &Listener{})
	must(t, err)
	lines := strings.Repeat("a line that says nothing of steps\n", 2*waitingPieces*pieceSize/34)
	printed, err := os.CreateTemp(t.TempDir(), "printed")
	must(t, err)
	_, err = printed.WriteString(lines)
	must(t, err)
	_, err = printed.Seek(0, io.SeekStart)
	must(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	descriptor, err := unix.Dup(int(printed.Fd()))
	must(t, err)
	door.follow(&printedStream{from: descriptor, copying: make(chan struct{}, 1)}, log)
	info, err := log.Stat()
	must(t, err)
	check.Equal(t, "bytes in the log", int64(len(lines)), info.Size())
	check.Equal(t, "pieces that wait", waitingPieces, len(door.waiting))
}

// Where part of the output was left out, the line that it ends in is not read as one.
func TestAPieceThatIsLeftOut(t *testing.T) {
	var l Listener
	m := matching(t, `{"trainingStep": "step (?P<globalStep>[0-9]+)"}`)
	door, s := &Printed{matcher: m, listener: &l}, &printedStream{}
	door.look(piece{of: s, text: []byte("step 1")})
	door.look(piece{of: s, text: []byte("step 2\n"), after: true})
	same(t, "a line that begins in what was left out", nil, l.Last())
	door.look(piece{of: s, text: []byte("step 3\n")})
	same(t, "the next line", step(3), l.Last())
}

// However a text is cut into pieces, the same is heard as of its lines, each of which a file could have; and no line takes more memory than it may.
func FuzzPrinted(f *testing.F) {
	f.Add(" iteration 7/ 50 | consumed samples: 1\nsaving checkpoint at iteration 7 to /c\r\n\x00", uint8(3))
	f.Add(strings.Repeat("iteration", 1000)+" 1/2 | consumed samples:\r", uint8(200))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		m := matching(t, megatron)
		heard := func(texts func(func([]byte) bool)) *wire.Progress {
			var l Listener
			door, s := &Printed{matcher: m, listener: &l}, &printedStream{}
			for text := range texts {
				door.look(piece{of: s, text: text})
				if len(s.line) > lineLimit {
					t.Errorf("a line of %d bytes is kept", len(s.line))
				}
			}
			said := l.Last()
			if said != nil { // by the clock
				said.StepMicros, said.ExpectedMicros, said.OverdueMicros, said.MovedMicros = 0, 0, 0, 0
			}
			return said
		}
		text += "\n"
		cut := heard(slices.Chunk([]byte(text), int(size)+1))
		whole := heard(func(yield func([]byte) bool) { yield([]byte(text)) })
		if !proto.Equal(cut, whole) {
			t.Errorf("in pieces: %v, as a whole: %v", cut, whole)
		}
	})
}

// What is printed reaches the log, also where that is full for a moment and does not block: a terminal is a program's standard input, too, which it may have
// made so.
func TestALogThatDoesNotBlock(t *testing.T) {
	door, err := NewPrinted(megatron, &Listener{})
	must(t, err)
	var log, out [2]int
	must(t, unix.Pipe2(log[:], unix.O_CLOEXEC))
	must(t, unix.Pipe2(out[:], unix.O_CLOEXEC))
	to := os.NewFile(uintptr(log[1]), "log")
	must(t, unix.SetNonblock(log[1], true)) // after the supervisor has begun
	const text = 340_000
	go func() {
		for rest := make([]byte, text); len(rest) > 0; {
			n, _ := unix.Write(out[1], rest)
			rest = rest[max(n, 0):]
		}
		unix.Close(out[1])
	}()
	go func() {
		door.follow(&printedStream{from: out[0], copying: make(chan struct{}, 1)}, to)
		to.Close()
	}()
	got := 0
	for buffer := make([]byte, 4096); ; {
		time.Sleep(100 * time.Microsecond) // a reader that is slower
		n, err := unix.Read(log[0], buffer)
		if n == 0 || (n < 0 && err != unix.EINTR) {
			break
		}
		got += max(n, 0)
	}
	if got != text {
		t.Errorf("of %d bytes the log has %d", text, got)
	}
}
