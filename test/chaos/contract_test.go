// The contract: each write that the manager's role allows is struck by every fault, or the list says why not.

package chaos

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/lockstep-dev/lockstep/test/operator"
)

// undisturbed are the writes that no test here strikes, and why.
var undisturbed = map[string]string{
	"create authentication.k8s.io tokenreviews":        asksOnly,
	"create authorization.k8s.io subjectaccessreviews": asksOnly,
	"create events":                               isOfEvents,
	"create events.k8s.io events":                 isOfEvents,
	"patch events":                                isOfEvents,
	"patch events.k8s.io events":                  isOfEvents,
	"patch coordination.k8s.io leases":            "no request asks for it: client-go updates the Lease",
	"create kueue.x-k8s.io workloads":             isKueues,
	"delete kueue.x-k8s.io workloads":             isKueues,
	"patch kueue.x-k8s.io workloads":              isKueues,
	"patch kueue.x-k8s.io workloads/status":       isKueues,
	"update batch.volcano.sh jobs/finalizers":     isAdmissions,
	"update lockstep.dev trainingjobs/finalizers": isAdmissions,
}

const (
	asksOnly     = "it asks who somebody is, and changes nothing"
	isKueues     = "Kueue does not run here: test/kueue has it away while it is written to"
	isOfEvents   = "client-go sends events beside the manager's work, and tries again by itself"
	isAdmissions = "no request asks for it: an admission plugin does"
)

// contractTable is a file for the table of what was struck where. Where it is asked for, each write is refused for each reason, and each fault strikes every call.
var contractTable = flag.String("contract.table", "", "a file for the table of the writes that were struck")

// disturbed tells, of each write, which faults have struck it, for which reasons it was refused, and in which lanes.
type disturbed struct {
	mu                     sync.Mutex
	faults, reasons, lanes map[string]map[string]bool
}

var contract = disturbed{faults: map[string]map[string]bool{}, reasons: map[string]map[string]bool{}, lanes: map[string]map[string]bool{}}

// note notes that a fault strikes the k-th call of a lane.
func (d *disturbed) note(right string, f fault, k int, lane string) {
	if right == "" {
		return // a read
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults[right] == nil {
		d.faults[right], d.reasons[right], d.lanes[right] = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	d.faults[right][f.name] = true
	d.lanes[right][strings.TrimSuffix(lane, "-"+f.name)] = true
	if f.reason != nil {
		d.reasons[right][string(f.reason(k))] = true
	}
}

// table tells of each write where it was struck, or why it was not.
func (d *disturbed) table() string {
	var b strings.Builder
	b.WriteString("# The writes of the manager\n\nThe manager's roles allow these writes. Each is struck by each fault: " + strings.Join(slices.Sorted(maps.Keys(faults)), ", ") +
		".\nTwo of them leave some calls as they are: edited those about no job, and overtaken those that make an object.\nThis table is written by `make test-contract`.\n\n| write | struck in | refused with |\n| --- | --- | --- |\n")
	for _, right := range slices.Sorted(maps.Keys(d.lanes)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", right, sorted(d.lanes[right]), sorted(d.reasons[right]))
	}
	return b.String() + tableOfUndisturbed()
}

func tableOfUndisturbed() string {
	var b strings.Builder
	b.WriteString("\n| write | why no fault strikes it |\n| --- | --- |\n")
	for _, right := range slices.Sorted(maps.Keys(undisturbed)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", right, undisturbed[right])
	}
	return b.String()
}

func sorted(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// check says which writes of the manager's roles were not struck by every fault, where all tests have run.
func (d *disturbed) check() error {
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
		return nil
	}
	granted, err := grantedWrites()
	if err != nil {
		return err
	}
	var missing []string
	for _, right := range granted {
		if undisturbed[right] != "" {
			continue
		}
		missing = append(missing, d.missing(right)...)
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

// missing are the faults that have not struck a write, and where the table is asked for, the reasons for which it was not refused.
func (d *disturbed) missing(right string) (out []string) {
	for fault := range faults {
		if !d.faults[right][fault] {
			out = append(out, right+": "+fault)
		}
	}
	for _, reason := range reasons {
		if *contractTable != "" && !d.reasons[right][string(reason)] {
			out = append(out, right+": "+refused+" with "+string(reason))
		}
	}
	return out
}

// grantedWrites are the writes that the manager's roles allow.
func grantedWrites() ([]string, error) {
	granted, err := operator.Rights(operator.User)
	return slices.DeleteFunc(granted, func(right string) bool {
		verb, _, _ := strings.Cut(right, " ")
		return slices.Contains([]string{"get", "list", "watch"}, verb)
	}), err
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

// hasStruck reports whether a fault has struck a write in any lane. Where the table is asked for, each lane strikes all of its own.
func (d *disturbed) hasStruck(right string, f fault) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *contractTable == "" && d.faults[right][f.name]
}

// notYet has a fault strike each write.
func notYet(string, fault) bool { return false }

// eachRight has a fault strike the first call for each right that calls have used, but for those that it was seen to strike.
func (l *lane) eachRight(calls []call, struck func(right string, f fault) bool, f fault, strike func(right string, f fault)) {
	l.t.Helper()
	rights := map[string]bool{}
	for _, c := range calls {
		rights[c.right()] = true
	}
	delete(rights, "")
	for _, right := range slices.Sorted(maps.Keys(rights)) {
		if struck(right, f) {
			continue
		}
		for _, f := range f.each() {
			strike(right, f)
			if l.t.Failed() {
				l.t.Fatalf("where the first call to %s breaks", right)
			}
		}
	}
}

// The list of what is not struck names no right that the manager does not have.
func TestUndisturbedWritesAreGranted(t *testing.T) {
	granted, err := operator.Rights(operator.User)
	if err != nil {
		t.Fatal(err)
	}
	for right := range undisturbed {
		if !slices.Contains(granted, right) {
			t.Errorf("no role grants %q", right)
		}
	}
}

// The page has a line for each write that the manager's roles allow, and the reasons for those that no fault strikes.
func TestThePageNamesEachWrite(t *testing.T) {
	if *contractTable != "" {
		t.Skip("this run writes it")
	}
	want, err := grantedWrites()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("contract.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		got = append(got, line[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the writes of contract.md (-want +got), which make test-contract writes:\n%s", diff)
	}
	if !strings.HasSuffix(string(page), tableOfUndisturbed()) {
		t.Errorf("contract.md should end with these reasons, which make test-contract writes:\n%s", tableOfUndisturbed())
	}
}
