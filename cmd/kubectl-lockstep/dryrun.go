package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dryRun is the flag --dry-run, with kubectl's words: whether a change is made, and where it is only tried.
type dryRun string

const (
	dryRunNone   dryRun = "none"
	dryRunClient dryRun = "client"
	dryRunServer dryRun = "server"
)

func (d *dryRun) addFlag(c *cobra.Command) {
	*d = dryRunNone
	c.Flags().Var(d, "dry-run", "none, client or server. With client nothing is sent, and with server the API server tries the change and keeps nothing")
	complete := cobra.FixedCompletions([]string{string(dryRunNone), string(dryRunClient), string(dryRunServer)}, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("dry-run", complete); err != nil {
		panic(err) // the flag is defined above
	}
}

// String implements pflag.Value.
func (d *dryRun) String() string { return string(*d) }

// Type implements pflag.Value.
func (d *dryRun) Type() string { return "strategy" }

// Set implements pflag.Value.
func (d *dryRun) Set(value string) error {
	switch *d = dryRun(value); *d {
	case dryRunNone, dryRunClient, dryRunServer:
		return nil
	}
	return errors.New("it has to be none, client or server")
}

// suffix is what kubectl writes behind a change that was only tried.
func (d *dryRun) suffix() string {
	switch *d {
	case dryRunClient:
		return " (dry run)"
	case dryRunServer:
		return " (server dry run)"
	}
	return ""
}

// fieldOwner is the manager of the fields that the plugin writes.
const fieldOwner = client.FieldOwner("kubectl-lockstep")

// patch sends a merge patch of an object, unless nothing is to be sent.
func (c *cluster) patch(ctx context.Context, object client.Object, merge string, d dryRun) error {
	options := []client.PatchOption{fieldOwner}
	switch d {
	case dryRunClient:
		return nil
	case dryRunServer:
		options = append(options, client.DryRunAll)
	}
	return c.writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(merge)), options...)
}
