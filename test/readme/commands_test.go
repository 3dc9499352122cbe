// What holds for the commands on pages: the programs, targets, verbs, flags and files that they name exist.

package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	consoles = regexp.MustCompile("(?ms)^[> ]*```(?:console|sh|bash)\n(.*?)^[> ]*```")
	remarks  = regexp.MustCompile(`\s+#\s.*$`)
	targets  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	settings = regexp.MustCompile(`\b([A-Z_]+) ?[?:]?=|\$\(([A-Z_]+)\b`)
	flagName = regexp.MustCompile(`(?:^|[\s,])(--?[A-Za-z][a-z-]*)`)
	isMain   = regexp.MustCompile(`(?m)^package main$`)
	ours     = regexp.MustCompile(`^(config|charts|docs|test|images|cmd|api)/[\w./-]+$`)
)

// commandsOf are the commands on a page: the lines of its consoles, and what stands in the text as code.
func commandsOf(page string) []string {
	var out []string
	for _, m := range consoles.FindAllStringSubmatch(page, -1) {
		prompts := strings.Contains(m[1], "$ ")
		for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
			line, prompt := strings.CutPrefix(strings.TrimLeft(line, "> "), "$ ")
			if prompt || !prompts {
				out = append(out, line)
			}
		}
	}
	for _, span := range code.FindAllString(blank(page, fences), -1) {
		out = append(out, strings.Trim(span, "`"))
	}
	return out
}

// words are those of the first command of a line, up to the program that it may run.
func words(command string) []string {
	all := strings.Fields(remarks.ReplaceAllString(command, ""))
	if i := slices.IndexFunc(all, func(w string) bool { return strings.ContainsAny(w, "|&;>") || w == "--" || w == "#" }); i >= 0 {
		all = all[:i]
	}
	return all
}

// known is what the commands of pages may name.
type known struct {
	targets, settings map[string]bool
	// verbs have the flags of each verb of the plugin.
	verbs map[string]map[string]bool
}

// wrong is what a command names that there is not; empty where all is there.
func (k known) wrong(command string) string {
	all := words(command)
	for _, w := range all {
		if _, err := os.Stat(filepath.Join(root, w)); err != nil && ours.MatchString(w) {
			return w
		}
	}
	switch {
	case len(all) > 1 && all[0] == "make":
		return k.wrongTarget(all[1:])
	case len(all) > 2 && all[0] == "kubectl" && all[1] == "lockstep":
		return k.wrongVerb(all[2:])
	case len(all) > 2 && all[0] == "go" && all[1] == "run":
		return wrongProgram(all[2], all[3:])
	}
	return ""
}

func (k known) wrongTarget(args []string) string {
	for _, w := range args {
		name, _, sets := strings.Cut(w, "=")
		if sets && strings.ToUpper(name) == name && !k.settings[name] || !sets && targets.MatchString(w+":") && !k.targets[w] {
			return w
		}
	}
	return ""
}

func (k known) wrongVerb(args []string) string {
	if args[0] == "--help" {
		return ""
	}
	flags, ok := k.verbs[args[0]]
	if !ok {
		return args[0]
	}
	for _, w := range args[1:] {
		name, _, _ := strings.Cut(w, "=")
		if strings.HasPrefix(w, "-") && !flags[name] {
			return w
		}
	}
	return ""
}

// wrongProgram looks for flags in the program's own files.
func wrongProgram(dir string, args []string) string {
	files, _ := filepath.Glob(filepath.Join(root, dir, "*.go"))
	var source strings.Builder
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") {
			source.Write(raw)
		}
	}
	if !isMain.MatchString(source.String()) {
		return dir
	}
	for _, w := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if strings.HasPrefix(w, "-") && name != "h" && !strings.Contains(source.String(), `"`+name+`"`) {
			return w
		}
	}
	return ""
}

// everything reads the Makefile, and asks the plugin.
func everything(t *testing.T) known {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	k := known{map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}}
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		k.targets[m[1]] = true
	}
	for _, m := range settings.FindAllStringSubmatch(string(makefile), -1) {
		k.settings[m[1]+m[2]] = true
	}
	plugin := filepath.Join(t.TempDir(), "kubectl-lockstep")
	if out, err := exec.Command("go", "build", "-C", root, "-o", plugin, "./cmd/kubectl-lockstep").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	help := func(args ...string) string {
		out, err := exec.Command(plugin, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	ofAll := help("options")
	_, verbs, _ := strings.Cut(help("--help"), "Available Commands:\n")
	verbs, _, _ = strings.Cut(verbs, "\n\n")
	for line := range strings.Lines(verbs) {
		verb := strings.Fields(line)[0]
		k.verbs[verb] = map[string]bool{"-h": true, "--help": true}
		_, flags, _ := strings.Cut(help(verb, "--help"), "\nFlags:\n")
		for _, m := range flagName.FindAllStringSubmatch(flags+ofAll, -1) {
			k.verbs[verb][m[1]] = true
		}
	}
	return k
}

func TestCommandsOnPagesExist(t *testing.T) {
	k, n := everything(t), 0
	for name, page := range pages(t) {
		if name == "CHANGELOG.md" {
			continue // it tells of what was
		}
		for _, command := range commandsOf(page) {
			n++
			if wrong := k.wrong(command); wrong != "" {
				t.Errorf("%s: there is no %s: %s", name, wrong, command)
			}
		}
	}
	if n < 100 || len(k.verbs) < 10 {
		t.Errorf("%d commands and pieces of code, and %d verbs", n, len(k.verbs))
	}
}

func TestWrongCommands(t *testing.T) {
	k := known{map[string]bool{"demo": true}, map[string]bool{"KEEP": true}, map[string]map[string]bool{"why": {"-o": true, "--namespace": true}}}
	for command, want := range map[string]string{
		"make demo   # shows it":                      "",
		"make demo KEEP=1":                            "",
		"make demoo":                                  "demoo",
		"make demo KEPT=1":                            "KEPT=1",
		"makes no difference":                         "",
		"kubectl lockstep why llama -o json":          "",
		"kubectl lockstep why --namespace=ml":         "",
		"kubectl lockstep why llama | grep --only x":  "",
		"kubectl lockstep whi llama":                  "whi",
		"kubectl lockstep why --out json":             "--out",
		"go run ./test/mutation -defect '.'":          "",
		"go run ./test/mutation -defekt '.'":          "-defekt",
		"go run ./test/readme -h":                     "./test/readme",
		"kubectl apply -f config/samples/nothing.yml": "config/samples/nothing.yml",
	} {
		if got := k.wrong(command); got != want {
			t.Errorf("%s: %q is wrong, want %q", command, got, want)
		}
	}
	page := "a `make demo` b\n\n```console\n$ kubectl lockstep why \\\n    llama\nllama waits\n```\n\n```yaml\nmake: nothing\n```\n"
	if got := commandsOf(page); !slices.Equal(got, []string{"kubectl lockstep why      llama\n", "make demo"}) {
		t.Errorf("%q", got)
	}
}
