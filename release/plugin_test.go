package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

const (
	root = ".."
	base = "https://downloads.example/lockstep/v1.2.0"
)

// small is a release of a small program, which builds quickly for every platform.
var small = plugin{root: root, program: "./test/pause", url: base + "/", version: "v1.2.0"}

// pack writes the plugin for these platforms into a folder.
func pack(t *testing.T, p plugin, on ...platform) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := p.write(t.Context(), dir, on...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// namesIn are the names of the files in a folder.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filesOf(dir)
	check.Equal(t, "error", nil, err)
	return names
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
	dir := pack(t, small, platforms...)
	check.Equal(t, "files", []string{
		"kubectl-lockstep_darwin_amd64.tar.gz", "kubectl-lockstep_darwin_arm64.tar.gz",
		"kubectl-lockstep_linux_amd64.tar.gz", "kubectl-lockstep_linux_arm64.tar.gz",
		"kubectl-lockstep_windows_amd64.zip", "kubectl-lockstep_windows_arm64.zip",
		"lockstep.yaml",
	}, namesIn(t, dir))
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	check.Equal(t, "error", nil, err)
	for _, p := range platforms {
		content, modes := unpacked(t, filepath.Join(dir, p.Archive()))
		check.Equal(t, p.Archive(), map[string]fs.FileMode{p.Binary(): 0o755, "LICENSE": 0o644}, modes)
		check.Equal(t, "license", true, bytes.Equal(license, content["LICENSE"]))
		if !bytes.HasPrefix(content[p.Binary()], []byte(formats[p.OS])) {
			t.Errorf("%s holds no program of %s: it begins with %q", p.Archive(), p.OS, content[p.Binary()][:4])
		}
	}
}

func TestTheSameCommitGivesTheSameFiles(t *testing.T) {
	on := []platform{{"linux", "arm64"}, {"windows", "amd64"}}
	first, second := pack(t, small, on...), pack(t, small, on...)
	for _, name := range namesIn(t, first) {
		one, err := os.ReadFile(filepath.Join(first, name))
		other, err2 := os.ReadFile(filepath.Join(second, name))
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s is not the same when it is packed again: %v", name, err)
		}
	}
}

func TestAManifestNeedsAnAddressAndAVersion(t *testing.T) {
	for name, tc := range map[string]struct{ url, version, want string }{
		"no address":      {"downloads.example", "v1.2.0", `-url: "downloads.example" has to be the address of a folder, like https://`},
		"not encrypted":   {"http://downloads.example", "v1.2.0", `-url: "http://downloads.example" has to be`},
		"no version":      {base, "latest", `the program says version "latest", which krew does not take: build it of a commit with a tag like v1.2.0`},
		"without its v":   {base, "1.2.0", `the program says version "1.2.0", which krew does not take`},
		"not to the full": {base, "v1.2", `the program says version "v1.2", which krew does not take`},
	} {
		t.Run(name, func(t *testing.T) {
			p := small
			p.url, p.version = tc.url, tc.version
			err := p.write(t.Context(), t.TempDir(), platform{"linux", "amd64"})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestWithoutAnAddressThereIsNoManifest(t *testing.T) {
	p := small
	p.url = ""
	check.Equal(t, "files", []string{"kubectl-lockstep_linux_amd64.tar.gz"}, namesIn(t, pack(t, p, platform{"linux", "amd64"})))
}
