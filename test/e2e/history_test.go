// What the audit log of all tests shows, judged by package audit, which shares nothing with the manager.

package e2e

import (
	"fmt"
	"os"
	"strings"

	"github.com/lockstep-dev/lockstep/audit"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// checkHistory checks all that the manager has done in a run.
func checkHistory(log string) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	if keep := os.Getenv("LOCKSTEP_KEEP_AUDIT"); keep != "" {
		raw, _ := os.ReadFile(log)
		_ = os.WriteFile(keep, raw, 0o600)
	}
	report, err := audit.Check(file, audit.Options{Manager: operator.User})
	if err != nil {
		return fmt.Errorf("check the audit log: %w", err)
	}
	fmt.Fprintf(os.Stderr, "e2e: the audit log has %d writes, %d of them the manager's, of %d jobs and %d pods: %d violations\n",
		report.Lines, report.ByManager, report.Jobs, report.Pods, len(report.Violations))
	if len(report.Violations) == 0 {
		return nil
	}
	var all []string
	for _, v := range report.Violations {
		all = append(all, v.String())
	}
	return fmt.Errorf("the audit log shows that not all is as promised:\n%s", strings.Join(all, "\n"))
}
