// Command lockstep-run runs the program of a rank in its container, and restarts it in place together with its gang.
package main

import (
	"fmt"
	"os"

	"github.com/lockstep-dev/lockstep/version"
)

// Exit codes of the supervisor itself; any other is the program's.
const (
	codeUsage  = 2
	codeFailed = 125 // as of env and timeout
)

const usage = `lockstep-run runs the program of a rank, and restarts it in place together with its gang.

Usage:
  lockstep-run run [flags] -- COMMAND [ARGS...]   run a program; 'lockstep-run run -h' lists the flags
  lockstep-run install DIR                        copy this binary to DIR/lockstep-run
  lockstep-run stacks [--force | --ras] [DIR]     print where the program is; DIR is the folder of --epoch-file, by default that of this binary.
                                                  --force asks programs that compute, too, which may end them; --ras prints what NCCL RAS says of all ranks
  lockstep-run version                            print the version
`

func main() { os.Exit(execute(os.Args[1:])) }

func execute(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return codeUsage
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "install":
		return install(args[1:])
	case "stacks":
		return printStacks(args[1:])
	case "version", "-version", "--version":
		fmt.Println(version.String())
		return 0
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return 0
	}
	return misused(fmt.Errorf("%q is no command: use run, install, stacks or version", args[0]))
}

func misused(err error) int {
	fmt.Fprintln(os.Stderr, "lockstep-run:", err)
	return codeUsage
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "lockstep-run:", err)
	return codeFailed
}
