package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/audit"
)

func newAudit(streams genericiooptions.IOStreams) *cobra.Command {
	var output format
	var options audit.Options
	var podLogs string
	c := &cobra.Command{
		Use:   "audit FILE...",
		Short: "Check by the API server's audit log what Lockstep has done",
		Long: `Check by the audit log of the API server that Lockstep has kept its promises: no rank ran twice, no working
pod was deleted without a step that asked for it, no hold outlived its job. The check shares no code with the
manager. It needs the audit policy of config/audit/policy.yaml, and reads no cluster. FILE may be - for stdin.

Several files are one log, in any order: those that an API server has rotated, with .gz those that it has packed, and
those of other API servers. Lines are counted through them.

Exit codes:
  0  all that the log shows is as it should be
  1  the log could not be read, or has no objects
  2  something is not; each line names the rule, and the line of the log`,
		Example: `  # A log of the API server
  kubectl lockstep audit /var/log/kubernetes/audit.log

  # The logs of two API servers, which have been rotated
  kubectl lockstep audit server-1/audit*.log* server-2/audit*.log*`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if podLogs != "" {
				options.PodLogs = os.DirFS(podLogs)
			}
			report, err := auditFiles(streams.In, args, options)
			if err != nil {
				return err
			}
			return output.judge(cmd, report, len(report.Violations) > 0, func() error { printAudit(streams.Out, report); return nil })
		},
	}
	c.Flags().StringVar(&options.Manager, "manager", "", "the user name of the manager; default: that of the ServiceAccount lockstep-manager in the namespace lockstep-system")
	c.Flags().IntVar(&options.Max, "max", 0, "how many findings to print at most; default: 100")
	c.Flags().StringVar(&podLogs, "pod-logs", "", "a folder of pods' logs, as kubelets keep them in /var/log/pods: what supervisors have logged there is checked, too")
	output.addFlag(c)
	return c
}

// auditFiles checks files as one log. Check sorts requests by their time, so the order of the files does not matter.
func auditFiles(stdin io.Reader, names []string, options audit.Options) (*audit.Report, error) {
	logs := make([]io.Reader, len(names))
	for i, name := range names {
		if name == "-" {
			logs[i] = stdin
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		logs[i] = file
		if strings.HasSuffix(name, ".gz") {
			if logs[i], err = gzip.NewReader(file); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	report, err := audit.Check(options, logs...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(names, ", "), err)
	}
	return report, nil
}

func printAudit(out io.Writer, r *audit.Report) {
	for _, v := range r.Violations {
		fmt.Fprintln(out, v)
	}
	if r.Lines == 0 {
		fmt.Fprintln(out, "The log has no request that changed anything.")
		return
	}
	findings, reports := "all as it should be", ""
	if n := len(r.Violations); n > 0 {
		findings = fmt.Sprintf("%d findings", n)
	}
	if r.Reports > 0 {
		reports = fmt.Sprintf(", and %d reports of supervisors", r.Reports)
	}
	fmt.Fprintf(out, "%d writes from %s to %s, %d of them by the manager, of %d TrainingJobs and %d pods%s: %s (%s).\n",
		r.Lines, r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339), r.ByManager, r.Jobs, r.Pods, reports, findings, strings.Join(r.Rules, ", "))
}
