package tenants

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/evidence"
)

var (
	attackFor = flag.Duration("tenants.attack", 20*time.Second, "how long the attackers attack, and how long it is quiet, half of it before and half after; from 10m on the two are compared")
	file      = flag.String("tenants.json", "", "the file into which TestAHostileTenant writes what it has seen")
)

// The bounds of what the manager keeps during an attack of any length.
const (
	// maxHeapKiB is an eighth of the memory that the manager is shipped with.
	maxHeapKiB = 256 << 10
	// maxGoroutines are what one connection takes, times all connections that there may be at once, and the manager's own.
	maxGoroutines = 3*connections*6 + 1000
	// maxQueueLabels are the queues of the attackers' namespace that there are series of: default, and unknown for all that do not exist.
	maxQueueLabels = 2
)

// half is one half of a run.
type half struct {
	// Decisions says how late the manager decided about failures of the other tenant, and Bystander how late a watch of those pods had
	// the failures.
	Decisions lateness `json:"decisions"`
	Bystander lateness `json:"bystander"`
	// Manager has the passes of the manager for all tenants.
	Manager passes `json:"manager"`
}

// outcome is what a run has seen.
type outcome struct {
	evidence.Tested
	// AttackSeconds is how long the attack was. It was quiet for as long: half of it before, and half after.
	AttackSeconds int `json:"attackSeconds"`
	// Attack counts what the attackers did.
	Attack   map[string]int64 `json:"attack"`
	Quiet    half             `json:"quiet"`
	Attacked half             `json:"attacked"`
	Growth   []growth         `json:"growth"`
	// Rows are minutes.
	Rows []row `json:"rows"`
}

// A user of one namespace does all that may cost the manager memory or time. What the manager keeps is bounded, and goes when the user's
// objects go, and the jobs of another namespace recover from each failure by one step.
func TestAHostileTenant(t *testing.T) {
	o := outcome{AttackSeconds: int(attackFor.Seconds())}
	if *file != "" {
		var err error
		o.Tested, err = evidence.Of(t.Context(), "make test-tenants", *file)
		must(t, err, "name what is tested")
	}
	user := newUser(t)
	w, stopWork := startWork(t)
	each := *attackFor / minutes
	began := timesNow(t)
	table := rows(t, quiet, 1, *attackFor/2, each)
	w.awaitFailure(t, quiet)

	before := timesNow(t)
	end := startAttack(t, user)
	w.enter(attack)
	attacked := rows(t, attack, 1, *attackFor, each)
	holdNothing(t)
	labels(t)
	w.awaitFailure(t, attack)
	w.enter(settle)
	during := timesNow(t)
	o.Attack = end()
	leave(t)
	calm := table[len(table)-1].sample
	await(t, "the manager keeps nothing of the attackers", func(ctx context.Context) error { return settled(ctx, calm) })
	w.enter(quiet)
	again := timesNow(t)
	after := rows(t, quiet, len(table)+1, *attackFor/2, each)
	ended := timesNow(t)
	if err := stopWork(); err != nil {
		t.Error("the other tenant:", err)
	}

	o.Rows = slices.Concat(table, attacked, after)
	o.Quiet.Decisions, o.Quiet.Bystander = w.lateness(quiet)
	o.Attacked.Decisions, o.Attacked.Bystander = w.lateness(attack)
	o.Quiet.Manager = before.plus(began, -1).plus(ended, 1).plus(again, -1).passes()
	o.Attacked.Manager = during.plus(before, -1).passes()
	t.Logf("in quiet %+v\nunder attack %+v\nthe attackers did %v", o.Quiet, o.Attacked, o.Attack)
	o.bounded(t, attacked)
	if *attackFor >= minutes*time.Minute {
		o.compare(t, attacked)
	}
	if *file != "" {
		must(t, evidence.Write(*file, o), "write what was seen")
	}
}

// timesNow are the times of the manager's passes so far.
func timesNow(t *testing.T) times {
	t.Helper()
	m, err := scrape(t.Context())
	must(t, err, "scrape the manager")
	return m.times()
}

// list are the counts by what they count.
func (c *counts) list() map[string]int64 {
	return map[string]int64{
		"jobsCreated": c.Jobs.Load(), "queueNames": c.Queues.Load(), "podsCreated": c.Pods.Load(), "restartRequests": c.Requests.Load(),
		"deletions": c.Deletions.Load(), "refusedByTheAPIServer": c.Refused.Load(), "connectionsToMetrics": c.MetricsConnections.Load(),
		"connectionsToAlerts": c.AlertConnections.Load(), "connectionsToSupervisors": c.SupervisorStream.Load(),
	}
}

