// Package readme puts measured figures into pages: each part goes between two marks of its own, and the
// versions that were measured come from the modules that pin them.
package readme

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Section is a part of a page, by the name that its marks have.
type Section string

// Begin is the mark before a section.
func (s Section) Begin() string { return "<!-- " + string(s) + ":begin -->" }

// End is the mark after a section.
func (s Section) End() string { return "<!-- " + string(s) + ":end -->" }

// ErrNoMarks says that a page has no place for a section.
var ErrNoMarks = errors.New("its marks are missing")

// Write puts each part between its marks in a file, in place of what is there. Parts that
// were not measured stay as they are.
func Write(path string, parts map[Section]string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content := string(raw)
	for s, text := range parts {
		if content, err = With(content, s, text); err != nil {
			return fmt.Errorf("write the figures into %s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// With returns a page with another text in a section.
func With(content string, s Section, text string) (string, error) {
	before, rest, begun := strings.Cut(content, s.Begin())
	_, after, ended := strings.Cut(rest, s.End())
	if !begun || !ended {
		return "", fmt.Errorf("%w: %s, and %s after it", ErrNoMarks, s.Begin(), s.End())
	}
	return before + s.Begin() + "\n" + strings.TrimSpace(text) + "\n" + s.End() + after, nil
}

// Commands are the commands of a section: the lines of its console blocks.
func Commands(content string, s Section) (string, error) {
	_, rest, begun := strings.Cut(content, s.Begin())
	text, _, ended := strings.Cut(rest, s.End())
	if !begun || !ended {
		return "", fmt.Errorf("%w: %s, and %s after it", ErrNoMarks, s.Begin(), s.End())
	}
	var commands strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```console"):
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			commands.WriteString(line)
		}
	}
	if commands.Len() == 0 {
		return "", fmt.Errorf("section %s has no console block", s)
	}
	return commands.String(), nil
}

// Versions are those that the test cluster pins.
type Versions struct{ Kubernetes, Volcano, KWOK string }

// Pinned reads the versions from a checkout.
func Pinned(ctx context.Context, root string) (v Versions, err error) {
	binaries := filepath.Join(root, "test", "cluster", "binaries")
	if v.Kubernetes, err = version(ctx, binaries, "k8s.io/kubernetes"); err != nil {
		return v, err
	}
	if v.Volcano, err = version(ctx, binaries, "volcano.sh/volcano"); err != nil {
		return v, err
	}
	v.KWOK, err = version(ctx, filepath.Join(binaries, "kwok"), "sigs.k8s.io/kwok")
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
