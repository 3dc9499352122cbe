// The simulator has every function that go-dcgm may call: one that is missing ends the process.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"debug/elf"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSymbols(t *testing.T) {
	if noSimErr != nil {
		t.Skip(noSimErr)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := dynamicSymbols(t, executable, func(s elf.Symbol) bool { return s.Section == elf.SHN_UNDEF })
	wanted := slices.DeleteFunc(all, func(name string) bool {
		return !strings.HasPrefix(strings.ToLower(name), "dcgm") && name != "errorString"
	})
	has := dynamicSymbols(t, library, func(s elf.Symbol) bool { return s.Section != elf.SHN_UNDEF })
	if len(wanted) < len(symbols) {
		t.Errorf("this binary wants %d functions of libdcgm, and the adapter alone uses %d", len(wanted), len(symbols))
	}
	for _, name := range slices.Concat(wanted, symbols) {
		if !slices.Contains(has, name) {
			t.Errorf("the simulator lacks %s", name)
		}
	}
	for _, name := range has {
		if !slices.Contains(wanted, name) {
			t.Errorf("nobody calls the simulator's %s", name)
		}
	}
}

func dynamicSymbols(t *testing.T, file string, of func(elf.Symbol) bool) []string {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if of(s) {
			names = append(names, s.Name)
		}
	}
	return names
}
