// Command shape counts what makes the engine hard to read, in policies and controllers: of the working tree, and of an earlier commit
// beside it. Tests and generated files are left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/lockstep-dev/lockstep/test/checkout"
)

func main() {
	root := flag.String("root", ".", "the repository")
	base := flag.String("base", "", "a commit to count, too")
	flag.Parse()
	if err := run(*root, *base); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(root, base string) error {
	names, columns := []string{"working tree"}, []counts{{}}
	if err := columns[0].countTree(root); err != nil {
		return err
	}
	if base != "" {
		dir, err := os.MkdirTemp("", "lockstep-shape-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := checkout.Files(context.Background(), root, base, dir); err != nil {
			return err
		}
		names, columns = append(names, base), append(columns, counts{})
		if err := columns[1].countTree(dir); err != nil {
			return err
		}
	}
	return table(names, columns)
}

func table(names []string, columns []counts) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\t"+strings.Join(names, "\t"))
	for _, figure := range figures {
		row := []string{string(figure)}
		for _, c := range columns {
			row = append(row, fmt.Sprint(c[figure]))
		}
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// countTree counts a repository.
func (c counts) countTree(root string) error {
	worlds := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != "." {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if folder := filepath.ToSlash(filepath.Dir(name)); isWorld(folder, content) {
			worlds[folder] = true
		}
		if top, _, _ := strings.Cut(filepath.ToSlash(name), "/"); top != "policies" && top != "controllers" {
			return nil
		}
		return c.countFile(name, content)
	})
	c[worldsKept] = len(worlds)
	return err
}

var planned = regexp.MustCompile(`\bpolicies\.PlanFor\(`)

// isWorld reports whether a file of a folder plays what the engine plans in a world that is made up.
func isWorld(folder string, content []byte) bool {
	return folder != "policies" && folder != "controllers" && planned.Match(content)
}
