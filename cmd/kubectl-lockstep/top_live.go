// The screen of top: it is drawn again at an interval, until somebody ends it.

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// isTerminal reports whether somebody sits in front of both.
func isTerminal(in io.Reader, out io.Writer) bool {
	for _, side := range []any{in, out} {
		if file, ok := side.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
			return false
		}
	}
	return true
}

// What terminals do: see the control sequences of xterm.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l" // without a cursor
	firstScreen = "\x1b[?25h\x1b[?1049l"
	emptyScreen = "\x1b[H\x1b[J"
	ctrlC       = 3
)

// pauseFor is the pause after a drawing that took so long: the API server is asked for a tenth of the time at most.
func pauseFor(interval, took time.Duration) time.Duration { return max(interval, 9*took) }

// show draws a screen until q or Ctrl-C is pressed, and leaves the terminal as it was.
func show(ctx context.Context, streams genericiooptions.IOStreams, interval time.Duration, draw func(context.Context, top.Screen) string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if file, ok := streams.In.(*os.File); ok {
		before, err := term.MakeRaw(int(file.Fd())) // for keys to come at once
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(file.Fd()), before) }()
	}
	go func() {
		defer stop()
		for key := []byte{0}; key[0] != 'q' && key[0] != 'Q' && key[0] != ctrlC; {
			if _, err := streams.In.Read(key); err != nil {
				return
			}
		}
	}()
	fmt.Fprint(streams.Out, otherScreen)
	defer fmt.Fprint(streams.Out, firstScreen)
	for ctx.Err() == nil {
		begin := time.Now()
		fmt.Fprint(streams.Out, emptyScreen+strings.ReplaceAll(draw(ctx, sizeOf(streams.Out)), "\n", "\r\n"))
		select {
		case <-ctx.Done():
		case <-time.After(pauseFor(interval, time.Since(begin))):
		}
	}
	return nil
}

// sizeOf is the size of a terminal, or the usual one where it does not know its own.
func sizeOf(out io.Writer) top.Screen {
	if file, ok := out.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return top.Screen{Width: width, Height: height}
		}
	}
	return top.Screen{Width: lines.Width, Height: 24}
}
