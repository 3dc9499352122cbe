package main

import (
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// line is one of an audit log: the manager writes the status of a job that has failed.
const line = `{"stage":"ResponseComplete","verb":"update","user":{"username":"system:serviceaccount:lockstep-system:lockstep-manager"},` +
	`"objectRef":{"resource":"trainingjobs","namespace":"ml","name":"llama"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-02T03:04:05Z",` +
	`"responseObject":{"metadata":{"name":"llama","namespace":"ml","uid":"a-b","resourceVersion":"1"},` +
	`"status":{"conditions":[{"type":"Failed","status":"True"}],"incidents":[{"id":1,"outcome":"OUTCOME"}]}}}`

func TestAudit(t *testing.T) {
	tests := map[string]struct {
		log, out string
		err      error
	}{
		"all is as it should be": {strings.Replace(line, "OUTCOME", "Failed", 1), "1 of them by the manager, of 1 TrainingJobs and 0 pods: all as it should be", nil},
		"an incident is open":    {strings.Replace(line, "OUTCOME", "", 1), "line 1, 2026-01-02T03:04:05Z: Incidents: job llama has ended, and its incident 1 is open", errProblems},
		"nothing":                {"", "The log has no request that changed anything.", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			if err := os.WriteFile(file, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := lockstep("audit", file)
			if !errors.Is(err, tc.err) || !strings.Contains(out, tc.out) {
				t.Errorf("got %v and\n%s", err, out)
			}
		})
	}
}

// An incident ends in a file that is older, packed, and named last: it is not reopened.
func TestAuditOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	live, rotated := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit-2026-01-02.log.gz")
	later := strings.NewReplacer("OUTCOME", "", "03:04:05Z", "03:05:05Z", `"resourceVersion":"1"`, `"resourceVersion":"2"`).Replace(line)
	if err := os.WriteFile(live, []byte(later+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(rotated)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	_, err = packed.Write([]byte(strings.Replace(line, "OUTCOME", "Failed", 1) + "\n"))
	if err := errors.Join(err, packed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := lockstep("audit", live, rotated)
	const changed = "line 1, 2026-01-02T03:05:05Z: Incidents: "
	if !errors.Is(err, errProblems) || !strings.Contains(out, changed) || !strings.Contains(out, "2 writes from 2026-01-02T03:04:05Z to 2026-01-02T03:05:05Z") {
		t.Errorf("got %v and\n%s", err, out)
	}
	if _, err := lockstep("audit", live, filepath.Join(dir, "none.log")); err == nil || !strings.Contains(err.Error(), "none.log") {
		t.Errorf("of a file that does not exist: %v", err)
	}
}

func TestAuditOfPodLogs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	if err := os.WriteFile(file, []byte(strings.Replace(line, "OUTCOME", "Failed", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lockstep("audit", file, "--pod-logs", dir); err == nil || !strings.Contains(err.Error(), "there is no log like NAMESPACE_POD_UID/CONTAINER/0.log") {
		t.Errorf("got %v", err)
	}
	logs := filepath.Join(dir, "ml_llama-1-worker-0_uid", "worker")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "0.log"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := lockstep("audit", file, "--pod-logs", dir); err != nil || !strings.Contains(out, "OneEpoch") {
		t.Errorf("got %v and\n%s", err, out)
	}
}
