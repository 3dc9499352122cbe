// Which of the rights that are granted were used, by the audit log of the API server.

package operator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditOfRights are rules of an audit policy, by which the log has the answers to the requests of accounts, without bodies. A watch has two: when it begins and when it ends.
func AuditOfRights(users ...string) string {
	return fmt.Sprintf("\n- level: Metadata\n  users: [\"%s\"]\n- level: None\n", strings.Join(users, `", "`))
}

// UsedRights are those that accounts used by an audit log with AuditOfRights, by account and right.
func UsedRights(log string, users ...string) (map[string]map[string]bool, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := map[string]map[string]bool{}
	for _, user := range users {
		out[user] = map[string]bool{}
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		event := &audit.Event{}
		if err := json.Unmarshal(lines.Bytes(), event); err != nil {
			return nil, errors.Join(errors.New("the audit log is broken"), err)
		}
		granted := event.ResponseStatus != nil && event.ResponseStatus.Code != http.StatusForbidden
		if ref := event.ObjectRef; ref != nil && granted && out[event.User.Username] != nil {
			resource := strings.TrimSuffix(ref.Resource+"/"+ref.Subresource, "/")
			used := out[event.User.Username]
			used[Right(event.Verb, ref.APIGroup, resource)] = true
			if event.Verb == "watch" { // which has the list in it, where the API server streams lists; clients list where it does not
				used[Right("list", ref.APIGroup, resource)] = true
			}
		}
	}
	return out, lines.Err()
}
