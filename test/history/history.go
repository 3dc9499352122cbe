// Package history has each run of tests on a cluster judged by the API server's audit log: package audit reads it, which shares nothing
// with the manager.
package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/audit"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
)

// keepVariable names a folder in which the audit log of each run is kept, for who wants to look into it.
const keepVariable = "LOCKSTEP_KEEP_AUDIT"

// Log is the audit log of one run.
type Log struct {
	// Path is where the API server writes it.
	Path string
	// PodLogs is a folder with the logs of pods, as a kubelet has them, from which what supervisors logged is checked; empty for none.
	PodLogs string
	// Others are where further API servers of the cluster write theirs. A server that was not started has none.
	Others []string
	// run is the name of the tests.
	run string
}

// Of has the API server of a cluster that is about to start log what package audit needs, into a file in a folder. Further rules say what
// else is logged, as text that continues the list in config/audit/policy.yaml.
func Of(o *cluster.Options, dir, rules string) (Log, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return Log{}, err
	}
	policy, err := os.ReadFile(filepath.Join(root, "config", "audit", "policy.yaml"))
	if err != nil {
		return Log{}, err
	}
	o.AuditPolicy = string(policy) + rules
	o.AuditLog = filepath.Join(dir, "audit.log")
	return Log{Path: o.AuditLog, run: o.Name}, nil
}

// Check returns an error that names each promise that the manager has not kept in the run, and says on standard error how much there was
// to check. Where there is one, the log is kept.
func (l Log) Check() error {
	logs, closeAll, err := l.open()
	if err != nil {
		return err
	}
	defer closeAll()
	options := audit.Options{Manager: operator.User}
	if l.PodLogs != "" {
		options.PodLogs = os.DirFS(l.PodLogs)
	}
	var read []io.Reader
	for _, log := range logs {
		read = append(read, log)
	}
	report, err := audit.Check(options, read...)
	if err != nil {
		return fmt.Errorf("check the audit log: %w", err)
	}
	fmt.Fprintf(os.Stderr, "%s: the audit log has %d writes, %d of them the manager's, of %d jobs and %d pods, and there are %d reports of supervisors: %d violations\n",
		l.run, report.Lines, report.ByManager, report.Jobs, report.Pods, report.Reports, len(report.Violations))
	if len(report.Violations) == 0 && os.Getenv(keepVariable) == "" {
		return nil
	}
	kept, err := l.keepAll(logs)
	if err != nil || len(report.Violations) == 0 {
		return err
	}
	var all []string
	for _, v := range report.Violations {
		all = append(all, v.String())
	}
	return fmt.Errorf("the audit log, which is kept as %s, shows that promises were not kept:\n%s", kept, strings.Join(all, "\n"))
}

// open opens the logs of the API servers that were started.
func (l Log) open() ([]io.ReadSeeker, func(), error) {
	var logs []io.ReadSeeker
	var files []*os.File
	closeAll := func() {
		for _, file := range files {
			_ = file.Close()
		}
	}
	for _, path := range append([]string{l.Path}, l.Others...) {
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) && path != l.Path {
			continue
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		logs, files = append(logs, file), append(files, file)
	}
	return logs, closeAll, nil
}

// keepAll keeps each log.
func (l Log) keepAll(logs []io.ReadSeeker) (string, error) {
	var all []string
	for _, log := range logs {
		kept, err := l.keep(log)
		if err != nil {
			return "", err
		}
		all = append(all, kept)
	}
	return strings.Join(all, " and "), nil
}

// keep copies a log to where it outlives the run, and returns its path.
func (l Log) keep(log io.ReadSeeker) (string, error) {
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	to, err := os.CreateTemp(os.Getenv(keepVariable), "lockstep-audit-"+l.run+"-*.log")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, log)
	if closed := to.Close(); err == nil {
		err = closed
	}
	return to.Name(), err
}
