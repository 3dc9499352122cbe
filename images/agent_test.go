package images

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/images/debian"
)

func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := compilerFor(runtime.GOARCH); err != nil {
		t.Skip(err)
	}
}

// agent is the agent's program on the libraries of this host, in place of Debian's, which the tests on real kubelets have.
func agent(t *testing.T) Program {
	t.Helper()
	needCompiler(t)
	program := Agent("..", debian.Store{}, "")
	program.Parts = func(_ context.Context, dir, _ string) ([]Part, error) {
		files, err := Libraries(filepath.Join(filepath.Dir(dir), "health-agent"))
		return []Part{{
			Name: "libexample", Version: "1.0+1", URL: "pkg:deb/debian/libexample@1.0%2B1", SHA256: strings.Repeat("a", 64), License: "MIT",
			Files: files,
		}}, err
	}
	return program
}

func TestAProgramThatLinksC(t *testing.T) {
	program := agent(t)
	var archives [2][]byte
	var built Built
	for i := range archives {
		var err error
		if built, err = program.Write(t.Context(), t.TempDir(), "lockstep-health-agent:dev", runtime.GOARCH); err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(built.Archive); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same source differ")
	}
	for file, says := range map[string][]string{
		".spdx.json":       {"pkg:deb/debian/libexample@1.0%2B1", strings.Repeat("a", 64), `"licenseDeclared": "MIT"`},
		".provenance.json": {"pkg:deb/debian/libexample@1.0%2B1", `"CGO_ENABLED": "1"`, `"CC": "`},
	} {
		i := slices.IndexFunc(built.Statements, func(path string) bool { return strings.HasSuffix(path, file) })
		content, err := os.ReadFile(built.Statements[i])
		if err != nil || !json.Valid(content) {
			t.Fatalf("%s: %v", file, err)
		}
		for _, want := range says {
			if !bytes.Contains(content, []byte(want)) {
				t.Errorf("%s does not say %s:\n%s", file, want, content)
			}
		}
	}
}

// compileLibrary compiles a library that exports a function with a version, and calls that of others.
func compileLibrary(t *testing.T, name, version string, others ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, exports, library := filepath.Join(dir, "source.c"), filepath.Join(dir, "exports"), filepath.Join(dir, name)
	code := "int answer(void) { return 42; }\n"
	if len(others) > 0 {
		code = "int answer(void); int ask(void) { return answer(); }\n"
	}
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exports, []byte(version+" { global: *; };\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-shared", "-fPIC", "-nostdlib", "-Wl,-soname," + name, "-Wl,--version-script," + exports, "-o", library, source}, others...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}

// What an image's programs are linked to is in the image, in a version that is new enough.
func TestLinksOfAnImage(t *testing.T) {
	needCompiler(t)
	answers := compileLibrary(t, "libanswer.so.1", "ANSWER_2")
	asks := compileLibrary(t, "libask.so.1", "ASK_1", answers)
	for name, test := range map[string]struct {
		image Image
		says  string
	}{
		"all there": {Image{Files: map[string]string{"/lib/libask.so.1": asks, "/lib/libanswer.so.1": answers, "/copyright": "agent_test.go"}}, ""},
		"under another name, with a link": {Image{
			Files: map[string]string{"/lib/libask.so.1": asks, "/lib/libanswer.so.1.2": answers},
			Links: map[string]string{"/lib/libanswer.so.1": "libanswer.so.1.2"},
		}, ""},
		"missing": {Image{Files: map[string]string{"/lib/libask.so.1": asks}}, "/lib/libask.so.1 is linked to libanswer.so.1, which the image does not have"},
		"too old": {
			Image{Files: map[string]string{"/lib/libask.so.1": asks, "/lib/libanswer.so.1": compileLibrary(t, "libanswer.so.1", "ANSWER_1")}},
			"/lib/libask.so.1 needs ANSWER_2 of libanswer.so.1, and the newest that the image has is ANSWER_1",
		},
		"of another architecture": {Image{Architecture: otherArchitecture(), Files: map[string]string{"/lib/libask.so.1": asks}}, "and the image for " + otherArchitecture()},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.image.checkLinks()
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, and should say %q", err, test.says)
			}
		})
	}
}

func otherArchitecture() string {
	if runtime.GOARCH == "amd64" {
		return "arm64"
	}
	return "amd64"
}

// Errors say what to install.
func TestWhatAProgramThatLinksCNeeds(t *testing.T) {
	if _, err := dcgmPart(t.TempDir()); err == nil || !strings.Contains(err.Error(), "datacenter-gpu-manager-4-core") {
		t.Errorf("a folder without DCGM: %v", err)
	}
	t.Setenv("CC", "/nowhere/cc")
	if _, err := compilerFor(runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "install gcc and libc6-dev") {
		t.Errorf("no compiler: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := compilerFor(otherArchitecture()); err == nil || !strings.Contains(err.Error(), "install gcc-") {
		t.Errorf("no cross compiler: %v", err)
	}
}

// DCGM's library is put where the dynamic linker finds it, and its version is told by the file's name.
func TestTheVersionOfDCGM(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libdcgm.so.4.6.0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("libdcgm.so.4.6.0", filepath.Join(dir, dcgmLibrary)); err != nil {
		t.Fatal(err)
	}
	part, err := dcgmPart(dir)
	if err != nil || part.Version != "4.6.0" || part.Files["/usr/lib/libdcgm.so.4"] == "" {
		t.Errorf("%+v: %v", part, err)
	}
}
