// What is in a package's file.

package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Content is what an image holds of a package, by paths in the image.
type Content struct {
	// Files are paths on this host.
	Files map[string]string
	// Links are targets of symbolic links.
	Links map[string]string
}

// Unpack puts the files of a package, after its checksum was compared, below a folder.
func (s Store) Unpack(ctx context.Context, p Package, architecture, dir string) (Content, error) {
	deb := filepath.Join(s.Dir, p.file(architecture))
	raw, err := os.ReadFile(deb)
	if err != nil {
		return Content{}, err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != p.SHA256[architecture] {
		return Content{}, fmt.Errorf("%s has the checksum %x, and images/debian/packages.yaml has %s: remove the file, it is another one",
			deb, sum, p.SHA256[architecture])
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return Content{}, errors.New("dpkg-deb is needed to unpack packages of Debian, and is not in PATH: install dpkg")
	}
	files, err := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb).Output()
	if err != nil {
		return Content{}, fmt.Errorf("unpacking %s: %w", deb, err)
	}
	content, err := p.pick(tar.NewReader(bytes.NewReader(files)), dir)
	if err != nil {
		return Content{}, fmt.Errorf("unpacking %s: %w", deb, err)
	}
	return content, nil
}

// pick writes the files of a package that its patterns name.
func (p Package) pick(files *tar.Reader, dir string) (Content, error) {
	out, unmatched := Content{Files: map[string]string{}, Links: map[string]string{}}, slices.Clone(p.Files)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Content{}, err
		}
		target := path.Join("/", header.Name)
		matches := func(pattern string) bool { ok, _ := path.Match(pattern, path.Base(target)); return ok }
		if header.Typeflag == tar.TypeDir || !slices.ContainsFunc(p.Files, matches) {
			continue
		}
		unmatched = slices.DeleteFunc(unmatched, matches)
		if header.Typeflag == tar.TypeSymlink {
			out.Links[target] = header.Linkname
			continue
		}
		source := filepath.Join(dir, filepath.FromSlash(target))
		if err := write(source, files, header.FileInfo().Mode().Perm()); err != nil {
			return Content{}, err
		}
		out.Files[target] = source
	}
	if len(unmatched) > 0 {
		return Content{}, fmt.Errorf("it has no file %s", strings.Join(unmatched, ", "))
	}
	return out, nil
}

func write(target string, content io.Reader, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close(), os.Chmod(target, mode))
}
