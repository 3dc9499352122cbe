// Package dist packs kubectl-lockstep for people to download: an archive for each platform, their checksums, and the manifest by which
// krew, kubectl's manager of plugins, installs it. The same commit and the same version of Go come to the same files, byte by byte.
package dist

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// Name of the program, and of the archives before their platform.
const Name = "kubectl-lockstep"

// Checksums is the name of the file with the SHA-256 sums of the archives, as sha256sum prints them.
const Checksums = Name + "_checksums.txt"

// Platform is an operating system and an architecture, in Go's words.
type Platform struct{ OS, Arch string }

// Platforms are those that the plugin is packed for.
func Platforms() []Platform {
	var out []Platform
	for _, system := range []string{"darwin", "linux", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			out = append(out, Platform{system, arch})
		}
	}
	return out
}

// Archive is the name of the platform's archive: a zip on Windows, else a tar.gz.
func (p Platform) Archive() string {
	if p.OS == "windows" {
		return fmt.Sprintf("%s_%s_%s.zip", Name, p.OS, p.Arch)
	}
	return fmt.Sprintf("%s_%s_%s.tar.gz", Name, p.OS, p.Arch)
}

// Binary is the name of the program in the platform's archive.
func (p Platform) Binary() string {
	if p.OS == "windows" {
		return Name + ".exe"
	}
	return Name
}

// Release says what is packed.
type Release struct {
	// Root is the folder of the repository.
	Root string
	// Package of the program, such as ./cmd/kubectl-lockstep.
	Package string
	// URL of the folder that the archives will be downloaded from. Empty: no manifest is written.
	URL string
	// Version of the manifest, such as v1.2.0. Default: what the program says, which is the tag or pseudo-version of the commit.
	Version string
}

// packed is an archive that was written.
type packed struct {
	Platform
	// SHA256 of the archive, in hexadecimal.
	SHA256 string
	// version of the program, and time of the commit that it was built from; empty and zero where it does not say.
	version string
	time    time.Time
}

// Write writes the archives of these platforms, their checksums and the manifest into dir, and returns the paths.
func (r Release) Write(ctx context.Context, dir string, platforms ...Platform) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var archives []packed
	var sums strings.Builder
	var out []string
	for _, p := range platforms {
		archive, err := r.pack(ctx, dir, p)
		if err != nil {
			return nil, fmt.Errorf("%s for %s/%s: %w", r.Package, p.OS, p.Arch, err)
		}
		archives, out = append(archives, archive), append(out, filepath.Join(dir, p.Archive()))
		fmt.Fprintf(&sums, "%s  %s\n", archive.SHA256, p.Archive())
	}
	files := map[string][]byte{Checksums: []byte(sums.String())}
	if r.URL != "" {
		manifest, err := r.manifest(archives)
		if err != nil {
			return nil, err
		}
		files[Manifest] = manifest
	}
	for _, name := range []string{Checksums, Manifest} {
		content, ok := files[name]
		if !ok {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// pack builds the program for a platform and writes its archive.
func (r Release) pack(ctx context.Context, dir string, p Platform) (packed, error) {
	out := packed{Platform: p}
	temporary, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(temporary)
	binary := filepath.Join(temporary, p.Binary())
	if err := r.compile(ctx, p, binary); err != nil {
		return out, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return out, err
	}
	out.version = info.Main.Version
	if out.time, err = committed(info); err != nil {
		return out, err
	}
	content, err := archive(p, out.time, []file{
		{name: p.Binary(), path: binary, mode: 0o755}, {name: "LICENSE", path: filepath.Join(r.Root, "LICENSE"), mode: 0o644},
	})
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256(content)
	out.SHA256 = hex.EncodeToString(sum[:])
	return out, os.WriteFile(filepath.Join(dir, p.Archive()), content, 0o644)
}

// compile builds the program for a platform, without C and without debug information.
func (r Release) compile(ctx context.Context, p Platform, binary string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w", "-o", binary, r.Package)
	build.Dir = r.Root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// committed is when the commit was made that a program was built from; zero where it does not say.
func committed(info *debug.BuildInfo) (time.Time, error) {
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			return time.Parse(time.RFC3339, s.Value)
		}
	}
	return time.Time{}, nil
}
