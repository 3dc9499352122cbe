package readme

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const section Section = "bench"

func TestWith(t *testing.T) {
	const page = "# Title\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nend\n"
	got, err := With(page, section, "new\n\n")
	if want := "# Title\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nend\n"; err != nil || got != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	again, err := With(got, section, "new")
	if err != nil || again != got {
		t.Errorf("a second time it becomes %q, %v", again, err)
	}
}

func TestWithoutMarks(t *testing.T) {
	for name, page := range map[string]string{
		"none":      "# Title\n",
		"no end":    "<!-- bench:begin -->\n",
		"end first": "<!-- bench:end --><!-- bench:begin -->",
	} {
		if _, err := With(page, section, "new"); !errors.Is(err, ErrNoMarks) {
			t.Errorf("%s: got %v, want %v", name, err, ErrNoMarks)
		}
	}
}

func TestCommands(t *testing.T) {
	const page = "<!-- bench:begin -->\n```yaml\nkey: value\n```\nText.\n```console\nmake a\nmake b \\\n  c\n```\n<!-- bench:end -->\n```console\nmake d\n```\n"
	got, err := Commands(page, section)
	if want := "make a\nmake b \\\n  c\n"; err != nil || got != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	for name, page := range map[string]string{"no marks": "```console\nmake\n```", "no block": "<!-- bench:begin -->text<!-- bench:end -->"} {
		if _, err := Commands(page, section); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The chart's page is packed with the chart, so it has the commands of the page that a test follows.
func TestTheChartIsUninstalledAsThePageSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := os.ReadFile("../../charts/lockstep/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for _, part := range []Section{"install:free", "install:uninstall"} {
		commands, err := Commands(string(page), part)
		if err != nil {
			t.Fatal(err)
		}
		want += commands
	}
	if !strings.Contains(string(chart), want) {
		t.Errorf("charts/lockstep/README.md does not have these commands of docs/operators.md:\n%s", want)
	}
}

// Each test that SECURITY.md names for a defence exists.
func TestTheThreatModelNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, dir := range []string{"test/e2e", "test/tenants", "health/alerts", "controllers/supervisors", "supervisor/stream", "supervisor/steps", "supervisor/checkpoints", "supervisor/ras", "health", "health/agent", "cmd/lockstep-run", "cmd/kubectl-lockstep", "cmd/kubectl-lockstep/stacks", "api/v1alpha1", "charts", "images", "images/debian", "policies", "policies/gang", "policies/nodes", "controllers", "controllers/fleet", "serving", "cmd/manager", "config/policy", "controllers/kueue"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(code, -1) {
				tests[string(found[1])] = true
			}
		}
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(text, -1)
	if len(named) == 0 {
		t.Error("SECURITY.md names no test")
	}
	for _, name := range named {
		if !tests[string(name[1])] {
			t.Errorf("SECURITY.md names %s, which does not exist", name[1])
		}
	}
}
