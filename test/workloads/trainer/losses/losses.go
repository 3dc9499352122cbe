// Package losses writes and reads a run's history: one line for each completed step. A
// test compares it, bit by bit, with that of a run that nothing disturbed.
package losses

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Line is one completed step, as rank 0 saw it. A step that was done again after a resume has several.
type Line struct {
	Step        int
	Bits        uint64 // math.Float64bits of the loss
	Incarnation int    // of rank 0
	Generation  uint64 // of the collective
}

// NewLine is the line of a step that has just been completed.
func NewLine(step int, loss float64, incarnation int, generation uint64) Line {
	return Line{Step: step, Bits: math.Float64bits(loss), Incarnation: incarnation, Generation: generation}
}

// Loss is the loss of the step.
func (l Line) Loss() float64 { return math.Float64frombits(l.Bits) }

func (l Line) String() string {
	return fmt.Sprintf("step=%d bits=%016x loss=%s inc=%d gen=%016x",
		l.Step, l.Bits, strconv.FormatFloat(l.Loss(), 'g', -1, 64), l.Incarnation, l.Generation)
}

// Writer appends lines to the file of one incarnation of rank 0.
type Writer struct{ f *os.File }

// Path is the file of an incarnation in a folder.
func Path(dir string, incarnation int) string {
	return filepath.Join(dir, fmt.Sprintf("rank0.inc-%d.log", incarnation))
}

// Open opens the file of an incarnation in a folder. Each incarnation has its own, so that
// a stale process cannot write into another's; an unfinished last line is cut off.
func Open(dir string, incarnation int) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := Path(dir, incarnation)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if end := strings.LastIndexByte(string(b), '\n') + 1; end < len(b) {
		if err := os.Truncate(path, int64(end)); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Writer{f}, nil
}

// Append adds a line with one write, so that a kill leaves all of it or nothing.
func (w *Writer) Append(l Line) error {
	_, err := w.f.WriteString(l.String() + "\n")
	return err
}

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }

// Log is a run's history: the lines of all incarnations, in the order of their files.
type Log []Line

// Read reads the files of a folder.
func Read(dir string) (Log, error) {
	files, err := filepath.Glob(filepath.Join(dir, "rank0.inc-*.log"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file rank0.inc-*.log in %s", dir)
	}
	slices.SortFunc(files, func(a, b string) int { return incarnationOf(a) - incarnationOf(b) })
	var out Log
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		lines, err := Parse(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, lines...)
	}
	return out, nil
}

func incarnationOf(file string) int {
	var n int
	_, _ = fmt.Sscanf(filepath.Base(file), "rank0.inc-%d.log", &n) // a name that does not fit sorts first
	return n
}

// Parse reads lines. A last line without its end was being written, and does not count.
func Parse(r io.Reader) (Log, error) {
	var out Log
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		l, err := parseLine(strings.TrimSuffix(text, "\n"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, l)
	}
}

func parseLine(text string) (Line, error) {
	var l Line
	var loss string
	_, err := fmt.Sscanf(text, "step=%d bits=%x loss=%s inc=%d gen=%x", &l.Step, &l.Bits, &loss, &l.Incarnation, &l.Generation)
	if err != nil {
		return l, fmt.Errorf("%q: %w", text, err)
	}
	if l.String() != text {
		return l, fmt.Errorf("%q is not %q", text, l.String())
	}
	return l, nil
}

// Curve returns the loss's bits by step. It fails where two lines of a step differ: what
// is done again after a resume has to come out the same.
func (l Log) Curve() (map[int]uint64, error) {
	out := map[int]uint64{}
	for _, line := range l {
		if bits, ok := out[line.Step]; ok && bits != line.Bits {
			return nil, fmt.Errorf("step %d has loss %016x, and %016x when it was done again (incarnation %d)",
				line.Step, bits, line.Bits, line.Incarnation)
		}
		out[line.Step] = line.Bits
	}
	return out, nil
}

// Complete checks that every step from 1 to the last is there, none beyond it, and that
// repetitions are identical.
func (l Log) Complete(steps int) error {
	curve, err := l.Curve()
	if err != nil {
		return err
	}
	for s := 1; s <= steps; s++ {
		if _, ok := curve[s]; !ok {
			return fmt.Errorf("step %d of %d is missing", s, steps)
		}
	}
	if len(curve) > steps {
		return fmt.Errorf("%d steps, where %d are due", len(curve), steps)
	}
	return nil
}

// Same checks that two logs have the same steps with the same bits.
func (l Log) Same(other Log) error {
	a, err := l.Curve()
	if err != nil {
		return err
	}
	b, err := other.Curve()
	if err != nil {
		return fmt.Errorf("the other log: %w", err)
	}
	for step, bits := range a {
		if got, ok := b[step]; !ok || got != bits {
			return fmt.Errorf("step %d has loss %016x, in the other log %016x (there: %t)", step, bits, got, ok)
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("%d steps, in the other log %d", len(a), len(b))
	}
	return nil
}

// Repeated is the number of steps that were done more than once.
func (l Log) Repeated() int {
	curve := map[int]bool{}
	for _, line := range l {
		curve[line.Step] = true
	}
	return len(l) - len(curve)
}
