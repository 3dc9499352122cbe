package dist

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"time"
)

// file is what goes into an archive: under its name, with the content of a path.
type file struct {
	name, path string
	mode       fs.FileMode
}

// epoch is the time of files that were not built from a commit: the earliest that a zip can say.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// archive packs files in the format of a platform. Nothing of it depends on the machine or on the time.
func archive(p Platform, at time.Time, files []file) ([]byte, error) {
	if at.IsZero() {
		at = epoch
	}
	at = at.UTC().Truncate(time.Second)
	var out bytes.Buffer
	pack := tarGzip
	if p.OS == "windows" {
		pack = zipped
	}
	err := pack(&out, at, files)
	return out.Bytes(), err
}

func tarGzip(out *bytes.Buffer, at time.Time, files []file) error {
	compressed := gzip.NewWriter(out)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), compressed.Close())
}

func zipped(out *bytes.Buffer, at time.Time, files []file) error {
	w := zip.NewWriter(out)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(content); err != nil {
			return err
		}
	}
	return w.Close()
}
