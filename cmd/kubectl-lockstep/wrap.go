package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// lineWidth is how wide the output is, in columns, unless a single word is wider.
const lineWidth = 80

// printItem prints a text as an item of a list, broken between words.
func printItem(out io.Writer, text string) {
	line, indent := "-", "  "
	for word := range strings.FieldsSeq(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > lineWidth && line != "-" {
			fmt.Fprintln(out, line)
			line = strings.TrimSuffix(indent, " ")
		}
		line += " " + word
	}
	fmt.Fprintln(out, line)
}
