// The contract: each write that the manager's role allows is struck by every fault, or the list says why not.

package chaos

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// undisturbed are the writes that no test here strikes, and why.
var undisturbed = map[string]string{
	"create authentication.k8s.io tokenreviews":        "it asks who somebody is, and changes nothing",
	"create authorization.k8s.io subjectaccessreviews": "the same",
	"create events.k8s.io events":                      "client-go sends events beside the manager's work, and tries again by itself",
	"patch events.k8s.io events":                       "the same",
	"update batch.volcano.sh jobs/finalizers":          "no request asks for it: an admission plugin does",
	"update lockstep.dev trainingjobs/finalizers":      "the same",
	"create lockstep.dev healthpolicies":               "once in the life of a cluster; every pass tries it again until there is one",
	"delete lockstep.dev nodehealths":                  "a day after a node is gone; every pass tries it again",
	"patch lockstep.dev nodehealths":                   "the receiver of alerts does it, which Alertmanager tells again",
}

// contractTable is a file for the table of what was struck where.
var contractTable = flag.String("contract.table", "", "a file for the table of the writes that were struck")

// disturbed tells, of each write, which faults have struck it, and in which lanes.
type disturbed struct {
	mu            sync.Mutex
	faults, lanes map[string]map[string]bool
}

var contract = disturbed{faults: map[string]map[string]bool{}, lanes: map[string]map[string]bool{}}

// note notes a call that a fault strikes in a lane.
func (d *disturbed) note(right, fault, lane string) {
	if right == "" {
		return // a read
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults[right] == nil {
		d.faults[right], d.lanes[right] = map[string]bool{}, map[string]bool{}
	}
	d.faults[right][fault] = true
	d.lanes[right][strings.TrimSuffix(lane, "-"+fault)] = true
}

// table tells of each write where it was struck, or why it was not.
func (d *disturbed) table() string {
	var b strings.Builder
	b.WriteString("# The writes of the manager\n\nEach is struck by each fault: " + strings.Join(slices.Sorted(maps.Keys(faults)), ", ") +
		".\nTwo of them leave some calls as they are: edited those about no job, and overtaken those that make an object.\nThis table is written by `make test-contract`.\n\n| write | struck in |\n| --- | --- |\n")
	for _, right := range slices.Sorted(maps.Keys(d.lanes)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", right, strings.Join(slices.Sorted(maps.Keys(d.lanes[right])), ", "))
	}
	b.WriteString("\n| write | why no fault strikes it |\n| --- | --- |\n")
	for _, right := range slices.Sorted(maps.Keys(undisturbed)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", right, undisturbed[right])
	}
	return b.String()
}

// check says which writes of the manager's role were not struck by every fault, where all tests have run.
func (d *disturbed) check() error {
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
		return nil
	}
	granted, err := operator.Rights()
	if err != nil {
		return err
	}
	var missing []string
	for _, right := range granted {
		verb, _, _ := strings.Cut(right, " ")
		if slices.Contains([]string{"get", "list", "watch"}, verb) || undisturbed[right] != "" {
			continue
		}
		for fault := range faults {
			if !d.faults[right][fault] {
				missing = append(missing, right+": "+fault)
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("writes that the manager may do, and faults that never struck them:\n%s", strings.Join(missing, "\n"))
	}
	if *contractTable == "" {
		return nil
	}
	return os.WriteFile(*contractTable, []byte(d.table()), 0o644) //nolint:gosec // a page that everybody may read
}

// right is what the API server has to grant for a call, as operator.Rights names it; empty for a read.
func (c call) right() string {
	if !c.write() {
		return ""
	}
	kind, err := apiutil.GVKForObject(c.obj, testCluster.Client().Scheme())
	if err != nil {
		panic(err) // the client could not have sent it
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return operator.Right(c.verb, resource.Group, strings.TrimSuffix(resource.Resource+"/"+c.sub, "/"))
}

// eachRight strikes the first call for each right that calls have used, but for those that were struck.
func (l *lane) eachRight(calls []call, struck map[string]bool, strike func(right string)) {
	l.t.Helper()
	rights := map[string]bool{}
	for _, c := range calls {
		rights[c.right()] = true
	}
	delete(rights, "")
	for _, right := range slices.Sorted(maps.Keys(rights)) {
		if struck[right] {
			continue
		}
		strike(right)
		if l.t.Failed() {
			l.t.Fatalf("where the first call to %s breaks", right)
		}
	}
}

// The list of what is not struck names no right that the role does not have.
func TestUndisturbedWritesAreGranted(t *testing.T) {
	granted, err := operator.Rights()
	if err != nil {
		t.Fatal(err)
	}
	for right := range undisturbed {
		if !slices.Contains(granted, right) {
			t.Errorf("the role does not grant %q", right)
		}
	}
}
