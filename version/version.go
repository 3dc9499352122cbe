// Package version tells which version of Lockstep a program is.
package version

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
)

// String is the version of the module that the program was built from: a tag, or a pseudo-version that names the commit. It ends with
// +dirty where files had been changed. It is "unknown" where the program does not say.
func String() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// AddFlag adds the flag --version, which prints the version and ends the program.
func AddFlag(flags *flag.FlagSet) {
	flags.BoolFunc("version", "print the version and exit", func(string) error {
		fmt.Println(String())
		os.Exit(0)
		return nil
	})
}
