package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// explainFlags says which flag may have been meant by one that a verb does not have.
func explainFlags(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	suggestion := didYouMean(unknown.GetSpecifiedName(), names, "--")
	if suggestion == "" {
		suggestion = fmt.Sprintf(": `%s --help` lists the flags", c.CommandPath())
	}
	return fmt.Errorf("%w%s", err, suggestion)
}

// suggestFlags has a verb that explains errors of its flags suggest flags, too.
func suggestFlags(c *cobra.Command) *cobra.Command {
	own := c.FlagErrorFunc()
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return explainFlags(c, own(c, err)) })
	return c
}

// explainSubmitFlags takes a flag that submit does not have, behind a second argument, for one of the command.
func explainSubmitFlags(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if before := c.Flags().Args(); errors.As(err, &unknown) && len(before) > 1 {
		return fmt.Errorf("%w: if it is a flag of the command, write -- before that: %s %s [flags] -- %s", err, c.CommandPath(), before[0], before[1])
	}
	if unknown != nil && otherNames[unknown.GetSpecifiedName()] != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, otherNames[unknown.GetSpecifiedName()])
	}
	return explainFlags(c, err)
}

// otherNames are what other programs call flags of submit.
var otherNames = map[string]string{
	"nodes": "workers", "replicas": "workers", "gpus-per-node": "gpus", "nproc-per-node": "gpus", "mem": "memory", "volume": "mount", "shm-size": "shm",
}
