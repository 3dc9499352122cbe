// Package images builds container images without a daemon and without a registry: a layer of files, from scratch,
// written as an OCI archive that containerd, podman and skopeo read.
package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is what an image of one platform holds and how it is run. The same files come to the same digest.
type Image struct {
	// Architecture is that of the files, such as arm64; this machine's by default.
	Architecture string
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
	// Labels describe the image (org.opencontainers.image.source and others).
	Labels map[string]string
	// Created is when what the image holds was made; never by default.
	Created time.Time
}

// Build makes the image.
func (i Image) Build() (v1.Image, error) {
	content, err := i.layer()
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(emptyImage(), mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "lockstep", Created: v1.Time{Time: i.Created}}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, i.config(config.DeepCopy()))
}

func (i Image) architecture() string { return cmp.Or(i.Architecture, runtime.GOARCH) }

// emptyImage is one without layers, in the OCI's format.
func emptyImage() v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
}

// config says how the image is run.
func (i Image) config(config *v1.ConfigFile) *v1.ConfigFile {
	config.OS, config.Created = "linux", v1.Time{Time: i.Created}
	config.Architecture = i.architecture()
	config.Config.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/"}, i.Env...)
	config.Config.Entrypoint, config.Config.Cmd = i.Entrypoint, nil
	config.Config.User, config.Config.Labels = i.User, i.Labels
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
	for _, target := range slices.Sorted(maps.Keys(i.Links)) {
		if err := addFolder(w, folders, path.Dir(target), 0o755); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: relative(target), Linkname: i.Links[target], Mode: 0o777}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(i.Files)) {
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
	mode := int64(0o644) // whatever the umask of who builds
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: relative(target), Mode: mode, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

func relative(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }
