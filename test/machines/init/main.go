//go:build linux

// Command init is the first process of a machine, and the helper processes beside it:
//
//	init boot CONFIG    be a machine: mounts, network, services
//	init router         be a network that routes between machines, until killed
//	init janitor NAME   remove what machines leave behind once standard input is closed
//
// boot and router expect to be started in namespaces of their own.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/lockstep-dev/lockstep/test/machines"
)

func main() {
	// Namespaces belong to threads: every step of boot happens on the first one.
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name one of boot, enter, router, janitor")
	}
	switch command, args := args[0], args[1:]; {
	case command == "boot" && len(args) == 1:
		return joinCgroups(args[0])
	case command == "enter" && len(args) == 1:
		return enter(args[0])
	case command == "router" && len(args) == 0:
		return router()
	case command == "janitor" && len(args) == 2:
		return machines.CleanUp(os.Stdin, args[0], args[1])
	default:
		return fmt.Errorf("%s %q: not understood", command, args)
	}
}
