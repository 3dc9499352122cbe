package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/readme"
)

func TestRender(t *testing.T) {
	sides := []*side{
		{name: "Lockstep", policy: "the default rules", results: []result{
			{recovered: true, silent: 8 * time.Second, took: 4 * time.Second},
			{recovered: true, silent: 8 * time.Second, took: time.Second},
			{recovered: true, silent: 9 * time.Second, took: 3 * time.Second, replaced: 1},
		}},
		{name: "Volcano", policy: "RestartPod", results: []result{{took: time.Minute, left: "stuck", away: 1}}},
	}
	page := render(sides, &options{ranks: 3, bound: 3 * time.Minute}, readme.Versions{Kubernetes: "v1", Volcano: "v2"})
	for _, want := range []string{
		"Kubernetes v1, Volcano v2, on ", "does not train 3m after NotReady",
		"| Lockstep | the default rules | 3 | 3 | 3.0 s (1.0–4.0) | 12.0 s (9.0–12.0) | 1 | 0 |  |\n",
		"| Volcano | RestartPod | 1 | 0 | – | – | 0 | 1 | stuck |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestREADMEHasMarks(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readme.With(string(raw), section, ""); err != nil {
		t.Errorf("test/real/README.md: %v", err)
	}
}
