package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is the flag --output: in which format an answer is printed. It is empty for text.
type format string

const (
	formatJSON format = "json"
	formatYAML format = "yaml"
	// formatWide is text of any width, with more columns: only tables have it.
	formatWide format = "wide"
)

func (f *format) addFlag(c *cobra.Command) {
	c.Flags().VarP(f, "output", "o", "json or yaml, for other programs; default: text")
	complete := cobra.FixedCompletions([]string{string(formatJSON), string(formatYAML)}, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is defined above
	}
}

// tableFormat is the flag --output of a verb that prints a table.
type tableFormat struct{ *format }

func (f *format) addTableFlag(c *cobra.Command) {
	c.Flags().VarP(tableFormat{f}, "output", "o", "json or yaml, for other programs; wide for all columns and uncut lines; default: text")
	complete := cobra.FixedCompletions([]string{string(formatJSON), string(formatYAML), string(formatWide)}, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is defined above
	}
}

// Set implements pflag.Value.
func (f tableFormat) Set(value string) error {
	if *f.format = format(value); *f.format == formatWide {
		return nil
	}
	if f.format.Set(value) != nil {
		return errors.New("it has to be json, yaml or wide")
	}
	return nil
}

// width is how wide the notes of a table may be that is printed in this format; 0 for any width.
func (f *format) width(out io.Writer) int {
	if *f == formatWide {
		return 0
	}
	return terminalWidth(out)
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(value string) error {
	switch *f = format(value); *f {
	case formatJSON, formatYAML:
		return nil
	}
	return errors.New("it has to be json or yaml")
}

// print prints an answer as an object in this format, or as text.
func (f *format) print(out io.Writer, answer any, text func() error) error {
	switch *f {
	case formatJSON:
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	case formatYAML:
		raw, err := yaml.Marshal(answer)
		if err != nil {
			return err
		}
		_, err = out.Write(raw)
		return err
	}
	return text()
}
