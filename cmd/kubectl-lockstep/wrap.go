package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// lineWidth is how wide the output is, in columns, unless a single word is wider.
const lineWidth = 80

// wrap breaks a text between words into lines of at most so many columns.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// printItem prints a text as an item of a list.
func printItem(out io.Writer, text string) {
	mark := "- "
	for _, line := range wrap(text, lineWidth-len(mark)) {
		fmt.Fprintln(out, mark+line)
		mark = "  "
	}
}

// wrapHelp breaks the paragraphs of a help text. Those with lines that are indented stay as they are.
func wrapHelp(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = strings.Join(wrap(p, lineWidth), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
