package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// choice is a flag that has one of these values.
type choice struct {
	value  *string
	values []string
}

// addChoice adds a flag that has one of these values, and completes it with them.
func addChoice(c *cobra.Command, value *string, name, shorthand, usage string, values ...string) {
	c.Flags().VarP(choice{value, values}, name, shorthand, usage)
	cobra.CheckErr(c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// String implements pflag.Value.
func (f choice) String() string { return *f.value }

// Type implements pflag.Value. The help shows it behind the name of the flag.
func (f choice) Type() string { return strings.Join(f.values, "|") }

// Set implements pflag.Value.
func (f choice) Set(value string) error {
	if !slices.Contains(f.values, value) {
		last := len(f.values) - 1
		return fmt.Errorf("it has to be %s or %s", strings.Join(f.values[:last], ", "), f.values[last])
	}
	*f.value = value
	return nil
}

// format is the flag --output: in which format an answer is printed. It is empty for text.
type format string

const (
	formatJSON format = "json"
	formatYAML format = "yaml"
	// formatWide is text of any width, with more columns: only tables have it.
	formatWide format = "wide"
)

func (f *format) addFlag(c *cobra.Command) {
	addChoice(c, (*string)(f), "output", "o", "print for other programs; default: text", string(formatJSON), string(formatYAML))
}

// addTableFlag is for verbs that print a table.
func (f *format) addTableFlag(c *cobra.Command) {
	addChoice(c, (*string)(f), "output", "o", "print for other programs, or all columns and uncut lines; default: text",
		string(formatJSON), string(formatYAML), string(formatWide))
}

// width is how wide the notes of a table may be that is printed in this format; 0 for any width.
func (f *format) width(out io.Writer) int {
	if *f == formatWide {
		return 0
	}
	return screenOf(out).Width
}

// screenOf is the size of the terminal that is written to, or the usual one where it does not know its own; zero where it is none, such as a
// file or a pipe.
func screenOf(out io.Writer) (screen top.Screen) {
	if file, ok := out.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil {
			screen = top.Screen{Width: cmp.Or(width, lines.Width), Height: cmp.Or(height, 24)}
		}
	}
	return screen
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

// dryRun is the flag --dry-run, with kubectl's words: whether a change is made, and where it is only tried.
type dryRun string

const (
	dryRunNone   dryRun = "none"
	dryRunClient dryRun = "client"
	dryRunServer dryRun = "server"
)

func (d *dryRun) addFlag(c *cobra.Command) {
	*d = dryRunNone
	addChoice(c, (*string)(d), "dry-run", "", "with client nothing is sent, and with server the API server tries the change and keeps nothing",
		string(dryRunNone), string(dryRunClient), string(dryRunServer))
}

// suffix is what kubectl writes behind a change that was only tried.
func (d *dryRun) suffix() string {
	return map[dryRun]string{dryRunClient: " (dry run)", dryRunServer: " (server dry run)"}[*d]
}

// explainFlags says where the flags of a verb are listed.
func explainFlags(c *cobra.Command, err error) error {
	return fmt.Errorf("%w\nSee '%s --help' for usage", err, c.CommandPath())
}

// explainSubmitFlags takes a flag that submit does not have, behind a second argument, for one of the command.
func explainSubmitFlags(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if before := c.Flags().Args(); errors.As(err, &unknown) && len(before) > 1 {
		return fmt.Errorf("%w: if it is a flag of the command, write -- before that: %s %s [flags] -- %s", err, c.CommandPath(), before[0], before[1])
	}
	return explainFlags(c, err)
}
