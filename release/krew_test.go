package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// krew builds krew and its check of manifests, and returns the folder.
func krew(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	execute(t, nil, "go", "build", "-C", filepath.Join(root, ".ci", "krew"), "-o", dir, "sigs.k8s.io/krew/cmd/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest")
	return dir
}

func execute(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// install has krew install the plugin of a platform from its archive, without a network, and returns where the program is then.
func install(t *testing.T, krew, dir string, p platform) string {
	t.Helper()
	home := t.TempDir()
	env := []string{"KREW_ROOT=" + home, "KREW_OS=" + p.OS, "KREW_ARCH=" + p.Arch}
	execute(t, env, filepath.Join(krew, "krew"), "install", "--manifest", filepath.Join(dir, krewFile), "--archive", filepath.Join(dir, p.Archive()))
	store := filepath.Join(home, "store", "lockstep", small.version)
	for _, name := range []string{p.Binary(), "LICENSE"} {
		if _, err := os.Stat(filepath.Join(store, name)); err != nil {
			t.Errorf("%s/%s: %v", p.OS, p.Arch, err)
		}
	}
	return filepath.Join(home, "bin", p.Binary())
}

// krew finds nothing wrong with the manifest, and installs every platform's archive by it: the checksum is right, and so are the names.
func TestKrewInstallsEveryPlatform(t *testing.T) {
	tools := krew(t)
	dir := pack(t, small, platforms...)
	out := execute(t, nil, filepath.Join(tools, "validate-krew-manifest"), "-skip-install", "-manifest", filepath.Join(dir, krewFile))
	for _, want := range []string{"structural validation OK", "no overlapping spec.platform"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, krewFile))
	check.Equal(t, "error", nil, err)
	for _, p := range platforms {
		if !strings.Contains(string(manifest), "uri: "+base+"/"+p.Archive()+"\n") {
			t.Errorf("no address of %s in\n%s", p.Archive(), manifest)
		}
		install(t, tools, dir, p)
	}
}

// The plugin that krew installs on this machine runs.
func TestTheInstalledPluginRuns(t *testing.T) {
	product, this := small, platform{runtime.GOOS, runtime.GOARCH}
	product.program = "./cmd/kubectl-lockstep"
	dir := pack(t, product, this)
	out := execute(t, nil, install(t, krew(t), dir, this), "list", "--help")
	if !strings.Contains(out, "kubectl lockstep list -A") {
		t.Errorf("the plugin that was installed prints\n%s", out)
	}
}
