package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// logged is a line of an audit log, as the API server writes it.
func logged(stage, verb, resource, subresource, name string, code int) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":%q,"verb":%q,`+
		`"user":{"username":"manager"},"objectRef":{"resource":%q,"subresource":%q,"name":%q},"responseStatus":{"code":%d}}`+"\n",
		stage, verb, resource, subresource, name, code)
}

func written(t *testing.T, log string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCount(t *testing.T) {
	const done = "ResponseComplete"
	log := strings.Join([]string{
		logged(done, "update", "trainingjobs", "status", "p4-lockstep0", 200),
		logged(done, "patch", "nodes", "", "p4-r0-n1", 200),
		logged(done, "delete", "pods", "", "p4-lockstep0-1-worker-2", 200),
		logged(done, "patch", "podgroups", "", "p4-lockstep0-1-aa", 200),
		logged(done, "patch", "pods", "", "p4-lockstep0-1-worker-2", 409),
		logged(done, "create", "jobs", "", "p4-lockstep0-1", 201),
		logged("Panic", "patch", "nodes", "", "p4-r0-n1", 200),
		logged(done, "patch", "nodes", "", "p48-r0-n1", 200),
		logged(done, "create", "commands", "", "", 201),
	}, "")
	unfinished := strings.TrimSuffix(logged(done, "patch", "nodes", "", "p4-r0-n3", 200), "\n")
	got, err := (auditLog{path: written(t, log+unfinished)}).since(0, "p4")
	if err != nil {
		t.Fatal(err)
	}
	want := calls{writes: 3, holds: 2, refused: 1, each: []call{
		{kind: "update trainingjobs/status", name: "p4-lockstep0"},
		{kind: "patch nodes", name: "p4-r0-n1"},
		{kind: "delete pods", name: "p4-lockstep0-1-worker-2"},
		{kind: "patch podgroups", name: "p4-lockstep0-1-aa"},
		{kind: "patch pods: 409", name: "p4-lockstep0-1-worker-2"},
		{kind: "create jobs", name: "p4-lockstep0-1"},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(calls{}, call{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCountOfWhatIsNoAuditLog(t *testing.T) {
	log := auditLog{path: written(t, "panic: out of disk\n")}
	if _, err := log.since(0, "p4"); err == nil || !strings.Contains(err.Error(), "out of disk") {
		t.Errorf("got %v, want an error that shows the line", err)
	}
}

func TestSinceAMark(t *testing.T) {
	log := auditLog{path: filepath.Join(t.TempDir(), "audit.log")}
	if c, err := log.since(log.mark(), "p4"); err != nil || c.writes != 0 {
		t.Fatalf("before the first line: %+v, %v", c, err)
	}
	line := logged("ResponseComplete", "delete", "pods", "", "p4-lockstep0-1-worker-2", 200)
	if err := os.WriteFile(log.path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	mark := log.mark()
	if err := os.WriteFile(log.path, []byte(line+line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := log.since(mark, "p4")
	if err != nil || c.writes != 2 {
		t.Errorf("got %d writes and %v, want 2", c.writes, err)
	}
}

func TestTimeline(t *testing.T) {
	from := time.Unix(100, 0)
	c := calls{each: []call{
		{"patch nodes", "a", from.Add(time.Second)}, {"delete pods", "x", from.Add(2 * time.Second)}, {"patch nodes", "b", from.Add(3 * time.Second)},
	}}
	want := "2 patch nodes (1.00–3.00 s), 1 delete pods (2.00–2.00 s)"
	if got := c.timeline(from); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
