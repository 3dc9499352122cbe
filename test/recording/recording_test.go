package main

import (
	"os"
	"strings"
	"testing"
)

// Each command of the week does what the page says.
func TestTheWeek(t *testing.T) {
	if err := run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}

// The page shows the commands that are recorded, and no others.
func TestThePageShowsWhatIsRecorded(t *testing.T) {
	const page = "../../config/first-week.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range week {
		_, rest, _ := strings.Cut(string(raw), p.section.Begin())
		text, _, ended := strings.Cut(rest, p.section.End())
		if !ended {
			t.Errorf("%s has no marks of %s", page, p.section)
		}
		shown := 0
		for _, command := range p.commands {
			if strings.HasPrefix(command, "# ") {
				continue
			}
			shown++
			if !strings.Contains(text, "\n$ "+command+"\n") {
				t.Errorf("%s does not show %q: record it again", page, command)
			}
		}
		if n := strings.Count(text, "\n$ "); n != shown {
			t.Errorf("%s shows %d commands in %s, and %d are recorded", page, n, p.section, shown)
		}
	}
}

// Who follows the week on the test cluster writes the same fault as the recording does.
func TestTheWeekShowsItsFault(t *testing.T) {
	page, err := os.ReadFile("../../config/first-week.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```console\n"+ill+"\n```") {
		t.Error("config/first-week.md does not show the command that writes the fault of Day 5")
	}
}
