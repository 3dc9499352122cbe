package images

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Libraries are the shared libraries that a program of this host needs, as files of an image: each
// keeps its path, where the dynamic linker looks for it.
func Libraries(program string) (map[string]string, error) {
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the libraries of %s: %w", program, err)
	}
	files := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		// A line is "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)", or "/lib64/ld-linux-x86-64.so.2 (0x…)".
		for field := range strings.FieldsSeq(lines.Text()) {
			if filepath.IsAbs(field) {
				files[field] = field
			}
		}
	}
	return files, nil
}
