// The README: each part of the page goes between two marks of its own, and the versions come from the
// modules that pin them.

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

// section is a part of the page, by the name that its marks have.
type section string

// The sections.
const (
	gangSection   section = "bench"
	healthSection section = "bench:health"
)

func (s section) begin() string { return "<!-- " + string(s) + ":begin -->" }
func (s section) end() string   { return "<!-- " + string(s) + ":end -->" }

var errNoMarks = errors.New("its marks are missing")

// writeSections puts each part between its marks in a file, in place of what is there. Parts that
// were not measured stay as they are.
func writeSections(path string, parts map[section]string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content := string(raw)
	for s, text := range parts {
		if content, err = withSection(content, s, text); err != nil {
			return fmt.Errorf("write the figures into %s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

func withSection(content string, s section, text string) (string, error) {
	before, rest, begun := strings.Cut(content, s.begin())
	_, after, ended := strings.Cut(rest, s.end())
	if !begun || !ended {
		return "", fmt.Errorf("%w: %s, and %s after it", errNoMarks, s.begin(), s.end())
	}
	return before + s.begin() + "\n" + strings.TrimSpace(text) + "\n" + s.end() + after, nil
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
