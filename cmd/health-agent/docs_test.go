// config/agent/README.md lists the flags as they are, and messages that there are.

package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rowsBelow are the cells of the table below a heading of config/agent/README.md.
func rowsBelow(t *testing.T, heading string) [][]string {
	t.Helper()
	raw, err := os.ReadFile("../../config/agent/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(raw), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows [][]string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.Split(strings.Trim(line, "| \n"), " | "))
		}
	}
	return rows
}

func TestDocumentedFlags(t *testing.T) {
	t.Setenv("NODE_NAME", "$NODE_NAME")
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	bindFlags(flags)
	documented := map[string]string{}
	for _, row := range rowsBelow(t, "Flags") {
		for name := range strings.SplitSeq(row[0], ", ") {
			documented[strings.Trim(name, "`-")] = row[1]
		}
	}
	delete(documented, "kubeconfig") // controller-runtime's
	flags.VisitAll(func(f *flag.Flag) {
		want, ok := documented[f.Name]
		delete(documented, f.Name)
		value := "`" + f.DefValue + "`"
		if f.DefValue == "" {
			value = "none"
		}
		if !ok || !strings.HasPrefix(want, value) {
			t.Errorf("--%s has the default %s, and README.md says %q", f.Name, value, want)
		}
	})
	if len(documented) > 0 {
		t.Errorf("README.md has flags that there are not: %v", documented)
	}
}

// The arguments of the DaemonSet are flags.
func TestDaemonSetArguments(t *testing.T) {
	raw, err := os.ReadFile("../../config/agent/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	bindFlags(flags)
	arguments := regexp.MustCompile(`(?m)^ +- (--\S+)$`).FindAllStringSubmatch(string(raw), -1)
	if len(arguments) == 0 {
		t.Fatal("no arguments")
	}
	for _, a := range arguments {
		if err := flags.Parse(a[1:]); err != nil {
			t.Error(err)
		}
	}
}

// Each message is one that the agent, go-dcgm or the policy can say.
func TestDocumentedMessages(t *testing.T) {
	var sources strings.Builder
	read := func(root string) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md") {
				return err
			}
			raw, err := os.ReadFile(path)
			sources.Write(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read(".")
	read("../../health")
	read("../../config/policy")
	sources.WriteString("error connecting to nv-hostengine") // go-dcgm's admin.go
	rows := rowsBelow(t, "When something is wrong")
	for _, row := range rows {
		if !strings.Contains(sources.String(), strings.Trim(row[0], "`")) {
			t.Errorf("nobody says %s", row[0])
		}
	}
	if len(rows) < 10 {
		t.Errorf("%d messages are explained", len(rows))
	}
}
