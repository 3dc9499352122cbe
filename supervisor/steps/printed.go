// What a program prints.

package steps

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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
	// following are the streams of the program that runs.
	following *sync.WaitGroup
}

// piece is part of a stream, or the wish to know when all before it was looked at.
type piece struct {
	of   *printedStream
	text []byte
	// after reports whether the piece before it was left out.
	after  bool
	looked chan<- struct{}
}

// printedStream is one of the two of a program. Only Run looks into it.
type printedStream struct {
	program int
	line    []byte
	// skips reports whether the line began in what was left out.
	skips bool
	total *int64
}

// NewPrinted returns a door of lines that match patterns.
func NewPrinted(p *Patterns, l *Listener) (*Printed, error) {
	m, err := p.compile()
	if err != nil {
		return nil, err
	}
	return &Printed{matcher: m, listener: l, waiting: make(chan piece, waitingPieces), following: &sync.WaitGroup{}}, nil
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
			time.Sleep(restFor * time.Since(began))
		}
	}
}

// Pipes returns where the next program prints to: what it does is copied to two files, and looked at. The caller closes both when the program has them.
func (p *Printed) Pipes(stdout, stderr *os.File) (to [2]int, err error) {
	p.following = &sync.WaitGroup{}
	for i, file := range []*os.File{stdout, stderr} {
		ends := make([]int, 2)
		if err := unix.Pipe2(ends, unix.O_CLOEXEC); err != nil {
			if i > 0 {
				unix.Close(to[0])
			}
			return to, fmt.Errorf("make a pipe: %w", err)
		}
		from := os.NewFile(uintptr(ends[0]), "output of the program")
		to[i] = ends[1]
		s := &printedStream{program: p.listener.program()}
		p.following.Go(func() {
			defer from.Close()
			p.follow(s, from, file)
		})
	}
	return to, nil
}

// follow copies a stream to its end. It waits for the log, as a program does without it, and for nothing else.
func (p *Printed) follow(s *printedStream, from io.Reader, to io.Writer) {
	buffer, after := make([]byte, pieceSize), false
	for {
		n, err := from.Read(buffer)
		_, _ = to.Write(buffer[:n])
		text := bytes.Clone(buffer[:n])
		if err != nil {
			text = append(text, '\n')
		}
		after = !p.offer(piece{of: s, text: text, after: after})
		if err != nil {
			return
		}
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

// Settle waits until all that the last program has printed is looked at, but no longer than so long.
func (p *Printed) Settle(within time.Duration) {
	settled, late := make(chan struct{}), time.After(within)
	go func(following *sync.WaitGroup) {
		following.Wait()
		select {
		case p.waiting <- piece{looked: settled}:
		case <-late:
		}
	}(p.following)
	select {
	case <-settled:
	case <-late:
	}
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

// lookAt hears what a line says. A count towards another total than the first is not of training steps, as that of an evaluation.
func (p *Printed) lookAt(s *printedStream) {
	if s.skips || len(s.line) == 0 {
		return
	}
	said := p.matcher.find(s.line)
	if said == nil {
		return
	}
	if total := said.TotalSteps; total != nil {
		if s.total == nil {
			s.total = total
		}
		if *total != *s.total {
			return
		}
	}
	p.listener.hearSome(s.program, time.Now(), said)
}
