package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Compile builds a Go program of the repository at root for linux and an architecture, as a static binary without debug information.
func Compile(ctx context.Context, root, pkg, architecture, binary string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, pkg)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", pkg, architecture, err, out)
	}
	return nil
}

// BuildProgram builds a Go program of the repository at root and puts it into an image for this machine, whose archive it writes
// into dir and returns. The program is the entrypoint.
func BuildProgram(ctx context.Context, root, dir, pkg, ref string, image Image) (archive string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, filepath.Base(pkg))
	if err := Compile(ctx, root, pkg, image.architecture(), binary); err != nil {
		return "", err
	}
	archive = binary + ".tar"
	return archive, WriteArchive(archive, ref, image.with(binary))
}

// with is an image that runs a program.
func (i Image) with(binary string) Image {
	target := "/" + filepath.Base(binary)
	i.Files, i.Entrypoint = map[string]string{target: binary}, []string{target}
	return i
}
