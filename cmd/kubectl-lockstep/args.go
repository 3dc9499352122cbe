package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// atMost refuses more than so many names.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, names []string) error {
		if len(names) <= n {
			return nil
		}
		return fmt.Errorf("%s is too many: write %s", strings.Join(names[n:], " "), c.UseLine())
	}
}
