// What the supervisor prints.

package supervisor

import (
	"bytes"
	"io"
	"time"
)

// waitingLines is how many writes wait for a slow reader of the log.
const waitingLines = 1024

// Output prints in the background: a log that nobody reads, as on a disk that hangs, keeps no gang from being restarted. What finds no room is left out.
type Output struct{ waiting chan piece }

// piece is something to print, or the wish to know when all before it is printed.
type piece struct {
	text    []byte
	printed chan<- struct{}
}

// NewOutput prints to a writer.
func NewOutput(to io.Writer) *Output {
	o := &Output{make(chan piece, waitingLines)}
	go func() {
		for p := range o.waiting {
			if p.printed != nil {
				close(p.printed)
				continue
			}
			_, _ = to.Write(p.text)
		}
	}()
	return o
}

// Write implements io.Writer. It never waits, and never fails.
func (o *Output) Write(text []byte) (int, error) {
	select {
	case o.waiting <- piece{text: bytes.Clone(text)}:
	default:
	}
	return len(text), nil
}

// Flush waits until all is printed, but no longer than so long.
func (o *Output) Flush(within time.Duration) {
	printed, late := make(chan struct{}), time.After(within)
	select {
	case o.waiting <- piece{printed: printed}:
	case <-late:
		return
	}
	select {
	case <-printed:
	case <-late:
	}
}
