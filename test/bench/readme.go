// The README: the page goes between two marks, and the versions come from the modules that pin them.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	beginMark = "<!-- bench:begin -->"
	endMark   = "<!-- bench:end -->"
)

var errNoMarks = errors.New("it has no " + beginMark + " followed by " + endMark)

// writeSection puts a page between the marks of a file, in place of what is there.
func writeSection(path, page string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := withSection(string(content), page)
	if err != nil {
		return fmt.Errorf("write the figures into %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

func withSection(content, page string) (string, error) {
	before, rest, begun := strings.Cut(content, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return "", errNoMarks
	}
	return before + beginMark + "\n" + strings.TrimSpace(page) + "\n" + endMark + after, nil
}

// versions are those that the test cluster pins.
type versions struct{ kubernetes, volcano, kwok string }

func pinned(ctx context.Context, root string) (v versions, err error) {
	binaries := filepath.Join(root, "test", "cluster", "binaries")
	if v.kubernetes, err = version(ctx, binaries, "k8s.io/kubernetes"); err != nil {
		return v, err
	}
	if v.volcano, err = version(ctx, binaries, "volcano.sh/volcano"); err != nil {
		return v, err
	}
	v.kwok, err = version(ctx, filepath.Join(binaries, "kwok"), "sigs.k8s.io/kwok")
	return v, err
}

func version(ctx context.Context, dir, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("the version of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
