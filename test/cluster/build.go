// Building the control plane's binaries from Go modules, once, into a cache.

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// BinariesVariable names a folder of prebuilt binaries that is used instead of building.
const BinariesVariable = "LOCKSTEP_CLUSTER_BIN"

// recipe is part of the cache's key: raise it when the way of building below changes.
const recipe = "3"

// Binaries is a folder that holds the control plane's programs, and one with the manifests
// (CRDs, webhook configurations, stages) that belong to their versions.
type Binaries struct {
	Dir    string
	Assets string
}

// Path is that of a program, by its name.
func (b Binaries) Path(name string) string { return filepath.Join(b.Dir, name) }

// Build makes what is missing of the control plane's programs, of the tools that are named, and of the manifests, and says on
// progress what it does. Several processes may call it at once: one builds, the others wait for it.
func Build(ctx context.Context, progress io.Writer, tools ...string) (Binaries, error) {
	wanted, err := programs(tools)
	if err != nil {
		return Binaries{}, err
	}
	return build(ctx, progress, wanted)
}

// BuildAll makes what is missing of the control plane's programs and of all tools.
func BuildAll(ctx context.Context, progress io.Writer) (Binaries, error) {
	return build(ctx, progress, append(controlPlane(), tools()...))
}

// BuildNodes makes what is missing of the programs that real nodes need besides.
func BuildNodes(ctx context.Context, progress io.Writer) (Binaries, error) {
	return build(ctx, progress, nodeBinaries())
}

func build(ctx context.Context, progress io.Writer, wanted []binary) (Binaries, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return Binaries{}, err
	}
	modules := filepath.Join(root, "test", "cluster", "binaries")
	key, err := cacheKey(modules)
	if err != nil {
		return Binaries{}, err
	}
	cache := filepath.Join(root, ".cache", "cluster", "bin", key)
	built := Binaries{Dir: cache, Assets: filepath.Join(cache, assetsFolder)}
	prebuilt := os.Getenv(BinariesVariable)
	if prebuilt != "" {
		built.Dir = prebuilt
		if err := checkPrebuilt(prebuilt, wanted); err != nil {
			return Binaries{}, err
		}
	}

	if err := makeCache(root, cache); err != nil {
		return Binaries{}, fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, ".lock"))
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if prebuilt == "" {
		if err := buildMissing(ctx, modules, cache, progress, wanted); err != nil {
			return Binaries{}, err
		}
	}
	return built, prepareAssets(ctx, modules, built, progress)
}

// makeCache makes the folder, and has git ignore all that is beside it.
func makeCache(root, cache string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, ".cache", "cluster", ".gitignore"), []byte("*\n"), 0o644)
}

func checkPrebuilt(dir string, wanted []binary) error {
	var missing []string
	for _, b := range wanted {
		if info, err := os.Stat(filepath.Join(dir, b.name)); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, b.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s=%s has no executable file %s: put it there, or unset %s to have everything built",
			BinariesVariable, dir, strings.Join(missing, ", "), BinariesVariable)
	}
	return nil
}

func buildMissing(ctx context.Context, modules, cache string, progress io.Writer, wanted []binary) error {
	var missing []binary
	for _, b := range wanted {
		if _, err := os.Stat(filepath.Join(cache, b.name)); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, b)
		}
	}
	for i, b := range missing {
		fmt.Fprintf(progress, "cluster: building %s (%d of %d)\n", b.name, i+1, len(missing))
		began := time.Now()
		if err := buildOne(ctx, filepath.Join(modules, b.module), b, filepath.Join(cache, b.name)); err != nil {
			return fmt.Errorf("building %s: %w", b.name, err)
		}
		fmt.Fprintf(progress, "cluster: built %s in %s\n", b.name, time.Since(began).Round(time.Second))
	}
	return nil
}

// buildOne builds beside the target and renames, so that a build cut short leaves no half binary.
func buildOne(ctx context.Context, dir string, b binary, target string) error {
	flags := []string{"-s", "-w"}
	if b.stamped != "" {
		version, err := goCommand(ctx, dir, "list", "-m", "-f", "{{.Version}}", b.version)
		if err != nil {
			return err
		}
		flags = append(flags, stamps(b, version)...)
	}
	partial := target + ".partial"
	if _, err := goCommand(ctx, dir, "build", "-buildvcs=false", "-tags", b.tags, "-ldflags", strings.Join(flags, " "), "-o", partial, b.pkg); err != nil {
		return err
	}
	return os.Rename(partial, target)
}

// stamps are the linker flags that give a binary its version, as the projects' own builds do.
func stamps(b binary, version string) []string {
	flags := []string{fmt.Sprintf("-X %s=%s", b.stamped, version)}
	if b.version == kubernetes {
		numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
		flags = append(flags,
			fmt.Sprintf("-X %s.gitMajor=%s", kubeVersion, numbers[0]),
			fmt.Sprintf("-X %s.gitMinor=%s", kubeVersion, numbers[1]),
			fmt.Sprintf("-X k8s.io/client-go/pkg/version.gitVersion=%s", version))
	}
	return flags
}

// goCommand runs the go command in one of the binaries' modules, whatever workspace or flags the
// caller has, and returns what it printed.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	out, err := outputOf(cmd)
	return strings.TrimSpace(string(out)), err
}

func output(ctx context.Context, path string, args ...string) ([]byte, error) {
	return outputOf(exec.CommandContext(ctx, path, args...))
}

// outputOf runs a command to its end; the error of one that fails holds what it complained of.
func outputOf(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return out, nil
}

// cacheKey changes whenever a pinned version, the way of building or one of our own programs does.
func cacheKey(modules string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, recipe, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, module := range []string{".", "kwok", "helm", "alerting", "dns", "tracing", "kueue"} {
		programs, err := filepath.Glob(filepath.Join(modules, module, "*.go"))
		if err != nil {
			return "", err
		}
		for _, file := range append(programs, filepath.Join(modules, module, "go.mod"), filepath.Join(modules, module, "go.sum")) {
			content, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("reading the pinned versions: %w", err)
			}
			hash.Write(content)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// RepositoryRoot finds the repository from the working folder upwards: tests run in their
// package's folder, the command wherever it was called.
func RepositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "cluster", "binaries", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no Lockstep repository at or above %s: run this inside one", start)
		}
	}
}

// ModuleDir is the folder of the source of a module that one of the binaries' modules pins.
func ModuleDir(ctx context.Context, pinnedBy, module string) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	return goCommand(ctx, filepath.Join(root, "test", "cluster", "binaries", pinnedBy), "list", "-m", "-f", "{{.Dir}}", module)
}
