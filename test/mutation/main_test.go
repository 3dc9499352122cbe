package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// A change of code that a fault quotes has to change the fault, too.
func TestEveryFaultApplies(t *testing.T) {
	faults, err := load("../..", ".")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, f := range faults { // two defects may have come to one fix
		if is, known := seen[f.What]; f.What == "" || (known && is != f.Old+f.New) {
			t.Errorf("the fault %q has no name of its own", f)
		}
		seen[f.What] = f.Old + f.New
	}
	if len(faults) < 100 {
		t.Errorf("%d faults", len(faults))
	}
}

// make test-mutations plays all.
func TestAFixIsTakenOut(t *testing.T) {
	faults, err := load("../..", "A client without a token made the manager keep 1 MiB")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryAll(t.Context(), "../..", faults); err != nil {
		t.Error(err)
	}
	faults[0].New = faults[0].Old + " "
	if _, err := tryAll(t.Context(), "../..", faults[:1]); err == nil {
		t.Error("a fault that changes nothing was noticed")
	}
}

func TestNamesOfDeclarations(t *testing.T) {
	root := t.TempDir()
	for file, content := range map[string]string{
		"policies/a.go":           "package policies\n\ntype job struct{}\n\nfunc (j *job) describe() {}\n",
		"policies/nodes/b.go":     "package nodes\n\nfunc admit() {}\n",
		"cmd/manager/c.go":        "package main\n\nconst one, two = 1, 2\n",
		"cmd/manager/c_test.go":   "package main\n\nconst tested = true\n",
		"config/policy/d.yaml":    "a: b\n",
		"tools/go.mod":            "module tools\n",
		"tools/e.go":              "package tools\n\nfunc other() {}\n",
		".cache/f.yaml":           "a: b\n",
		"policies/testdata/g.go":  "package broken {",
		"policies/nodes/README.x": "",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := declarations(root)
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "names", []string{"config/policy/d.yaml", "job", "job.describe", "manager.one", "nodes.admit"}, slices.Sorted(maps.Keys(found)))
	check.Equal(t, "source", "func (j *job) describe() {}", found["job.describe"][0].source)
	check.Equal(t, "file", "policies/a.go", found["job.describe"][0].file)
}

func TestWhereAFaultIs(t *testing.T) {
	one, another := declaration{file: "a.go", source: "x := 1"}, declaration{file: "b.go", source: "y := 2"}
	tests := map[string]struct {
		old, replacement string
		candidates       []declaration
		file             string // empty where the fault does not apply
	}{
		"in the one that there is":   {"x := 1", "x := 2", []declaration{one}, "a.go"},
		"in one of two of the name":  {"y := 2", "y := 1", []declaration{one, another}, "b.go"},
		"in both":                    {":= ", "= ", []declaration{one, another}, ""},
		"in none":                    {"z", "y", []declaration{one, another}, ""},
		"where nothing has the name": {"x", "y", nil, ""},
		"no fault":                   {"x", "x", []declaration{one}, ""},
		"twice in one":               {"1", "2", []declaration{{file: "c.go", source: "1 + 1"}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := fault{Old: tc.old, New: tc.replacement}
			if err := f.find(tc.candidates); (err == nil) != (tc.file != "") {
				t.Fatal(err)
			} else if err == nil && f.of.file != tc.file {
				t.Errorf("the fault is in %s, want %s", f.of.file, tc.file)
			}
		})
	}
}

func TestNoticed(t *testing.T) {
	tests := map[string]struct{ out, want string }{
		"a test failed": {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n", "TestA"},
		"it crashed":    {"goroutine 1\npanic: index out of range\n", "index out of range"},
		"it was killed": {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := noticed(tc.out); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
