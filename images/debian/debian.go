// Package debian has the files of pinned packages of Debian, by version and checksum, for images that hold them. It needs dpkg-deb and, for a
// package that is not at hand, apt-get; neither needs root.
package debian

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// DefaultMirror is where packages come from that are not at hand.
const DefaultMirror = "http://deb.debian.org/debian"

// suites are those of Debian 12 that a pinned version may be in.
const suites = "bookworm bookworm-updates"

// Package is a package at one version.
type Package struct {
	Name string `json:"name"`
	// Source is the package that it was built from.
	Source  string `json:"source"`
	Version string `json:"version"`
	// License is an expression of SPDX for the files below.
	License string `json:"license"`
	// SHA256 is the checksum of the package's file by architecture, such as amd64.
	SHA256 map[string]string `json:"sha256"`
	// Files are patterns of the base names of files, as of path.Match.
	Files []string `json:"files"`
}

//go:embed packages.yaml
var pinned []byte

// Packages are the pinned ones.
func Packages() ([]Package, error) {
	var packages []Package
	if err := yaml.UnmarshalStrict(pinned, &packages); err != nil {
		return nil, fmt.Errorf("images/debian/packages.yaml: %w", err)
	}
	return packages, nil
}

// URL identifies the package for an architecture: https://github.com/package-url/purl-spec.
func (p Package) URL(architecture string) string {
	escape := strings.NewReplacer("+", "%2B")
	return fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=debian-12", escape.Replace(p.Name), escape.Replace(p.Version), architecture)
}

// file is the name of the package's file, as apt-get gives it.
func (p Package) file(architecture string) string {
	return fmt.Sprintf("%s_%s_%s.deb", p.Name, p.Version, architecture)
}

// Store is a folder of packages' files, and where those come from that it lacks.
type Store struct {
	Dir    string
	Mirror string
}

// Fetch puts what the store lacks of these packages into it.
func (s Store) Fetch(ctx context.Context, architecture string, packages []Package) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	var missing []Package
	for _, p := range packages {
		if p.SHA256[architecture] == "" {
			return fmt.Errorf("images/debian/packages.yaml has no checksum of %s for %s", p.Name, architecture)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, p.file(architecture))); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := s.download(ctx, architecture, missing); err != nil {
		var help strings.Builder
		for _, p := range missing {
			fmt.Fprintf(&help, "\n  %s   https://snapshot.debian.org/package/%s/%s/", p.file(architecture), p.Source, p.Version)
		}
		return fmt.Errorf("%w\nput these files into %s, or raise their versions in images/debian/packages.yaml:%s", err, s.Dir, help.String())
	}
	return nil
}

// download has apt-get download packages, with lists of its own: the host need not run Debian 12, or on that architecture. The checksums
// are the pinned ones, so no signature is asked for.
func (s Store) download(ctx context.Context, architecture string, packages []Package) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("packages of Debian are needed, and there is no apt-get to download them")
	}
	state, err := os.MkdirTemp("", "apt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	var sources strings.Builder
	for suite := range strings.FieldsSeq(suites) {
		fmt.Fprintf(&sources, "deb [trusted=yes] %s %s main\n", s.Mirror, suite)
	}
	list := filepath.Join(state, "sources.list")
	if err := os.WriteFile(list, []byte(sources.String()), 0o644); err != nil {
		return err
	}
	options := []string{
		"-qq", "-o", "APT::Sandbox::User=", "-o", "APT::Architecture=" + architecture, "-o", "APT::Architectures=" + architecture,
		"-o", "Dir::State=" + state, "-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + state,
		"-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=-",
	}
	if err := s.apt(ctx, options, "update"); err != nil {
		return err
	}
	args := []string{"download"}
	for _, p := range packages {
		args = append(args, p.Name+"="+p.Version)
	}
	return s.apt(ctx, options, args...)
}

func (s Store) apt(ctx context.Context, options []string, args ...string) error {
	command := exec.CommandContext(ctx, "apt-get", slices.Concat(options, args)...)
	command.Dir = s.Dir
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get from %s: %w\n%s", s.Mirror, err, strings.TrimSpace(string(out)))
	}
	return nil
}
