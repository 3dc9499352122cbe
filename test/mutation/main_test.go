package main

import (
	"errors"
	"testing"
)

// The list is kept: whoever changes the engine changes it too. `make test-mutations` runs it.
func TestEveryFaultApplies(t *testing.T) {
	faults, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range faults {
		if f.What == "" || seen[f.What] {
			t.Errorf("%s: the fault %q has no name of its own", f.File, f.What)
		}
		seen[f.What] = true
	}
	if len(faults) < 30 {
		t.Errorf("%d faults", len(faults))
	}
}

func TestNoticed(t *testing.T) {
	tests := map[string]struct{ out, want string }{
		"a test failed": {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n", "TestA"},
		"it crashed":    {"goroutine 1\npanic: index out of range\n", "index out of range"},
		"it was killed": {"", "exit status 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := noticed(tc.out, errors.New("exit status 1")); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
