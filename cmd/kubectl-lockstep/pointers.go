package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/version"
)

// pointers are words that people try, and what does what they mean. They are not in the help.
var pointers = map[string]string{
	"delete":  "`kubectl delete trainingjob NAME` deletes a TrainingJob",
	"explain": "`kubectl lockstep why JOB` says why a job is in its state; `kubectl explain tj.spec` explains the fields",
	"get":     "`kubectl lockstep list` lists the TrainingJobs; `kubectl get tj NAME -o yaml` prints one",
	"status":  "`kubectl lockstep describe JOB` has the status of a job, and `kubectl lockstep list` of all",
}

// addPointers adds a hidden verb for each, and version.
func addPointers(c *cobra.Command, streams genericiooptions.IOStreams) {
	for name, meant := range pointers {
		c.AddCommand(&cobra.Command{
			Use: name, Hidden: true, Long: strings.Join(lines.Wrap(meant, lines.Width), "\n"), FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE: func(*cobra.Command, []string) error { return fmt.Errorf("there is no verb %s: %s", name, meant) },
		})
	}
	c.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version, as --version does", Hidden: true, Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { fmt.Fprintln(streams.Out, "kubectl lockstep", version.String()) },
	})
}
