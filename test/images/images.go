// Package images builds container images from scratch, without a daemon and without a registry: one
// layer of files, written as an archive that containerd imports.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is what an image holds and how it is run.
type Image struct {
	// Name is the image's reference, such as lockstep-manager:dev.
	Name string
	// Files are paths on this host by their paths in the image. Links are followed.
	Files map[string]string
	// Links are the targets of symbolic links by their paths in the image.
	Links map[string]string
	// Folders are empty folders of the image, such as mount points.
	Folders    []string
	Entrypoint []string
	Env        []string
	// User is a user or user:group by number; root by default.
	User string
}

// Write builds the image and writes it as an archive.
func (i Image) Write(archive string) error {
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return fmt.Errorf("image %q: %w", i.Name, err)
	}
	content, err := i.layer()
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	image, err = mutate.ConfigFile(image, i.config(image))
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return fmt.Errorf("writing image %s: %w", i.Name, err)
	}
	return nil
}

func (i Image) config(image v1.Image) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = runtime.GOARCH, "linux"
	config.Config.Entrypoint = i.Entrypoint
	config.Config.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/"}, i.Env...)
	config.Config.User = i.User
	return config
}

// layer is a tar of the image's files, in an order of their own.
func (i Image) layer() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	folders := map[string]bool{}
	for _, folder := range append([]string{"/tmp"}, i.Folders...) {
		if err := addFolder(w, folders, folder, 0o1777); err != nil {
			return nil, err
		}
	}
	for _, target := range sortedKeys(i.Links) {
		if err := addFolder(w, folders, path.Dir(target), 0o755); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: relative(target), Linkname: i.Links[target], Mode: 0o777}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	for _, target := range sortedKeys(i.Files) {
		if err := addFolder(w, folders, path.Dir(target), 0o755); err != nil {
			return nil, err
		}
		if err := addFile(w, target, i.Files[target]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

func addFolder(w *tar.Writer, done map[string]bool, folder string, mode int64) error {
	if folder == "/" || folder == "." || done[folder] {
		return nil
	}
	if err := addFolder(w, done, path.Dir(folder), 0o755); err != nil {
		return err
	}
	done[folder] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: relative(folder) + "/", Mode: mode})
}

func addFile(w *tar.Writer, target, source string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: relative(target), Mode: int64(info.Mode().Perm() | 0o444), Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

func relative(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// BuildProgram builds a Go program of the repository at root as a static binary and puts it into an
// image, whose archive it writes into dir and returns. The program is the entrypoint.
func BuildProgram(ctx context.Context, root, dir, pkg string, image Image) (archive string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	program := filepath.Base(pkg)
	binary := filepath.Join(dir, program)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, pkg)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	image.Files = map[string]string{"/" + program: binary}
	image.Entrypoint = []string{"/" + program}
	archive = binary + ".tar"
	return archive, image.Write(archive)
}
