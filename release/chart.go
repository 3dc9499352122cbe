// The chart, and the manifests that it renders.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// manifestsFile is the name of the rendered manifests. krew's manifest is in the same folder, and its name is given.
const manifestsFile = "manifests.yaml"

// chart packs the chart, and renders it as manifests for those who do not use Helm.
func (r release) chart(ctx context.Context, c commit, dir string) error {
	version := strings.TrimPrefix(c.tag, "v")
	if _, err := r.command(ctx, r.helm, "package", "charts/lockstep", "--destination", dir, "--version", version, "--app-version", c.tag); err != nil {
		return err
	}
	chart := filepath.Join(dir, "lockstep-"+version+".tgz")
	packed, err := os.ReadFile(chart)
	if err != nil {
		return err
	}
	if packed, err = dated(packed, c.at); err != nil {
		return err
	}
	if err := os.WriteFile(chart, packed, 0o644); err != nil {
		return err
	}
	manifests, err := r.command(ctx, r.helm, "template", "lockstep", chart, "--namespace", "lockstep-system", "--include-crds", "--kube-version", "1.33",
		"--set", "namespace.create=true,crds.keep=false",
		"--set", "manager.image.repository="+r.repository("lockstep-manager"),
		"--set", "agent.image.repository="+r.repository("lockstep-health-agent"),
		"--set", "supervisors.image.repository="+r.repository("lockstep-run"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestsFile), manifests, 0o644)
}

// dated is a tar.gz whose files have the time of the commit in place of that at which they were packed.
func dated(archive []byte, at time.Time) ([]byte, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	var files []entry
	for from := tar.NewReader(unpacked); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return tarGzip(at, files)
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(from)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{header.Name, fs.FileMode(header.Mode), content})
	}
}
