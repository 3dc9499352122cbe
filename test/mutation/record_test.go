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
		for _, f := range (fault{}).noticedBy(d.Tests, files).By {
			if strings.HasPrefix(f, "./test/") && f != simulation {
				t.Errorf("%s: the tests of %s may want a cluster", d.Seen, f)
			}
		}
	}
	for _, i := range r.Elsewhere {
		wantTests(i.Project, i.Tests)
	}
}

func TestTheRecordNamesFaults(t *testing.T) {
	r, err := readRecord()
	if err != nil {
		t.Fatal(err)
	}
	faults, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Defects {
		for _, what := range d.Faults {
			if !slices.ContainsFunc(faults, func(f fault) bool { return f.What == what }) {
				t.Errorf("%s: faults.yaml has no fault %q", d.Seen, what)
			}
		}
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
	faults, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose("../..", faults, "", "clock was past the year 9999")
	if err != nil {
		t.Fatal(err)
	}
	var whats []string
	for _, f := range chosen {
		whats = append(whats, f.What)
		check.Equal(t, "tests of "+f.What, "^(TestTimesThatCannotBe)$", f.named)
		check.Equal(t, "packages of "+f.What, []string{"./controllers/supervisors"}, f.tests())
	}
	check.Equal(t, "faults", []string{"a time that has not come is taken from a report", "the end of a program is at any time"}, whats)
	check.Equal(t, "tests of all", chosen[0].named, allNamed(chosen))
	check.Equal(t, "tests where a fault names none", "", allNamed(append(chosen, fault{})))
	if _, err := choose("../..", faults, "", "no such defect"); err == nil {
		t.Error("no defect is matched, and that is no error")
	}
}
