// The log: lines of audit.k8s.io/v1, as the API server writes them.

package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// entry is one request that was answered.
type entry struct {
	log  int       // of several, from 0
	line int       // in the file, from 1
	done time.Time // when the request was done, at the latest

	AuditID                  string          `json:"auditID"`
	Stage                    string          `json:"stage"`
	RequestURI               string          `json:"requestURI"`
	Verb                     string          `json:"verb"`
	User                     user            `json:"user"`
	ImpersonatedUser         *user           `json:"impersonatedUser"`
	ObjectRef                *reference      `json:"objectRef"`
	ResponseStatus           *answer         `json:"responseStatus"`
	RequestObject            json.RawMessage `json:"requestObject"`
	ResponseObject           json.RawMessage `json:"responseObject"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time       `json:"stageTimestamp"`
}

type user struct {
	Username string `json:"username"`
}

type reference struct {
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

type answer struct {
	Code int `json:"code"`
}

// maxLine is the longest line that is read, in bytes: a request may have 3 MiB, and so may the answer.
const maxLine = 16 << 20

// errNoBodies is why a log says nothing.
var errNoBodies = errors.New("the log has no objects: the audit policy has to have level RequestResponse for pods, nodes and trainingjobs")

// read returns the requests of logs that changed something, in the order in which they were done, each once. A last line of a log that
// is cut off is left out.
func read(logs []io.Reader) ([]entry, error) {
	var out []entry
	bodies, seen := false, map[string]bool{}
	for at, log := range logs {
		entries, err := readOne(log)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			e := &entries[i]
			if e.AuditID != "" && seen[e.AuditID] {
				continue
			}
			seen[e.AuditID] = true
			bodies, e.log = bodies || len(e.ResponseObject) > 0, at
			out = append(out, *e)
		}
	}
	if len(out) > 0 && !bodies {
		return nil, errNoBodies
	}
	order(out)
	return out, nil
}

func readOne(from io.Reader) ([]entry, error) {
	var out []entry
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 1<<20), maxLine)
	n := 0
	var bad error
	for lines.Scan() {
		n++
		if bad != nil {
			return nil, bad // it was not the last line
		}
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		e := entry{line: n}
		if err := json.Unmarshal(text, &e); err != nil {
			bad = fmt.Errorf("line %d is no event of an audit log: %w", n, err)
			continue
		}
		if !e.changes() {
			continue
		}
		out = append(out, e)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	case len(out) == 0 && bad != nil:
		return nil, bad
	}
	return out, nil
}

// changes reports whether a request was answered and may have changed an object.
func (e *entry) changes() bool {
	switch {
	case e.Stage != "ResponseComplete" || e.ObjectRef == nil || e.ResponseStatus == nil:
		return false
	case e.isDryRun():
		return false
	case !e.isUnsure() && (e.ResponseStatus.Code < 200 || e.ResponseStatus.Code >= 300):
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// isDryRun reports whether a request asks for nothing to be done: by its address or, as some deletions, by its content.
func (e *entry) isDryRun() bool {
	if address, err := url.Parse(e.RequestURI); err == nil && address.Query().Has("dryRun") {
		return true
	}
	var options struct {
		DryRun []string `json:"dryRun"`
	}
	return strings.HasPrefix(e.Verb, "delete") && json.Unmarshal(e.RequestObject, &options) == nil && len(options.DryRun) > 0
}

// by is who made a request: of one that speaks for somebody else, that user.
func (e *entry) by() string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

// isUnsure reports whether a request may have been done although it was answered with an error, as where its client was killed.
func (e *entry) isUnsure() bool { return e.ResponseStatus.Code >= 500 }
