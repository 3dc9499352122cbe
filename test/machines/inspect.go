//go:build linux

package machines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Path is a path on a machine, as the host reaches it. The process is the machine's init.
func Path(init int, path string) string { return fmt.Sprintf("/proc/%d/root%s", init, path) }

// Service returns the id, on the host, of the machine's service that runs a program such as kubelet.
// The process is the machine's init.
func Service(init int, program string) (int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", init))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if errors.Is(err, fs.ErrNotExist) {
			continue // That thread has just ended.
		}
		if err != nil {
			return 0, err
		}
		for child := range strings.FieldsSeq(string(children)) {
			executable, err := os.Readlink(filepath.Join("/proc", child, "exe"))
			if err == nil && filepath.Base(executable) == program {
				return strconv.Atoi(child)
			}
		}
	}
	return 0, fmt.Errorf("the machine runs no %s at the moment", program)
}
