// Compiling the programs.

package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Compile builds a Go program of the repository at root for linux and an architecture, as a static binary without debug information.
func Compile(ctx context.Context, root, pkg, architecture, binary string) error {
	return CompileFor(ctx, root, pkg, "linux", architecture, binary)
}

// CompileFor does the same for an operating system.
func CompileFor(ctx context.Context, root, pkg, system, architecture, binary string) error {
	return compile(ctx, root, pkg, architecture, binary, "CGO_ENABLED=0", "GOOS="+system)
}

// compileC builds one that links C: with the C compiler that Go knows for this machine's architecture, and with Debian's
// cross compiler for another.
func compileC(ctx context.Context, root, pkg, architecture, binary string) error {
	compiler, err := compilerFor(architecture)
	if err != nil {
		return fmt.Errorf("building %s for %s: %w", pkg, architecture, err)
	}
	return compile(ctx, root, pkg, architecture, binary, "CGO_ENABLED=1", "CC="+compiler)
}

func compile(ctx context.Context, root, pkg, architecture, binary string, env ...string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", binary, pkg)
	build.Dir = root
	build.Env = append(append(os.Environ(), "GOOS=linux", "GOARCH="+architecture), env...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", pkg, architecture, err, out)
	}
	return nil
}

// crossCompilers are the C compilers of Debian for another architecture, and their packages.
var crossCompilers = map[string]struct{ program, packages string }{
	"amd64": {"x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu and libc6-dev-amd64-cross"},
	"arm64": {"aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"},
}

func compilerFor(architecture string) (string, error) {
	if architecture == runtime.GOARCH {
		out, err := exec.Command("go", "env", "CC").Output()
		if err != nil {
			return "", err
		}
		compiler := strings.TrimSpace(string(out))
		if _, err := exec.LookPath(strings.Fields(compiler)[0]); err != nil {
			return "", fmt.Errorf("it links C, and the C compiler %s is not in PATH: install gcc and libc6-dev, or set CC", compiler)
		}
		return compiler, nil
	}
	cross, known := crossCompilers[architecture]
	if !known {
		return "", errors.New("it links C, and no C compiler is known for that architecture")
	}
	if _, err := exec.LookPath(cross.program); err != nil {
		return "", fmt.Errorf("it links C, and the C compiler %s is not in PATH: install %s, or leave this architecture out",
			cross.program, cross.packages)
	}
	return cross.program, nil
}

// compilerVersion is what a C compiler calls itself.
func compilerVersion(ctx context.Context, architecture string) (string, error) {
	compiler, err := compilerFor(architecture)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", compiler, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first, nil
}
