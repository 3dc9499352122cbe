package images

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations by which an archive names what it holds: to containerd, and to the tools that follow the OCI's image layout.
const (
	annotationContainerdName = "io.containerd.image.name"
	annotationRefName        = "org.opencontainers.image.ref.name"
)

// WriteArchive writes an image as an OCI archive of one image under a name such as lockstep-manager:dev.
func WriteArchive(path, ref string, image Image) error {
	built, err := image.Build()
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	return writeArchive(path, ref, built)
}

// writeArchive writes an image or an index as the one entry of an OCI archive.
func writeArchive(path, ref string, content mutate.Appendable) error {
	named, err := reference.ParseDockerRef(ref) // lockstep-manager:dev is docker.io/library/lockstep-manager:dev, as kubelets ask for it
	if err != nil {
		return fmt.Errorf("image %q: %w", ref, err)
	}
	tagged, isTagged := named.(reference.NamedTagged)
	if !isTagged {
		return fmt.Errorf("image %q has to be named by a tag", ref)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".oci-")
	if err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	defer os.RemoveAll(dir)
	descriptor := v1.Descriptor{Annotations: map[string]string{annotationContainerdName: named.String(), annotationRefName: tagged.Tag()}}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: content, Descriptor: descriptor})
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	if err := pack(path, os.DirFS(dir)); err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	return nil
}

// pack writes a folder as a tar.
func pack(path string, folder fs.FS) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return add(w, folder, name)
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}

func add(w *tar.Writer, folder fs.FS, name string) error {
	file, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
