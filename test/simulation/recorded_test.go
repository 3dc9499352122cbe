// Large runs are played in parts. Each part that passes is listed in histories.json, with the commit that it was played on.

package simulation

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var recordTo = flag.String("record", "", "file that lists the parts that have passed; a part that it lists is not played again, whatever commit it was played on")

// part is some histories that have passed.
type part struct {
	// Commit that last changed the engine, the API or the simulation.
	Commit string `json:"commit"`
	// From is the seed of the first history. The others have the seeds that follow.
	From      uint64 `json:"from"`
	Histories int    `json:"histories"`
}

// thisPart is the part that the flags ask for, where it is to be recorded. It is skipped where it has passed already. The tree has to be as
// committed.
func thisPart(t *testing.T) part {
	t.Helper()
	if *recordTo == "" {
		return part{}
	}
	git := func(args ...string) string {
		out, err := exec.Command("git", append(args, "--", ":/policies", ":/api", ".", ":!"+*recordTo)...).Output()
		if err != nil {
			t.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	if changed := git("status", "--porcelain", "--untracked-files=no"); changed != "" {
		t.Fatalf("a part is recorded with its commit, and these files are not as committed:\n%s", changed)
	}
	p := part{Commit: git("log", "-1", "--format=%H"), From: *from, Histories: *histories}
	for _, other := range recordedParts(t) {
		if other.From == p.From && other.Histories == p.Histories {
			t.Skipf("this part has passed already, on commit %s: to play it again, take it out of %s", other.Commit, *recordTo)
		}
	}
	return p
}

func recordedParts(t *testing.T) (all []part) {
	t.Helper()
	raw, err := os.ReadFile(*recordTo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		t.Fatalf("read the parts that have passed: %v", err)
	}
	return all
}

// recordPart adds a part that has passed to the file.
func recordPart(t *testing.T, p part) {
	t.Helper()
	if *recordTo == "" || t.Failed() || t.Skipped() {
		return
	}
	raw, err := json.MarshalIndent(append(recordedParts(t), p), "", "  ")
	if err == nil {
		err = os.WriteFile(*recordTo, append(raw, '\n'), 0o644)
	}
	if err != nil {
		t.Fatalf("record the part: %v", err)
	}
}
