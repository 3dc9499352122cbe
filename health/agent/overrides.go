// Overrides: files of rows over the default table, such as a mounted ConfigMap, read again when
// they change.

package agent

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"github.com/lockstep-dev/lockstep/health"
)

// Overrides are the files of a folder.
type Overrides struct {
	// Dir is the folder; nil for none.
	Dir fs.FS

	files map[string][]byte
	table *health.Table
	err   error
}

// Table is the default table with the files over it, and why those of now are not in it: then it
// is the last one that was good. It is the same one, and the same error, until a file changes.
func (o *Overrides) Table() (*health.Table, error) {
	if o.table == nil {
		o.table = health.Default()
	}
	if o.Dir == nil {
		return o.table, nil
	}
	files, err := readFiles(o.Dir)
	if err != nil {
		o.files, o.err = nil, fmt.Errorf("overrides cannot be read: %w", err)
		return o.table, o.err
	}
	if o.files != nil && maps.EqualFunc(files, o.files, bytes.Equal) {
		return o.table, o.err
	}
	o.files, o.err = files, nil
	table, err := health.ParseOverrides(health.Default(), files)
	if err != nil {
		o.err = fmt.Errorf("overrides are refused: %w", err)
		return o.table, o.err
	}
	o.table = table
	return o.table, nil
}

// readFiles reads a folder. What begins with two dots is the kubelet's, which swaps the whole
// content of a mounted ConfigMap by a link of such a name (its atomic_writer.go).
func readFiles(dir fs.FS) (map[string][]byte, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if files[e.Name()], err = fs.ReadFile(dir, e.Name()); err != nil {
			return nil, err
		}
	}
	return files, nil
}
