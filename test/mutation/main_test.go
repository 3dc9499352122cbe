package main

import "testing"

// The list is kept: whoever changes the engine changes it too. `make test-mutations` runs it.
func TestEveryFaultApplies(t *testing.T) {
	faults, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range faults {
		if f.What == "" || seen[f.What] {
			t.Errorf("%s: the fault %q has no name of its own", f.In, f.What)
		}
		seen[f.What] = true
	}
	if len(faults) < 30 {
		t.Errorf("%d faults", len(faults))
	}
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
