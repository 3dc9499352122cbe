package signals

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/check"
)

// suffer injects, and plays agent and job until the job's first step, or for as long as the timeout:
// every ten seconds until an incident opens, and then every thirty.
func (n *node) suffer(r *health.Row, timeout time.Duration, too ...func()) (outcome, *job) {
	n.Helper()
	n.polls(3)
	if got := names(n.reports()); len(got) > 0 {
		n.Fatalf("reports of a node that is well: %q", got)
	}
	in, j := n.inject(r), aJob(n.now)
	n.heal = in.heal
	for _, do := range too {
		do()
	}
	reported := 0
	for polls, until := 0, n.now.Add(timeout); n.now.Before(until) && j.action() == ""; polls++ {
		if polls < in.polls {
			in.now()
		}
		if reported > 0 {
			n.now = n.now.Add(2 * every)
		}
		n.poll()
		j.hear(n.now, n.reports())
		if _, open := j.incident(); open && reported == 0 {
			reported = polls + 1
		}
	}
	out := outcome{id: r.ID, injected: in.says, state: string(r.State), signal: r.Signal, entity: nameOf(r), event: "none", action: "none", polls: reported}
	if inc, open := j.incident(); open {
		check.Equal(n.T, "signal of the incident", r.Signal, inc.Cause.Signal)
		out.event = fmt.Sprintf("`%s`", inc.Trigger)
		if action := j.action(); action != "" {
			out.action = fmt.Sprintf("%s (%s)", action, inc.Rule)
		}
	}
	return out, j
}

// wantMoved checks that the report is the row's and concerns whom it should, and that the pod that
// holds what is ill is moved, and no other.
func (n *node) wantMoved(r *health.Row, j *job) {
	n.Helper()
	reports := n.reports()
	i := slices.IndexFunc(reports, func(h v1alpha1.HealthReport) bool { return h.Signal == r.Signal })
	if i < 0 {
		n.Fatalf("reports %q, want %s", names(reports), r.Signal)
	}
	check.Equal(n.T, "state", r.State, reports[i].State)
	check.Equal(n.T, "entity", nameOf(r), reports[i].Entity)
	whom := ""
	if r.Entity == health.KindGPU || r.Entity == health.KindNVLink {
		whom = concerned
	}
	check.Equal(n.T, "pods", whom, strings.Join(reports[i].Pods, " "))
	check.Equal(n.T, "moved", concerned, strings.Join(j.moved(), " "))
	if out := j.Job.Status.ExcludedNodes; len(out) != 1 || out[0].Name != "n1" {
		n.Errorf("nodes to keep away from: %+v, want n1", out)
	}
}

// recover undoes what was injected, and sees to it that the fault ends as the row says, and not before.
func (n *node) recover(r *health.Row) string {
	n.Helper()
	n.heal()
	quiet := max(r.QuietFor.Duration, window(r))
	has := func(when string, want bool) {
		n.Helper()
		if got := slices.ContainsFunc(n.reports(), func(h v1alpha1.HealthReport) bool { return h.Signal == r.Signal }); got != want {
			n.Errorf("%s: reported %v, want %v", when, got, want)
		}
	}
	if r.Clears != health.ClearsOnRecovery {
		if n.polls(1); quiet > time.Minute {
			has("well again", true)
		}
		n.now = n.now.Add(quiet)
		n.polls(5)
		has("well for long enough", false)
		if quiet == 0 {
			return "itself"
		}
		return "itself, " + short(quiet) + " later"
	}
	n.now = n.now.Add(25 * time.Hour)
	n.polls(5)
	has("well for a day", true)
	n.reboot()
	n.now = n.now.Add(11 * time.Minute)
	n.polls(5)
	has("after a boot", false)
	return "recovery"
}

// window is how long an increase is remembered.
func window(r *health.Row) time.Duration {
	switch {
	case r.When.Increase != nil:
		return r.When.Increase.Within.Duration
	case r.When.Rate != nil:
		return r.When.Rate.Within.Duration
	}
	return 0
}

// nameOf is what a report calls the entity with the fault.
func nameOf(r *health.Row) string {
	switch {
	case strings.HasPrefix(r.ID, "port-"):
		return "nic/mlx5_0/1"
	case r.Entity == health.KindNIC:
		return fmt.Sprintf("nic/connectx-%d", adapter)
	}
	return map[health.Kind]string{
		health.KindGPU: "gpu/" + uuid, health.KindNVLink: "nvlink/" + uuid + "/0", health.KindSwitch: "switch/0", health.KindNode: "node",
	}[r.Entity]
}

func names(reports []v1alpha1.HealthReport) []string {
	var all []string
	for _, r := range reports {
		all = append(all, fmt.Sprintf("%s %s %s", r.Entity, r.Signal, r.State))
	}
	return all
}

// overridden is the default table with a row changed.
func overridden(t *testing.T, rows string) *health.Table {
	t.Helper()
	table, err := health.ParseOverrides(health.Default(), map[string][]byte{"test.yaml": []byte(rows)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func short(d time.Duration) string {
	s := d.String()
	s = strings.TrimSuffix(strings.Replace(s, "m0s", "m", 1), "0s")
	return strings.Replace(s, "h0m", "h", 1)
}
