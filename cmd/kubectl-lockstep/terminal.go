package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// terminalWidth is how many columns the terminal has that is written to, or lines.Width where it is none.
func terminalWidth(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return lines.Width
}
