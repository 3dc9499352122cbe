// The kubectl plugin: an archive for each platform, and the manifest by which krew, kubectl's manager of plugins, installs it.

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/lockstep-dev/lockstep/images"
)

// pluginName is the name of the program, and of the archives before their platform.
const pluginName = "kubectl-lockstep"

// krewFile is the name of krew's manifest: krew wants that of the plugin.
const krewFile = "lockstep.yaml"

//go:embed lockstep.yaml.tmpl
var krewText string

var krewTemplate = template.Must(template.New(krewFile).Option("missingkey=error").Parse(krewText))

// platform is an operating system and an architecture, in Go's words.
type platform struct{ OS, Arch string }

// platforms are those that the plugin is packed for.
var platforms = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// Archive is the name of the platform's archive: a zip on Windows, else a tar.gz.
func (p platform) Archive() string {
	extension := "tar.gz"
	if p.OS == "windows" {
		extension = "zip"
	}
	return fmt.Sprintf("%s_%s_%s.%s", pluginName, p.OS, p.Arch, extension)
}

// Binary is the name of the program in the platform's archive.
func (p platform) Binary() string {
	if p.OS == "windows" {
		return pluginName + ".exe"
	}
	return pluginName
}

// plugin says what is packed.
type plugin struct {
	// root is the folder of the repository, and program the package there, such as ./cmd/kubectl-lockstep.
	root, program string
	// url is the folder that the archives will be downloaded from. Empty: no manifest is written.
	url string
	// version of the manifest, such as v1.2.0. Default: what the program says, which is the tag or pseudo-version of the commit.
	version string
}

// packed is an archive that was written.
type packed struct {
	platform
	// SHA256 of the archive, in hexadecimal.
	SHA256 string
}

// write writes the archives of these platforms and the manifest into dir.
func (p plugin) write(ctx context.Context, dir string, platforms ...platform) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archives := make([]packed, len(platforms))
	for i, on := range platforms {
		said, sum, err := p.pack(ctx, dir, on)
		if err != nil {
			return fmt.Errorf("%s for %s/%s: %w", p.program, on.OS, on.Arch, err)
		}
		if p.version == "" {
			p.version = said
		}
		archives[i] = packed{on, sum}
	}
	if p.url == "" {
		return nil
	}
	manifest, err := p.manifest(archives)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, krewFile), manifest, 0o644)
}

// pack builds the program for a platform and writes its archive. It returns the version that the program says, and the archive's SHA-256.
func (p plugin) pack(ctx context.Context, dir string, on platform) (said, sum string, err error) {
	temporary, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(temporary)
	binary := filepath.Join(temporary, on.Binary())
	if err := images.CompileFor(ctx, p.root, p.program, on.OS, on.Arch, binary); err != nil {
		return "", "", err
	}
	said, committed, err := origin(binary)
	if err != nil {
		return "", "", err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return "", "", err
	}
	license, err := os.ReadFile(filepath.Join(p.root, "LICENSE"))
	if err != nil {
		return "", "", err
	}
	pack := tarGzip
	if on.OS == "windows" {
		pack = zipped
	}
	archive, err := pack(committed, []entry{{on.Binary(), 0o755, program}, {"LICENSE", 0o644, license}})
	if err != nil {
		return "", "", err
	}
	hash := sha256.Sum256(archive)
	return said, hex.EncodeToString(hash[:]), os.WriteFile(filepath.Join(dir, on.Archive()), archive, 0o644)
}

// origin returns the version that a program says, and when the commit was made that it was built from: 1980, the earliest that a zip can
// say, where it was built from none.
func origin(binary string) (said string, committed time.Time, err error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", time.Time{}, err
	}
	committed = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			committed, err = time.Parse(time.RFC3339, s.Value)
		}
	}
	return info.Main.Version, committed.UTC(), err
}

// manifest fills in the template.
func (p plugin) manifest(archives []packed) ([]byte, error) {
	base, err := url.Parse(p.url)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("-url: %q has to be the address of a folder, like https://downloads.example/lockstep/v1.2.0", p.url)
	}
	if _, err := version.ParseSemantic(p.version); err != nil || !strings.HasPrefix(p.version, "v") {
		return nil, fmt.Errorf("the program says version %q, which krew does not take: build it of a commit with a tag like v1.2.0", p.version)
	}
	var out bytes.Buffer
	err = krewTemplate.Execute(&out, map[string]any{"Version": p.version, "URL": strings.TrimSuffix(p.url, "/"), "Archives": archives})
	return out.Bytes(), err
}
