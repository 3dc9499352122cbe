// Audit: what the manager asked the API server to change, by the server's own account.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"
)

// policy has the API server write one line for each request of the manager that is no read, and
// none for Events and leases. Nobody else is logged, so that it costs neither side anything.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
  - {group: coordination.k8s.io, resources: [leases]}
- level: Metadata
  users: [` + managerName + `]
`

func writePolicy(dir string) (string, error) {
	file := filepath.Join(dir, "audit-policy.yaml")
	return file, os.WriteFile(file, []byte(policy), 0o600)
}

// calls are the requests that made up one recovery.
type calls struct {
	// writes that changed something, but for the next ones.
	writes int
	// holds are the writes that keep the place: taints of nodes, the PodGroup's phase.
	holds int
	// refused are those that the server did not carry out: a conflict, or gone already.
	refused int
	// each of them, in order, for whoever looks for the reason of a figure.
	each []string
}

func (c calls) plus(d calls) calls {
	return calls{c.writes + d.writes, c.holds + d.holds, c.refused + d.refused, append(c.each, d.each...)}
}

// auditLog is the file that the API server writes.
type auditLog struct{ path string }

// mark is the log's present end.
func (l auditLog) mark() int64 {
	info, err := os.Stat(l.path)
	if err != nil {
		return 0 // it begins with the first line
	}
	return info.Size()
}

// since counts the requests after a mark that concern a pool: its nodes and its jobs' objects all
// have names that begin with its own.
func (l auditLog) since(mark int64, pool string) (calls, error) {
	file, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return calls{}, nil
	}
	if err != nil {
		return calls{}, err
	}
	defer file.Close()
	if _, err := file.Seek(mark, io.SeekStart); err != nil {
		return calls{}, err
	}
	return count(file, pool)
}

func count(log io.Reader, pool string) (calls, error) {
	var sum calls
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return sum, nil // a line without an end is still being written
		}
		if err != nil {
			return sum, err
		}
		event := audit.Event{}
		if err := json.Unmarshal(line, &event); err != nil {
			return sum, fmt.Errorf("audit log: %w: %s", err, line)
		}
		if event.ObjectRef != nil && strings.HasPrefix(event.ObjectRef.Name, pool+"-") {
			sum = sum.plus(tally(&event))
		}
	}
}

func tally(e *audit.Event) calls {
	if e.Stage != audit.StageResponseComplete || e.ResponseStatus == nil {
		return calls{}
	}
	c := calls{each: []string{fmt.Sprintf("%s %s %s: %d",
		e.Verb, path.Join(e.ObjectRef.Resource, e.ObjectRef.Subresource), e.ObjectRef.Name, e.ResponseStatus.Code)}}
	switch {
	case e.ResponseStatus.Code >= 300:
		c.refused = 1
	case e.ObjectRef.Resource == "nodes" || e.ObjectRef.Resource == "podgroups":
		c.holds = 1
	default:
		c.writes = 1
	}
	return c
}
