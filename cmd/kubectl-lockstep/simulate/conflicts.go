package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// apart are flags of which the first does nothing beside the second, and why.
var apart = []struct{ idle, beside, why string }{
	{"nodes", "topology", "its file has the nodes"},
	{"nodes-per-rack", "topology", "its file has the HyperNodes"},
	{"failures", "replay", "the failures are those of its incidents"},
	{"counted-nodes", "replay", "the failures are those of its incidents"},
	{"for", "replay", "it lasts as long as its incidents"},
	{"plays", "replay", "its incidents are played once"},
	{"seed", "replay", "nothing of it is drawn"},
	{"sweep", "replay", "its incidents are too few to compare values by"},
	{"suggest", "replay", "its incidents are too few to compare values by"},
	{"checkpoint-interval", "replay", "it counts no lost steps"},
	{"suggest", "output", "json has no suggestions"},
}

// needed are flags that do nothing without another one, and why.
var needed = []struct{ flag, other, why string }{
	{"svg", "sweep", "it is a picture of a sweep"},
	{"counted-nodes", "failures", "it is about the incidents of a .csv file"},
}

// checkFlags refuses flags that would be ignored.
func checkFlags(f *pflag.FlagSet) error {
	for _, c := range apart {
		if f.Changed(c.idle) && f.Changed(c.beside) {
			return fmt.Errorf("--%s does nothing beside --%s, as %s: leave out --%s", c.idle, c.beside, c.why, c.idle)
		}
	}
	for _, n := range needed {
		if f.Changed(n.flag) && !f.Changed(n.other) {
			return fmt.Errorf("--%s does nothing without --%s, as %s: give --%s, or leave out --%s", n.flag, n.other, n.why, n.other, n.flag)
		}
	}
	return nil
}

// checkStandardInput refuses to read the standard input twice.
func (o *options) checkStandardInput() error {
	files := append([]string{o.file, o.replay, o.cluster.file, o.failures.from}, o.compare...)
	if n := len(slices.DeleteFunc(files, func(file string) bool { return file != "-" })); n > 1 {
		return fmt.Errorf("- is given for %d files, and the standard input has one: save the others as files", n)
	}
	return nil
}

// flagError says what a flag takes, in place of the error of a parser.
func flagError(_ *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	what := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative", "bool": "true or false",
		timeType: "a time such as 90s, 12h or 30d",
	}[wrong.GetFlag().Value.Type()]
	if what == "" {
		return err
	}
	return fmt.Errorf("--%s is %q, and has to be %s", wrong.GetFlag().Name, strings.TrimSpace(wrong.GetValue()), what)
}
