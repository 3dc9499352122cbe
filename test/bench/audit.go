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
	"time"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// policy has the API server write one line for each request of the manager that is no read, and
// none for leases. Nobody else is logged, so that it costs neither side anything.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: Metadata
  users: [` + operator.User + `]
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
	// each of them, in order.
	each []call
}

// call is one request and its answer.
type call struct {
	// kind is the verb and the resource; a refused request has its code, too.
	kind, name string
	at         time.Time
}

// timeline says how many calls of each kind there were, and when the first and the last of them came in, counted from a time.
func (c calls) timeline(from time.Time) string {
	var kinds []string
	byKind := map[string][]call{}
	for _, one := range c.each {
		if byKind[one.kind] == nil {
			kinds = append(kinds, one.kind)
		}
		byKind[one.kind] = append(byKind[one.kind], one)
	}
	for i, kind := range kinds {
		of := byKind[kind]
		kinds[i] = fmt.Sprintf("%d %s (%s–%s s)", len(of), kind, seconds(of[0].at.Sub(from)), seconds(of[len(of)-1].at.Sub(from)))
	}
	return strings.Join(kinds, ", ")
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
func (l auditLog) since(mark int64, pool string) (sum calls, err error) {
	err = l.read(mark, func(e *audit.Event) {
		if !isEvent(e) && strings.HasPrefix(e.ObjectRef.Name, pool+"-") {
			sum = sum.plus(tally(e))
		}
	})
	return sum, err
}

// read hands on each request after a mark that the server has answered.
func (l auditLog) read(mark int64, note func(*audit.Event)) error {
	file, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(mark, io.SeekStart); err != nil {
		return err
	}
	return answered(file, note)
}

func answered(log io.Reader, note func(*audit.Event)) error {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // a line without an end is still being written
		}
		if err != nil {
			return err
		}
		event := audit.Event{}
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("audit log: %w: %s", err, line)
		}
		if event.Stage == audit.StageResponseComplete && event.ResponseStatus != nil && event.ObjectRef != nil {
			note(&event)
		}
	}
}

// isEvent reports whether a request writes an Event. An Event's name begins with that of its object.
func isEvent(e *audit.Event) bool { return e.ObjectRef.Resource == "events" }

// kindOf is what a request does to what.
func kindOf(e *audit.Event) string {
	return e.Verb + " " + path.Join(e.ObjectRef.Resource, e.ObjectRef.Subresource)
}

func tally(e *audit.Event) calls {
	kind, c := kindOf(e), calls{}
	switch {
	case e.ResponseStatus.Code >= 300:
		kind = fmt.Sprintf("%s: %d", kind, e.ResponseStatus.Code)
		c.refused = 1
	case e.ObjectRef.Resource == "nodes" || e.ObjectRef.Resource == "podgroups":
		c.holds = 1
	default:
		c.writes = 1
	}
	c.each = []call{{kind, e.ObjectRef.Name, e.RequestReceivedTimestamp.Time}}
	return c
}
