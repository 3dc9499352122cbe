// Writing a release.

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/images/debian"
)

// release is what is written, and how.
type release struct {
	root, helm, url, registry, builder, dcgm string
	architectures, agentArchitectures        []string
}

// commit is what a release is made of.
type commit struct {
	tag string // such as v1.2.0
	at  time.Time
}

// write writes a release into a folder of dir named as its tag, and returns that. The same commit and the same programs come to the same
// files, byte by byte. It is refused where the commit has no tag, files were changed, or the CHANGELOG has no section of the tag.
func (r release) write(ctx context.Context, dir string) (string, error) {
	c, err := r.commit(ctx)
	if err != nil {
		return "", err
	}
	notes, err := r.notes(c.tag)
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, c.tag)
	if err := os.RemoveAll(out); err != nil { // what an earlier run has left would be a part of the release
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(out, "RELEASE_NOTES.md"), []byte(notes), 0o644); err != nil {
		return "", err
	}
	for _, part := range []func(context.Context, commit, string) error{r.chart, r.plugin, r.images} {
		if err := part(ctx, c, out); err != nil {
			return "", err
		}
	}
	return out, writeSums(out)
}

// commit is the one that is checked out.
func (r release) commit(ctx context.Context) (commit, error) {
	changed, err := r.git(ctx, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return commit{}, err
	}
	if changed != "" {
		return commit{}, fmt.Errorf("files differ from the commit, so nobody could make the release again; commit or remove:\n%s", changed)
	}
	tag, err := r.git(ctx, "tag", "--points-at", "HEAD", "--list", "v*")
	if err != nil {
		return commit{}, err
	}
	if len(strings.Fields(tag)) != 1 {
		return commit{}, fmt.Errorf("the commit has to have one tag, that of the release, such as v1.2.0, and has %q: git tag sets it", strings.Fields(tag))
	}
	seconds, err := r.git(ctx, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return commit{}, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	return commit{tag, time.Unix(n, 0).UTC()}, err
}

func (r release) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.command(ctx, "git", args...)
	return strings.TrimSpace(string(out)), err
}

// command runs a program in the repository, and returns what it prints.
func (r release) command(ctx context.Context, program string, args ...string) ([]byte, error) {
	var complaint strings.Builder
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Stderr = r.root, &complaint
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, complaint.String())
	}
	return out, nil
}

// notes are the section of a tag in the CHANGELOG.
func (r release) notes(tag string) (string, error) {
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	link := regexp.MustCompile(`^\[[^]]+\]: `) // they stand at the end
	heading := "## [" + strings.TrimPrefix(tag, "v") + "]"
	var out strings.Builder
	in := false
	for line := range strings.Lines(string(changelog)) {
		if strings.HasPrefix(line, "## ") || link.MatchString(line) {
			in = strings.HasPrefix(line, heading)
		}
		if in {
			out.WriteString(line)
		}
	}
	if out.Len() == 0 {
		return "", fmt.Errorf("CHANGELOG.md has no section %s: it says what is new in the release", heading)
	}
	return strings.TrimSpace(out.String()) + "\n", nil
}

func (r release) plugin(ctx context.Context, c commit, dir string) error {
	return plugin{r.root, "./cmd/kubectl-lockstep", r.url, c.tag}.write(ctx, dir, platforms...)
}

func (r release) images(ctx context.Context, c commit, dir string) error {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	packages := debian.Store{Dir: filepath.Join(r.root, ".cache", "debian"), Mirror: debian.DefaultMirror}
	for _, image := range []struct {
		name          string
		program       images.Program
		architectures []string
	}{
		{"lockstep-manager", images.Manager(root), r.architectures},
		{"lockstep-run", images.Supervisor(root), r.architectures},
		{"lockstep-health-agent", images.Agent(root, packages, r.dcgm), r.agentArchitectures},
	} {
		image.program.Builder = r.builder
		if _, err := image.program.Write(ctx, dir, r.repository(image.name)+":"+c.tag, image.architectures...); err != nil {
			return err
		}
	}
	return nil
}

// repository is where an image is pulled from.
func (r release) repository(image string) string {
	if r.registry == "" {
		return image
	}
	return strings.TrimSuffix(r.registry, "/") + "/" + image
}
