// How a child process is tied to this one elsewhere than on Linux: only by Stop.

//go:build !linux

package cluster

import "syscall"

func childAttributes(Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