// complete returns an error for what the attackers have not done. The API server need not refuse anything.
func complete(did map[string]int64) error {
	for what, n := range did {
		if n == 0 && what != "refusedByTheAPIServer" {
			return fmt.Errorf("the attackers did nothing of %s", what)
		}
	}
	return nil
}

// holdNothing checks that a job of the attackers was to hold nodes, and does not.
func holdNothing(t *testing.T) {
	t.Helper()
	await(t, "a job of the attackers is refused its holds", func(ctx context.Context) error {
		jobs := &v1alpha1.TrainingJobList{}
		if err := testCluster.Client().List(ctx, jobs, client.InNamespace(attackers)); err != nil {
			return err
		}
		for _, job := range jobs.Items {
			if meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionHoldsRefused) {
				return nil
			}
		}
		return fmt.Errorf("none of %d jobs is", len(jobs.Items))
	})
}

// labels checks that names of queues that do not exist are no labels.
func labels(t *testing.T) {
	t.Helper()
	m, err := scrape(t.Context())
	must(t, err, "scrape the manager")
	found := map[string]bool{}
	for name := range m {
		if _, rest, is := strings.Cut(name, `queue="`); is && strings.Contains(name, `namespace="`+attackers+`"`) {
			queue, _, _ := strings.Cut(rest, `"`)
			found[queue] = true
		}
	}
	if len(found) > maxQueueLabels {
		t.Errorf("the series of the attackers' namespace have the queues %v", found)
	}
}

// settled returns an error as long as the manager keeps something of the attackers.
func settled(ctx context.Context, calm sample) error {
	s, err := take(ctx)
	switch {
	case err != nil:
		return err
	case s.AttackersSeries > 0, s.AttackersTaints > 0:
		return fmt.Errorf("there are %d series and %d taints", s.AttackersSeries, s.AttackersTaints)
	case s.Goroutines > calm.Goroutines+calm.Goroutines/5+20, s.Files > calm.Files+20:
		return fmt.Errorf("there are %d goroutines and %d files, and were %d and %d", s.Goroutines, s.Files, calm.Goroutines, calm.Files)
	}
	return nil
}

// bounded checks what holds of an attack of any length.
func (o *outcome) bounded(t *testing.T, attacked []row) {
	t.Helper()
	var most sample
	for _, r := range attacked {
		most = most.with(r.sample)
	}
	if most.HeapKiB > maxHeapKiB {
		t.Errorf("%d KiB of heap, at most %d", most.HeapKiB, maxHeapKiB)
	}
	if most.Goroutines > maxGoroutines {
		t.Errorf("%d goroutines, at most %d", most.Goroutines, maxGoroutines)
	}
	if most.AttackersTaints > 0 {
		t.Errorf("the attackers hold %d nodes", most.AttackersTaints)
	}
	if err := complete(o.Attack); err != nil {
		t.Error(err)
	}
}

// compare checks what an attack of ten minutes may come to.
func (o *outcome) compare(t *testing.T, attacked []row) {
	t.Helper()
	for _, g := range []struct {
		what  string
		slack int
		of    func(sample) int
	}{
		{"heapKiB", 8 << 10, func(s sample) int { return s.HeapKiB }},
		{"series", 100, func(s sample) int { return s.Series }},
		{"attackersSeries", 0, func(s sample) int { return s.AttackersSeries }},
		{"taints", gangs * ranks, func(s sample) int { return s.Taints }},
		{"goroutines", 100, func(s sample) int { return s.Goroutines }},
		{"files", 50, func(s sample) int { return s.Files }},
	} {
		var byMinute []int
		for _, r := range attacked {
			byMinute = append(byMinute, g.of(r.sample))
		}
		o.Growth = append(o.Growth, growthOf(g.what, g.slack, byMinute))
	}
	for _, g := range o.Growth {
		if err := g.flat(); err != nil {
			t.Error(err)
		}
	}
	if q, a := o.Quiet.Decisions.P99Millis, o.Attacked.Decisions.P99Millis; a > 1.5*q {
		t.Errorf("99 of 100 decisions come within %.0f ms under attack, and within %.0f ms in quiet: it may be %.0f", a, q, 1.5*q)
	}
}
