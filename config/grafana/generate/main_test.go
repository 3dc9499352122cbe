package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestDashboardsAreAsGenerated(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	names := func(dir string) []string {
		found, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		return found
	}
	check.Equal(t, "files", names(".."), names(dir))
	for _, name := range names(dir) {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what generate writes: run make manifests", name)
		}
	}
}

func TestAPanelThatSaysTooLittleIsRefused(t *testing.T) {
	full := panel{title: "t", shows: "s", good: "g", otherwise: "o", unit: "short", queries: []query{{"up", "up"}}}
	if err := full.check(); err != nil {
		t.Errorf("a full panel: %v", err)
	}
	for what, cut := range map[string]func(*panel){
		"title":     func(p *panel) { p.title = "" },
		"shows":     func(p *panel) { p.shows = "" },
		"good":      func(p *panel) { p.good = "" },
		"otherwise": func(p *panel) { p.otherwise = "" },
		"unit":      func(p *panel) { p.unit = "" },
		"queries":   func(p *panel) { p.queries = nil },
	} {
		p := full
		if cut(&p); p.check() == nil {
			t.Errorf("a panel without %s is taken", what)
		}
	}
}
