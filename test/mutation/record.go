package main

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed record.yaml
var recordYAML []byte

// record is what went wrong so far, here and in other projects.
type record struct {
	Defects   []defect   `json:"defects"`
	Elsewhere []incident `json:"elsewhere"`
}

// defect is one that Lockstep had.
type defect struct {
	// Seen is what a user saw, in one sentence.
	Seen string `json:"seen"`
	// Fixed is the commit that fixed it.
	Fixed string `json:"fixed"`
	// Tests fail without the fix: each of the faults makes one of them fail. Where several packages have a test of a name, the folder
	// comes before it, as in epoch.TestRules.
	Tests []string `json:"tests"`
	// Faults take the fix out again.
	Faults []fault `json:"faults"`
}

// incident is one that another project had.
type incident struct {
	Project string `json:"project"`
	Link    string `json:"link,omitempty"`
	// Seen is what happens there, in one sentence.
	Seen string `json:"seen"`
	// Tests play the same here; none where that is not tested.
	Tests []string `json:"tests,omitempty"`
	// Here is what these show.
	Here string `json:"here"`
}

func readRecord() (record, error) {
	var r record
	if err := yaml.UnmarshalStrict(recordYAML, &r); err != nil {
		return r, fmt.Errorf("record.yaml: %w", err)
	}
	return r, nil
}

// faultsOf returns the faults of the defects that an expression matches, with the tests that have to notice each.
func faultsOf(root, expression string) ([]fault, error) {
	wanted, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	r, err := readRecord()
	if err != nil {
		return nil, err
	}
	files, err := filesOfTests(root)
	if err != nil {
		return nil, err
	}
	var out []fault
	for _, d := range r.Defects {
		if !wanted.MatchString(d.Seen) {
			continue
		}
		for _, f := range d.Faults {
			f.tests, f.packages = namesAndPackages(d.Tests, files)
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no defect in record.yaml is matched by %q", expression)
	}
	return out, nil
}

// namesAndPackages are the names of tests as go test knows them, and the packages that they are in.
func namesAndPackages(tests []string, files map[string][]string) (names, packages []string) {
	for _, t := range tests {
		names = append(names, t[strings.LastIndex(t, ".")+1:])
		for _, file := range files[t] {
			packages = append(packages, "./"+path.Dir(file))
		}
	}
	slices.Sort(packages)
	return names, slices.Compact(packages)
}

func writePage(root string) error {
	page, err := pageOf(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "test/mutation/record.md"), []byte(page), 0o600)
}

const (
	pageTop = `# The record

<!-- Written by go run ./test/mutation -record, from record.yaml. -->

Every defect of the product that was found and fixed, as far as a commit tells of it: what a user saw, the commit that fixed it, the
test that fails without the fix, and the faults in [record.yaml](record.yaml) that take the fix out again. An adversarial reading of the code
found some, [random histories](../simulation/README.md) others, and use the rest.

` + "```console\ngo run ./test/mutation -defect 'beyond the 33rd'  # takes out the fixes of one defect: its tests have to fail\n" +
		"go run ./test/mutation                            # the fixes of all, one after the other\n```" + `

| what a user saw | fixed by | test that fails without it | faults that take it out |
| --- | --- | --- | --- |
`
	pageElsewhere = `
## Cases of other projects

What their users report, and which test plays the same case here.

| there | what happens | test here | what it shows |
| --- | --- | --- | --- |
`
)

// pageOf returns record.md.
func pageOf(root string) (string, error) {
	r, err := readRecord()
	if err != nil {
		return "", err
	}
	files, err := filesOfTests(root)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(pageTop)
	for _, d := range r.Defects {
		var faults []string
		for _, f := range d.Faults {
			faults = append(faults, f.What)
		}
		fmt.Fprintf(&page, "| %s | `%s` | %s | %s |\n", d.Seen, d.Fixed, links(d.Tests, files), strings.Join(faults, "; "))
	}
	page.WriteString(pageElsewhere)
	for _, i := range r.Elsewhere {
		there, tests := i.Project, "not tested"
		if i.Link != "" {
			there = fmt.Sprintf("[%s](%s)", i.Project, i.Link)
		}
		if len(i.Tests) > 0 {
			tests = links(i.Tests, files)
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", there, i.Seen, tests, i.Here)
	}
	return page.String(), nil
}

func links(tests []string, files map[string][]string) string {
	var all []string
	for _, t := range tests {
		all = append(all, fmt.Sprintf("[%s](../../%s)", t, strings.Join(files[t], " ")))
	}
	return strings.Join(all, "<br>")
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// filesOfTests returns the files that have a test of a name, and of a name with the folder before it.
func filesOfTests(root string) (map[string][]string, error) {
	found := map[string][]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isForeign(root, file):
			return fs.SkipDir
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		for _, m := range testFunction.FindAllStringSubmatch(string(content), -1) {
			for _, name := range []string{m[1], path.Base(path.Dir(file)) + "." + m[1]} {
				found[name] = append(found[name], file)
			}
		}
		return err
	})
	return found, err
}
