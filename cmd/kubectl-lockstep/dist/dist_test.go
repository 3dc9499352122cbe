package dist_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/dist"
	"github.com/lockstep-dev/lockstep/test/check"
)

const (
	root = "../../.."
	base = "https://downloads.example/lockstep/v1.2.0"
)

// small is a release of a small program, which builds quickly for every platform.
var small = dist.Release{Root: root, Package: "./test/pause", URL: base + "/", Version: "v1.2.0"}

func write(t *testing.T, r dist.Release, platforms ...dist.Platform) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	paths, err := r.Write(t.Context(), dir, platforms...)
	if err != nil {
		t.Fatal(err)
	}
	return dir, paths
}

// unpacked returns the files of an archive, with their modes.
func unpacked(t *testing.T, path string) (content map[string][]byte, modes map[string]fs.FileMode) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content, modes = map[string][]byte{}, map[string]fs.FileMode{}
	add := func(name string, mode fs.FileMode, from io.Reader) {
		if content[name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
		modes[name] = mode.Perm()
	}
	if filepath.Ext(path) == ".zip" {
		files, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.Mode(), from)
			check.Equal(t, "error", nil, from.Close())
		}
		return content, modes
	}
	expanded, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(expanded); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return content, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		add(header.Name, header.FileInfo().Mode(), files)
	}
}

// formats are the first bytes of programs, by operating system: ELF, Mach-O of 64 bits and PE.
var formats = map[string]string{"linux": "\x7fELF", "darwin": "\xcf\xfa\xed\xfe", "windows": "MZ"}

func TestAnArchiveForEachPlatform(t *testing.T) {
	dir, paths := write(t, small, dist.Platforms()...)
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	check.Equal(t, "files", []string{
		"kubectl-lockstep_darwin_amd64.tar.gz", "kubectl-lockstep_darwin_arm64.tar.gz",
		"kubectl-lockstep_linux_amd64.tar.gz", "kubectl-lockstep_linux_arm64.tar.gz",
		"kubectl-lockstep_windows_amd64.zip", "kubectl-lockstep_windows_arm64.zip",
		"kubectl-lockstep_checksums.txt", "lockstep.yaml",
	}, names)
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	check.Equal(t, "error", nil, err)
	for _, p := range dist.Platforms() {
		content, modes := unpacked(t, filepath.Join(dir, p.Archive()))
		check.Equal(t, p.Archive(), map[string]fs.FileMode{p.Binary(): 0o755, "LICENSE": 0o644}, modes)
		check.Equal(t, "license", true, bytes.Equal(license, content["LICENSE"]))
		if !bytes.HasPrefix(content[p.Binary()], []byte(formats[p.OS])) {
			t.Errorf("%s holds no program of %s: it begins with %q", p.Archive(), p.OS, content[p.Binary()][:4])
		}
	}
}

func TestChecksumsAreThoseOfTheArchives(t *testing.T) {
	dir, _ := write(t, small, dist.Platforms()[0], dist.Platforms()[5])
	raw, err := os.ReadFile(filepath.Join(dir, dist.Checksums))
	check.Equal(t, "error", nil, err)
	var want strings.Builder
	for _, p := range []dist.Platform{dist.Platforms()[0], dist.Platforms()[5]} {
		content, err := os.ReadFile(filepath.Join(dir, p.Archive()))
		check.Equal(t, "error", nil, err)
		sum := sha256.Sum256(content)
		want.WriteString(hex.EncodeToString(sum[:]) + "  " + p.Archive() + "\n")
	}
	check.Equal(t, "checksums", want.String(), string(raw))
}

func TestTheSameCommitGivesTheSameFiles(t *testing.T) {
	platforms := []dist.Platform{{OS: "linux", Arch: "arm64"}, {OS: "windows", Arch: "amd64"}}
	first, paths := write(t, small, platforms...)
	second, _ := write(t, small, platforms...)
	for _, path := range paths {
		name := filepath.Base(path)
		one, err := os.ReadFile(filepath.Join(first, name))
		other, err2 := os.ReadFile(filepath.Join(second, name))
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s is not the same when it is packed again: %v", name, err)
		}
	}
}

func TestAManifestNeedsAnAddressAndAVersion(t *testing.T) {
	platform := dist.Platform{OS: "linux", Arch: "amd64"}
	for name, tc := range map[string]struct{ url, version, want string }{
		"no address":      {"downloads.example", "v1.2.0", `-url: "downloads.example" has to be the address of a folder, like https://`},
		"not encrypted":   {"http://downloads.example", "v1.2.0", `-url: "http://downloads.example" has to be`},
		"no version":      {base, "latest", `the program says version "latest", which krew does not take: build it of a commit with a tag like v1.2.0`},
		"without its v":   {base, "1.2.0", `the program says version "1.2.0", which krew does not take`},
		"not to the full": {base, "v1.2", `the program says version "v1.2", which krew does not take`},
	} {
		t.Run(name, func(t *testing.T) {
			r := small
			r.URL, r.Version = tc.url, tc.version
			_, err := r.Write(t.Context(), t.TempDir(), platform)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestWithoutAnAddressThereIsNoManifest(t *testing.T) {
	r := small
	r.URL = ""
	_, paths := write(t, r, dist.Platform{OS: "linux", Arch: "amd64"})
	if slices.ContainsFunc(paths, func(p string) bool { return filepath.Base(p) == dist.Manifest }) {
		t.Errorf("a manifest without addresses was written: %v", paths)
	}
}
