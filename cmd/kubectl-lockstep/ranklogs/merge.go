package ranklogs

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// Merger writes the lines of several streams, each whole and with a prefix.
type Merger struct {
	mu  sync.Mutex
	out io.Writer
}

// NewMerger merges streams into one.
func NewMerger(out io.Writer) *Merger { return &Merger{out: out} }

// Copy copies a stream, however long its lines are. Several may be copied at once.
func (m *Merger) Copy(prefix string, in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if wrong := m.write(prefix, line); wrong != nil {
				return wrong
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (m *Merger) write(prefix string, line []byte) error {
	whole := append([]byte(prefix), line...)
	if whole[len(whole)-1] != '\n' {
		whole = append(whole, '\n') // the last line of a stream may have none
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.out.Write(whole)
	return err
}
