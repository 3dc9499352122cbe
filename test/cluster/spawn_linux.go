// How a child process is tied to this one on Linux.

package cluster

import "syscall"

// childAttributes puts a child in a process group of its own, so that an interrupt typed at the
// terminal reaches only us and we end the children in order, and has the kernel kill it when the
// thread that started it ends, which is when we are gone, whatever ended us.
func childAttributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: c.Namespaces}
}
