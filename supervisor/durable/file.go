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

// Overwrite replaces the content of a file in its place, for one that is mounted, over which nothing can be renamed, or for a disk that has no room for another file. Where there
// is no room for the content either, the file keeps what it has. A reader may find parts of both meanwhile, and a node that loses its power may keep the earlier content.
func Overwrite(file string, content []byte) error {
	was, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err = put(f, content); err != nil {
		err = errors.Join(err, put(f, was)) // which needs no room
	}
	return errors.Join(err, f.Close())
}

func put(f *os.File, content []byte) error {
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}
