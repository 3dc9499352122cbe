package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTheRecordIsTrue(t *testing.T) {
	r, err := readRecord()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filesOfTests("../..")
	if err != nil {
		t.Fatal(err)
	}
	wantTests := func(of string, tests []string) {
		for _, name := range tests {
			if len(files[name]) != 1 {
				t.Errorf("%s: %s is in %v, want one file", of, name, files[name])
			}
		}
	}
	for _, d := range r.Defects {
		wantTests(d.Seen, d.Tests)
		if d.Seen == "" || len(d.Tests) == 0 || len(d.Faults) == 0 {
			t.Errorf("%q has %d tests and %d faults", d.Seen, len(d.Tests), len(d.Faults))
		}
		_, packages := namesAndPackages(d.Tests, files)
		for _, p := range packages {
			if strings.HasPrefix(p, "./test/") && p != "./test/simulation" {
				t.Errorf("%s: the tests of %s may want a cluster", d.Seen, p)
			}
		}
	}
	for _, i := range r.Elsewhere {
		wantTests(i.Project, i.Tests)
	}
}

func TestEveryFixIsPartOfTheHistory(t *testing.T) {
	r, err := readRecord()
	if err != nil {
		t.Fatal(err)
	}
	shallow, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(shallow)) != "false" {
		t.Skipf("the history of the repository is not here: %v", err)
	}
	commits, err := exec.Command("git", "rev-list", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	history := strings.Fields(string(commits))
	for _, d := range r.Defects {
		is := func(commit string) bool { return strings.HasPrefix(commit, d.Fixed) }
		if len(d.Fixed) < 7 || !slices.ContainsFunc(history, is) {
			t.Errorf("%s: %q is no commit before HEAD", d.Seen, d.Fixed)
		}
	}
}

// `go run ./test/mutation -record` writes the page.
func TestThePageIsThatOfTheRecord(t *testing.T) {
	want, err := pageOf("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("record.md")
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "record.md", want, string(got))
}

func TestTheFaultsOfADefect(t *testing.T) {
	faults, err := load("../..", "clock was past the year 9999")
	if err != nil {
		t.Fatal(err)
	}
	var whats []string
	for _, f := range append(faults, together(faults)) {
		whats = append(whats, f.What)
		check.Equal(t, "tests of "+f.What, []string{"TestTimesThatCannotBe"}, f.tests)
		check.Equal(t, "packages of "+f.What, []string{"./controllers/supervisors"}, f.packages)
	}
	check.Equal(t, "faults", []string{"a time that has not come is taken from a report", "the end of a program is at any time", ""}, whats)
	if _, err := load("../..", "no such defect"); err == nil {
		t.Error("no defect is matched, and that is no error")
	}
}
