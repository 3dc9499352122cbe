// Reading the end of a log, for error messages.

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	tailBytes = 32 << 10
	tailLines = 20
)

// tail is the last lines of a file, indented; it never fails, since it is part of an error already.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("    (no log: %v)", err)
	}
	defer file.Close()
	if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil && !errors.Is(err, os.ErrInvalid) {
		// The file is shorter than that: read it whole.
		_, _ = file.Seek(0, io.SeekStart)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Sprintf("    (unreadable log: %v)", err)
	}
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	lines = lines[max(0, len(lines)-tailLines):]
	return "    " + string(bytes.Join(lines, []byte("\n    ")))
}
