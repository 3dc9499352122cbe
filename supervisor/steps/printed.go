// What a program prints.

package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// lineLimit is how much of a line is looked at, in bytes.
	lineLimit = 4096
	// pieceSize is how much is read at once, and waitingPieces how many pieces wait to be looked at. What finds no room is only printed.
	pieceSize     = 32 << 10
	waitingPieces = 32
	// restFor is how many times as long as it looks at lines a door rests: it uses a tenth of a processor at most, whatever the program prints.
	restFor = 9
)

// Printed is the door of what a program prints: its lines are looked at on their way to the log.
type Printed struct {
	matcher  matcher
	listener *Listener
	waiting  chan piece
	// hurry ends a rest.
	hurry chan struct{}
	// last are the streams of the program that was started last.
	last []*printedStream
}

// piece is part of a stream, or the wish to know when all before it was looked at.
type piece struct {
	of   *printedStream
	text []byte
	// after reports whether the piece before it was left out.
	after  bool
	looked chan<- struct{}
}

// printedStream is one of the two of a program.
type printedStream struct {
	program int
	from    int // a descriptor
	// copying is full while a piece is on its way from the pipe to waiting; ended, which it guards, reports whether the pipe is closed.
	copying chan struct{}
	ended   bool
	// line is what is known of the line that has begun; this and what follows is Run's.
	line []byte
	// skips reports whether the line began in what was left out.
	skips bool
	// total is what the steps that are heard of count to, and reached whether they have come to that.
	total   int64
	reached bool
}

// NewPrinted returns a door of lines that match patterns: a JSON object of those of Patterns, and of preset, the name of a trainer whose patterns stand for those
// that are missing.
func NewPrinted(patterns string, l *Listener) (*Printed, error) {
	p, err := parsePatterns(patterns)
	if err != nil {
		return nil, err
	}
	m, err := p.compile()
	if err != nil {
		return nil, err
	}
	return &Printed{matcher: m, listener: l, waiting: make(chan piece, waitingPieces), hurry: make(chan struct{})}, nil
}

// Run looks at lines until the context ends.
func (p *Printed) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-p.waiting:
			if next.looked != nil {
				close(next.looked)
				continue
			}
			began := time.Now()
			p.look(next)
			rest := time.NewTimer(restFor * time.Since(began))
			select {
			case <-rest.C:
			case <-p.hurry:
			case <-ctx.Done():
			}
		}
	}
}

// Pipes returns where the next program prints to: its output is copied to two files, and looked at. The caller closes both when the program has them.
func (p *Printed) Pipes(stdout, stderr *os.File) (to [2]int, err error) {
	p.last = nil
	for i, file := range []*os.File{stdout, stderr} {
		ends := make([]int, 2)
		if err := unix.Pipe2(ends, unix.O_CLOEXEC); err != nil {
			for _, end := range to[:i] {
				unix.Close(end)
			}
			return to, fmt.Errorf("make a pipe: %w", err)
		}
		to[i] = ends[1]
		s := &printedStream{program: p.listener.program(), from: ends[0], copying: make(chan struct{}, 1)}
		p.last = append(p.last, s)
		go p.follow(s, file)
	}
	return to, nil
}

// follow copies a stream to its end. It waits for the log, as a program does without it, and for nothing else.
func (p *Printed) follow(s *printedStream, to *os.File) {
	buffer, after := make([]byte, pieceSize), false
	for ended := false; !ended; {
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(s.from), Events: unix.POLLIN}}, -1); n <= 0 {
			continue // a signal, as of a child that has ended
		}
		s.copying <- struct{}{}
		n, err := unix.Read(s.from, buffer)
		if err == unix.EINTR {
			<-s.copying
			continue
		}
		text := bytes.Clone(buffer[:max(n, 0)])
		writeAll(to, text)
		if ended = n <= 0; ended {
			text = []byte("\n")
			unix.Close(s.from)
			s.ended = true
		}
		after = !p.offer(piece{of: s, text: text, after: after})
		<-s.copying
	}
}

// writeAll writes to a log, be it one that does not block because a program has made its terminal so.
func writeAll(to *os.File, text []byte) {
	for len(text) > 0 {
		n, err := to.Write(text)
		if text = text[n:]; !errors.Is(err, unix.EAGAIN) {
			return
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(to.Fd()), Events: unix.POLLOUT}}, -1)
	}
}

func (p *Printed) offer(next piece) bool {
	select {
	case p.waiting <- next:
		return true
	default:
		return false
	}
}

// Settle waits until all that the last program has printed is looked at, but no longer than so long, as for a log that nobody reads.
func (p *Printed) Settle(within time.Duration) {
	late := time.After(within)
	for _, s := range p.last {
		for copied := false; !copied; {
			select {
			case s.copying <- struct{}{}:
				copied = s.copied()
				<-s.copying
			case <-late:
				return
			}
		}
	}
	settled, marker := make(chan struct{}), p.waiting
	for {
		select {
		case marker <- piece{looked: settled}:
			marker = nil
		case p.hurry <- struct{}{}:
		case <-settled:
			return
		case <-late:
			return
		}
	}
}

// copied reports whether nothing is left to copy for now. Of a pipe that nobody writes to any more its end is left.
func (s *printedStream) copied() bool {
	if s.ended {
		return true
	}
	left := []unix.PollFd{{Fd: int32(s.from), Events: unix.POLLIN}}
	n, _ := unix.Poll(left, 0)
	return n == 0
}

// look takes the lines of a piece. A bar that draws itself again ends its line by a carriage return.
func (p *Printed) look(next piece) {
	s := next.of
	if next.after {
		s.line, s.skips = nil, true
	}
	for text := next.text; len(text) > 0; {
		end := bytes.IndexAny(text, "\r\n")
		part := text
		if end >= 0 {
			part, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		s.line = append(s.line, part[:min(len(part), lineLimit-len(s.line))]...)
		if end >= 0 {
			p.lookAt(s)
			s.line, s.skips = s.line[:0], false
		}
	}
}

// lookAt hears what a line says.
func (p *Printed) lookAt(s *printedStream) {
	if s.skips || len(s.line) == 0 {
		return
	}
	if said := p.matcher.find(s.line); said != nil && s.trains(said) {
		p.listener.hearSome(s.program, time.Now(), said)
	}
}

// trains reports whether a count is of training steps: not one towards a smaller total before these are done, as of an evaluation.
func (s *printedStream) trains(said *wire.Progress) bool {
	if said.TotalSteps == nil {
		return true
	}
	total := said.GetTotalSteps()
	if total < s.total && !s.reached {
		return false
	}
	s.total, s.reached = total, said.GetStep() >= total
	return true
}
