package debian

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is a package with a library, a link to it and a file that nobody asks for.
func example(t *testing.T) (Package, Store) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb")
	}
	tree := t.TempDir()
	for name, content := range map[string]string{
		"DEBIAN/control":              "Package: libexample\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: none\nDescription: none\n",
		"usr/lib/libexample.so.1.0":   "library",
		"usr/lib/other":               "other",
		"usr/share/doc/lib/copyright": "licence",
	} {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("libexample.so.1.0", filepath.Join(tree, "usr/lib/libexample.so.1")); err != nil {
		t.Fatal(err)
	}
	store := Store{Dir: t.TempDir()}
	p := Package{Name: "libexample", Source: "example", Version: "1.0-1", Files: []string{"libexample.so.*", "copyright"}}
	deb := filepath.Join(store.Dir, p.file("amd64"))
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", tree, deb).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	p.SHA256 = map[string]string{"amd64": hex.EncodeToString(sum[:])}
	return p, store
}

func TestAPackageIsUnpacked(t *testing.T) {
	p, store := example(t)
	if err := store.Fetch(t.Context(), "amd64", []Package{p}); err != nil { // nothing is downloaded: it is at hand
		t.Fatal(err)
	}
	dir := t.TempDir()
	got, err := store.Unpack(t.Context(), p, "amd64", dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Content{
		Files: map[string]string{
			"/usr/lib/libexample.so.1.0":   filepath.Join(dir, "usr/lib/libexample.so.1.0"),
			"/usr/share/doc/lib/copyright": filepath.Join(dir, "usr/share/doc/lib/copyright"),
		},
		Links: map[string]string{"/usr/lib/libexample.so.1": "libexample.so.1.0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	content, err := os.ReadFile(got.Files["/usr/lib/libexample.so.1.0"])
	if err != nil || string(content) != "library" {
		t.Errorf("the library is %q: %v", content, err)
	}
}

func TestAPackageThatIsNotThePinnedOne(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Package)
		says   string
	}{
		"another checksum":       {func(p *Package) { p.SHA256["amd64"] = "00" }, "has the checksum"},
		"a file that it has not": {func(p *Package) { p.Files = append(p.Files, "libgone.so.*") }, "it has no file libgone.so.*"},
	} {
		t.Run(name, func(t *testing.T) {
			p, store := example(t)
			test.change(&p)
			if _, err := store.Unpack(t.Context(), p, "amd64", t.TempDir()); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, and should say %q", err, test.says)
			}
		})
	}
}

// Where a package cannot be had, the error says which file to get, from where, and where to put it.
func TestAPackageThatCannotBeDownloaded(t *testing.T) {
	p := Package{Name: "libexample", Source: "example", Version: "1.0-1", SHA256: map[string]string{"amd64": "00"}}
	store := Store{Dir: t.TempDir(), Mirror: "file://" + t.TempDir()}
	err := store.Fetch(t.Context(), "amd64", []Package{p})
	for _, says := range []string{store.Dir, "libexample_1.0-1_amd64.deb", "https://snapshot.debian.org/package/example/1.0-1/"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error does not say %q: %v", says, err)
		}
	}
	if err := store.Fetch(t.Context(), "riscv64", []Package{p}); err == nil || !strings.Contains(err.Error(), "no checksum of libexample for riscv64") {
		t.Errorf("another architecture: %v", err)
	}
}

func TestEveryPackageIsPinnedForBothArchitectures(t *testing.T) {
	packages, err := Packages()
	if err != nil || len(packages) == 0 {
		t.Fatalf("%d packages: %v", len(packages), err)
	}
	for _, p := range packages {
		for _, architecture := range []string{"amd64", "arm64"} {
			if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.SHA256[architecture]) {
				t.Errorf("%s has the checksum %q for %s", p.Name, p.SHA256[architecture], architecture)
			}
		}
		if p.License == "" || p.Source == "" || p.Version == "" || len(p.Files) == 0 {
			t.Errorf("%s lacks something: %+v", p.Name, p)
		}
	}
}
