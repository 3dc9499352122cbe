package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// maxSuggestions is how many names are suggested.
const maxSuggestions = 3

// didYouMean asks whether one of the names was meant that are spelled like a word, by cobra's rule for commands; it is empty where
// none is. Each is written with a prefix, such as "--".
func didYouMean(word string, names []string, prefix string) string {
	tree := &cobra.Command{SuggestionsMinimumDistance: 2}
	if len(word) < 4 {
		tree.SuggestionsMinimumDistance = 1 // two of three letters make any other word
	}
	if longer := beginningWith(word, names); len(longer) > 0 {
		names = longer
	}
	for _, name := range names {
		tree.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	found := tree.SuggestionsFor(word)
	if len(found) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(found[:min(len(found), maxSuggestions)], " or "+prefix) + "?"
}

func beginningWith(word string, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, word) })
}
