// Package durable writes files that outlive a container, which may be killed at any moment.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Write replaces a file as a whole: whoever reads it finds the earlier content or this one. Only the user of the process may read it.
func Write(file string, content []byte) error {
	next, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // once it is renamed there is none
	if _, err := next.Write(content); err != nil {
		next.Close()
		return err
	}
	if err := errors.Join(next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
