package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// printItem prints a text as an item of a list.
func printItem(out io.Writer, text string) {
	for _, line := range lines.Item(text) {
		fmt.Fprintln(out, line)
	}
}

// wrapAllHelp wraps the help of a verb and of those below it.
func wrapAllHelp(c *cobra.Command) {
	c.Long = wrapHelp(c.Long)
	for _, below := range c.Commands() {
		wrapAllHelp(below)
	}
}

// wrapHelp breaks the paragraphs of a help text. Those with lines that are indented stay as they are.
func wrapHelp(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = strings.Join(lines.Wrap(p, lines.Width), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
