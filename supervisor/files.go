// The files of a container: the epoch that outlives it, and its termination message.

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/supervisor/durable"
)

// messageLimit is how much of a termination message the kubelet takes, in bytes.
const messageLimit = 4096

// readEpoch returns the epoch that an earlier container of the pod has kept, and whether there was one.
func readEpoch(file string) (kept int64, found bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("the epoch of an earlier container: %w", err)
	}
	kept, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("the epoch of an earlier container: %s has %q, which is no number: remove the file", file, text)
	}
	return kept, true, nil
}

// writeEpoch keeps an epoch. On a disk that is full, the file of an earlier one has room for it.
func writeEpoch(file string, e int64) error {
	content := fmt.Appendln(nil, e)
	err := durable.Write(file, content)
	if err == nil || durable.Overwrite(file, content) == nil {
		return nil
	}
	return err
}

// terminationMessage is the end of what the program has written; empty where it has not.
func (s *supervisor) terminationMessage() string {
	size := messageSize(s.TerminationLog)
	if size == 0 {
		return ""
	}
	f, err := os.Open(s.TerminationLog)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, max(0, size-messageLimit), messageLimit))
	return strings.ToValidUTF8(string(text), "") // the wire takes nothing else, and the first character may be cut
}

// messageSize is 0 for anything but a file: to open a pipe may take for ever.
func messageSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// clearTerminationLog keeps the message of an earlier program from being taken for that of the next.
func (s *supervisor) clearTerminationLog() {
	if messageSize(s.TerminationLog) == 0 {
		return
	}
	if err := os.Truncate(s.TerminationLog, 0); err != nil {
		s.Log.Warn("Cannot clear the termination message", "error", err)
	}
}
