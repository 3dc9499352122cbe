package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/supervisor/stacks"
)

// printStacks prints what the program of this container does.
func printStacks(args []string) int {
	if len(args) > 1 {
		return misused(errors.New("stacks takes one folder at most: lockstep-run stacks [DIR]"))
	}
	folder, err := folderOf(args)
	if err != nil {
		return failed(err)
	}
	text, err := stacks.Ask(folder)
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
