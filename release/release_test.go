package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var whole = flag.Bool("whole", false, "write a release of this commit twice and compare the files: minutes")

// write writes a file of a test.
func write(t *testing.T, text string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// git runs git as somebody at a time that is always the same, so that the same commit comes of it.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2026-01-02T15:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T15:04:05Z")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

const changelog = "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.2.0] - 2026-01-02\n\n### Added\n\n- this\n[that](x)\n\n## [1.1.0]\n\n- before\n\n[1.1.0]: https://example.com\n"

// repository is one of a commit with a CHANGELOG.
func repository(t *testing.T) string {
	dir := t.TempDir()
	git(t, dir, "init", "--quiet")
	write(t, changelog, dir, "CHANGELOG.md")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message=one")
	return dir
}

func TestNotesAreTheSectionOfTheTag(t *testing.T) {
	r := release{root: repository(t)}
	for tag, want := range map[string]string{
		"v1.2.0": "## [1.2.0] - 2026-01-02\n\n### Added\n\n- this\n[that](x)\n",
		"v1.1.0": "## [1.1.0]\n\n- before\n",
	} {
		if got, err := r.notes(tag); err != nil || got != want {
			t.Errorf("%s: %q, %v", tag, got, err)
		}
	}
	if _, err := r.notes("v1.3.0"); err == nil || !strings.Contains(err.Error(), "[1.3.0]") {
		t.Error("a tag that the CHANGELOG does not have:", err)
	}
}

func TestOnlyACleanCommitWithATagIsReleased(t *testing.T) {
	dir := repository(t)
	r := release{root: dir}
	if _, err := r.commit(t.Context()); err == nil || !strings.Contains(err.Error(), "git tag") {
		t.Error("without a tag:", err)
	}
	git(t, dir, "tag", "v1.2.0")
	want := commit{"v1.2.0", time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	if got, err := r.commit(t.Context()); err != nil || got != want {
		t.Error(got, err)
	}
	git(t, dir, "tag", "v1.2.1")
	if _, err := r.commit(t.Context()); err == nil || !strings.Contains(err.Error(), "one tag") {
		t.Error("with two tags:", err)
	}
	write(t, "", dir, "left")
	if _, err := r.commit(t.Context()); err == nil || !strings.Contains(err.Error(), "left") {
		t.Error("with a file that is not committed:", err)
	}
}

func TestWhatWasTamperedWithIsFound(t *testing.T) {
	tests := map[string]struct {
		tamper func(dir string)
		want   string // of the error; empty: none
	}{
		"nothing":               {func(string) {}, ""},
		"a byte":                {func(dir string) { write(t, "on2", dir, "one") }, "one is not what was published"},
		"a file less":           {func(dir string) { _ = os.Remove(filepath.Join(dir, "two")) }, "two is missing"},
		"a file more":           {func(dir string) { write(t, "", dir, "three") }, "three is not listed"},
		"a file for another":    {func(dir string) { _ = os.Rename(filepath.Join(dir, "one"), filepath.Join(dir, "two")) }, "two is not what was published"},
		"the list":              {func(dir string) { write(t, "no list", dir, sumsFile) }, "no sum and name"},
		"the list, to be empty": {func(dir string) { write(t, "", dir, sumsFile) }, "one is not listed"},
		"a link to the same": {func(dir string) {
			_ = os.Rename(filepath.Join(dir, "one"), filepath.Join(filepath.Dir(dir), "elsewhere"))
			_ = os.Symlink("../elsewhere", filepath.Join(dir, "one"))
		}, "one is no regular file"},
		"a line more": {func(dir string) {
			list, _ := os.ReadFile(filepath.Join(dir, sumsFile))
			write(t, string(list)+string(list), dir, sumsFile)
		}, "lists one twice"},
		"no list": {func(dir string) { _ = os.Remove(filepath.Join(dir, sumsFile)) }, sumsFile},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, "one", dir, "one")
			write(t, "two", dir, "two")
			if err := writeSums(dir); err != nil {
				t.Fatal(err)
			}
			test.tamper(dir)
			n, err := checkSums(dir)
			if test.want == "" && (err != nil || n != 2) {
				t.Error(n, "files:", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("the error is %v, not %q", err, test.want)
			}
		})
	}
}

// Helm packs a chart with the time at which it does.
func TestAChartThatIsPackedLaterIsTheSame(t *testing.T) {
	packedAt := func(at time.Time) []byte {
		var out bytes.Buffer
		compressed := gzip.NewWriter(&out)
		compressed.Comment, compressed.ModTime = "Helm", at
		w := tar.NewWriter(compressed)
		if err := w.WriteHeader(&tar.Header{Name: "lockstep/Chart.yaml", Mode: 0o644, Size: 4, ModTime: at}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte("name"))
		_, _ = w.Close(), compressed.Close()
		return out.Bytes()
	}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	one, err := dated(packedAt(at.Add(time.Hour)), at)
	if err != nil {
		t.Fatal(err)
	}
	two, err := dated(packedAt(at.Add(2*time.Hour)), at)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("the archives differ")
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(unpacked)
	header, err := files.Next()
	if err != nil || header.Name != "lockstep/Chart.yaml" || !header.ModTime.Equal(at) {
		t.Error(header, err)
	}
	if content, err := io.ReadAll(files); err != nil || string(content) != "name" {
		t.Errorf("the file has %q (%v)", content, err)
	}
}

// The same commit comes to the same release, wherever it is checked out.
func TestAReleaseIsTheSameTwice(t *testing.T) {
	if !*whole {
		t.Skip("make test-release runs it")
	}
	origin, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]bool{}
	for _, name := range []string{"one", "another place"} {
		root := filepath.Join(t.TempDir(), name)
		git(t, ".", "clone", "--quiet", origin, root)
		write(t, changelog, root, "CHANGELOG.md")
		git(t, root, "commit", "--quiet", "--all", "--message=release")
		git(t, root, "tag", "v1.2.0")
		r := release{
			root: root, helm: filepath.Join(origin, ".cache", "tools", "helm"), url: "https://downloads.example/v1.2.0", registry: "registry.example/lockstep",
			builder: "https://lockstep.dev/local", architectures: []string{"amd64", "arm64"}, agentArchitectures: []string{"amd64"},
		}
		dir, err := r.write(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := checkSums(dir); err != nil || n < 10 {
			t.Error(n, "files:", err)
		}
		for _, name := range []string{manifestsFile, krewFile} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
		list, err := os.ReadFile(filepath.Join(dir, sumsFile))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s\n%s", dir, list)
		if sums[string(list)] = true; len(sums) > 1 {
			t.Error("the files differ:", cmp.Diff(sums, nil))
		}
	}
}
