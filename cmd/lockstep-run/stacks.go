package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/supervisor/ras"
	"github.com/lockstep-dev/lockstep/supervisor/stacks"
)

// printStacks prints what the program of this container does, or what NCCL RAS says of all ranks.
func printStacks(args []string) int {
	flags := flag.NewFlagSet("lockstep-run stacks", flag.ContinueOnError)
	force := flags.Bool("force", false, "ask programs that compute, too, which may end them")
	mesh := flags.Bool("ras", false, "print what NCCL RAS says of all ranks, and nothing else")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return codeUsage
	case flags.NArg() > 1:
		return misused(errors.New("stacks takes one folder at most: lockstep-run stacks [--force | --ras] [DIR]"))
	}
	if *mesh {
		report, err := ras.Ask(os.Environ())
		if err != nil {
			return failed(err)
		}
		fmt.Print(report)
		return 0
	}
	folder, err := folderOf(flags.Args())
	if err != nil {
		return failed(err)
	}
	text, err := stacks.Ask(folder, *force)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: no supervisor of this version has run here", err)
	}
	if err != nil {
		return failed(err)
	}
	fmt.Print(text)
	return 0
}

func folderOf(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	self, err := os.Executable()
	return filepath.Dir(self), err
}
