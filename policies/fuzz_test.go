// Fuzzing: whatever a job, its status and the world look like, a decision ends, is the same
// every time, changes nothing that it is given, and comes to rest.
//
//	go test ./policies -fuzz FuzzDecide -fuzztime 1m

package policies

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/rules"
)

// seeds are some inputs that plain `go test` runs.
func seeds(f *testing.F) {
	f.Helper()
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(*fuzzFrom, 0))
	for range *fuzzSeeds {
		story := make([]byte, rng.IntN(1500))
		for i := range story {
			story[i] = byte(rng.IntN(256))
		}
		f.Add(story)
	}
}

var (
	fuzzSeeds = flag.Int("fuzz-seeds", 500, "random inputs of the fuzz targets that are run without -fuzz")
	fuzzFrom  = flag.Uint64("fuzz-from", 1, "seed of these inputs")
)

// The first rule that matches decides, and none that comes after it has a say.
func FuzzRules(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data: data}
		var all []v1alpha1.Rule
		for i := range d.roll(6) {
			all = append(all, d.rule(fmt.Sprintf("r%d", i)))
		}
		fail := d.failure()
		found, ok := rules.Match(all, fail)
		first := slices.IndexFunc(all, func(r v1alpha1.Rule) bool { return rules.Matches(r.Match, fail) })
		if ok != (first >= 0) || (ok && found.Name != all[first].Name) {
			t.Fatalf("rule %q, %v, and the first that matches is %d", found.Name, ok, first)
		}
		more, _ := rules.Match(append(all, v1alpha1.Rule{Name: "last"}), fail)
		if ok && more.Name != found.Name {
			t.Errorf("with another rule at the end %q decides, and not %q", more.Name, found.Name)
		}
		if !ok && more.Name != "last" {
			t.Errorf("a rule without a match is passed over for %q", more.Name)
		}
		for _, r := range all {
			narrower := r.Match
			narrower.Tasks = []string{"no such task"}
			if rules.Matches(narrower, fail) {
				t.Errorf("%+v matches task %s", narrower, fail.Rank.Task)
			}
		}
	})
}

// restsWithin is how many times a decision may be made on its own result until it changes
// nothing any more.
const restsWithin = 6

func FuzzDecide(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		o := (&dice{data: data}).observation()
		before := copied(o)
		d := Decide(o)
		unchanged(t, "a decision", before, o)
		if o.Job.Spec.Supervisor != nil {
			checkEpoch(t, o, &d)
		}
		if again := Decide(o); !reflect.DeepEqual(d, again) {
			t.Fatal("two decisions on one observation differ: ", cmp.Diff(d, again, cmpopts.EquateEmpty()))
		}
		plan := PlanFor(o, &d.Status)
		unchanged(t, "a plan", before, o)
		if !reflect.DeepEqual(plan, PlanFor(o, &d.Status)) {
			t.Fatal("two plans for one status differ")
		}
		for _, gone := range plan.DeletePods {
			if !slices.ContainsFunc(o.Pods, func(p gang.Pod) bool { return p.UID == gone.UID && p.Name == gone.Name }) {
				t.Errorf("pod %+v is deleted and was not seen", gone)
			}
		}
		comesToRest(t, o, d)
	})
}

// comesToRest decides on what was decided, at the same time, until nothing changes.
func comesToRest(t *testing.T, o *gang.Observation, d Decision) {
	t.Helper()
	for range restsWithin {
		job := o.Job.DeepCopy()
		job.Status = written(d.Status)
		o.Job = job
		next := Decide(o)
		if equality.Semantic.DeepEqual(job.Status, next.Status) {
			return
		}
		d = next
	}
	spec, err := json.Marshal(o.Job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("spec %s, pods %+v, Volcano Jobs %+v, nodes %+v", spec, o.Pods, o.VolcanoJobs, o.Nodes)
	t.Error("decisions on one world do not come to rest: ", cmp.Diff(o.Job.Status, d.Status, cmpopts.EquateEmpty()))
}

func copied(o *gang.Observation) *gang.Observation {
	c := *o
	c.Job = o.Job.DeepCopy()
	c.Pods, c.VolcanoJobs, c.Nodes = slices.Clone(o.Pods), slices.Clone(o.VolcanoJobs), maps.Clone(o.Nodes)
	return &c
}

func unchanged(t *testing.T, what string, before, o *gang.Observation) {
	t.Helper()
	if !reflect.DeepEqual(before, o) {
		t.Fatalf("%s changes what it is given", what)
	}
}
