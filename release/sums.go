// The checksums of a release.

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sumsFile lists the SHA-256 of each other file, as sha256sum prints and checks them. It is what a publisher signs.
const sumsFile = "SHA256SUMS"

// writeSums lists the files of a folder.
func writeSums(dir string) error {
	names, err := filesOf(dir)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(out.String()), 0o644)
}

// checkSums checks that a folder has the files of its list, each as it is listed, and no other, and returns how many there are.
func checkSums(dir string) (int, error) {
	list, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return 0, err
	}
	names, err := filesOf(dir)
	if err != nil {
		return 0, err
	}
	listed := map[string]string{}
	var wrong []string
	for line := range strings.Lines(string(list)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return 0, fmt.Errorf("%s has a line %q that is no sum and name", sumsFile, line)
		}
		if _, twice := listed[name]; twice {
			return 0, fmt.Errorf("%s lists %s twice", sumsFile, name)
		}
		listed[name] = sum
		if !slices.Contains(names, name) {
			wrong = append(wrong, name+" is missing")
		}
	}
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		switch listed[name] {
		case sum:
		case "":
			wrong = append(wrong, name+" is not listed")
		default:
			wrong = append(wrong, name+" is not what was published")
		}
	}
	if len(wrong) > 0 {
		return 0, fmt.Errorf("%s differs from its %s:\n%s", dir, sumsFile, strings.Join(wrong, "\n"))
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("%s lists nothing", sumsFile)
	}
	return len(names), nil
}

// filesOf are the names of what is in a folder besides the list, sorted.
func filesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		if e.Name() != sumsFile {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// sumOf is the SHA-256 of a regular file, in hexadecimal.
func sumOf(path string) (string, error) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
