package simulate

import (
	"errors"
	"fmt"
	"os"
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
	{"restore", "replay", "it counts until all ranks run"},
	{"backoff", "replay", "what the kubelet waited for is in the record"},
	{"node-not-ready", "replay", "it begins when a failure was seen"},
	{"health-report", "replay", "it begins when a failure was seen"},
	{"suggest", "output", "json has no suggestions"},
}

// needed are flags that do nothing without another one, and why.
var needed = []struct{ flag, other, why string }{
	{"svg", "sweep", "it is a picture of a sweep"},
	{"counted-nodes", "failures", "it is about the incidents of a .csv file"},
}

// checkGiven refuses a command without a job, and flags whose value was left out.
func (o *options) checkGiven(f *pflag.FlagSet) error {
	var empty error
	f.Visit(func(flag *pflag.Flag) {
		if value := flag.Value.String(); empty == nil && (value == "" || value == "[]") {
			empty = fmt.Errorf("--%s is empty: give it a value, or leave out --%s", flag.Name, flag.Name)
		}
	})
	if empty == nil && o.file == "" && o.replay == "" {
		return errors.New("no TrainingJob is given: name its file by -f, such as\n  " + examples[0] + "\nor pipe one of a cluster, such as\n  " + examples[1])
	}
	return empty
}

// examples are how a job is given.
var examples = []string{
	"kubectl lockstep simulate -f job.yaml",
	"kubectl get trainingjob NAME -o yaml | kubectl lockstep simulate -f -",
}

// notByName refuses an argument, and says how a job is given.
func notByName(arg string) error {
	if _, err := os.Stat(arg); err == nil {
		return fmt.Errorf("%q: simulate takes no arguments: give a file by -f, as in kubectl lockstep simulate -f %s", arg, arg)
	}
	return fmt.Errorf("%q: simulate takes no names; give the job by -f, - for standard input:\n  %s", arg, strings.Replace(examples[1], "NAME", arg, 1))
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
