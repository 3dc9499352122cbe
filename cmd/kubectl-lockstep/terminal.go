package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminalWidth is how many columns the terminal has that is written to; 0 where it is none, such as a file or a pipe.
func terminalWidth(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 0
}
