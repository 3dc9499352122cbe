// Package lines breaks text into the lines of a terminal.
package lines

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Width is how wide the output is, in columns, unless a single word is wider.
const Width = 80

// Item wraps a text as an item of a list.
func Item(text string) []string {
	mark := "- "
	out := Wrap(text, Width-len(mark))
	for i := range out {
		out[i], mark = mark+out[i], "  "
	}
	return out
}

// Plain is a text with a space in place of characters without a shape. A terminal would obey control characters, and any user may write
// a queue's name or an event.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, text)
}

// Wrap breaks a text between words into lines of at most so many columns.
func Wrap(text string, width int) []string {
	var out []string
	line := ""
	for word := range strings.FieldsSeq(Plain(text)) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			out = append(out, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// Print prints a text, broken into lines of at most so many columns.
func Print(out io.Writer, text string, width int) {
	for _, line := range Wrap(text, width) {
		fmt.Fprintln(out, line)
	}
}
