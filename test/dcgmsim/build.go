// Package dcgmsim plays NVIDIA's DCGM: a libdcgm.so.4 in C whose host engine is a text
// file, so that the real go-dcgm runs against it where there is no GPU. It shows what the
// agent does with an answer of DCGM; what DCGM answers is DCGM's to test.
package dcgmsim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrNoCompiler says that the simulator cannot be built here.
var ErrNoCompiler = errors.New("no C compiler: set CC, or install cc")

// Build compiles the simulator into a folder and returns the path of the library. Functions
// that are named in without are not exported, as in a library of another version.
func Build(dir string, without ...string) (string, error) {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return "", ErrNoCompiler
	}
	// The package is asked for, and not its module: go list downloads a module for its packages alone.
	headers, err := run("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm/pkg/dcgm")
	if err != nil {
		return "", err
	}
	_, here, _, _ := runtime.Caller(0)
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(here), "libdcgm", "*.c"))
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("no sources of the simulator beside %s", here)
	}
	exports := filepath.Join(dir, "exports.map")
	if err := os.WriteFile(exports, []byte(exportMap(without)), 0o600); err != nil {
		return "", err
	}
	library := filepath.Join(dir, "libdcgm.so.4")
	// The soname is what a later dlopen("libdcgm.so.4") finds, wherever the file lies.
	args := append([]string{
		"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared",
		"-I", strings.TrimSpace(headers),
		"-Wl,-soname,libdcgm.so.4", "-Wl,--version-script," + exports,
		"-o", library,
	}, sources...)
	_, err = run(compiler, append(args, "-lpthread")...)
	return library, err
}

// exportMap is a linker's version script: DCGM's own names, less those left out.
func exportMap(without []string) string {
	local := append([]string{"sim*"}, without...)
	return "{ global: dcgm*; Dcgm*; errorString; local: " + strings.Join(local, "; ") + "; };\n"
}

func run(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return string(out), nil
}
