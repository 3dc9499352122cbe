package fleetmap

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(hours int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(-hours) * time.Hour)) }

// twoRacks is two racks with one node each of several kinds, and a node that is in none.
func twoRacks() *Fleet {
	f := &Fleet{
		Topology: topology.New([]topology.HyperNode{
			{Name: "rack-2", Tier: 1, Nodes: []string{"gpu-2", "gpu-10"}}, {Name: "rack-10", Tier: 1, Nodes: []string{"gpu-3", "gpu-4"}},
			{Name: "spine", Tier: 2, Nodes: []string{"gpu-10", "gpu-2", "gpu-3", "gpu-4"}},
		}),
		Nodes: []Node{
			{Name: "gpu-10", GPUs: 8, GPUsUsed: 8, Quarantined: true}, {Name: "gpu-2", GPUs: 8, GPUsUsed: 4, Holds: []string{"hold.lockstep.dev/llama-70b-1a2b3c4d"}},
			{Name: "gpu-3", GPUs: 8, NotReady: true, Cordoned: true}, {Name: "gpu-4", GPUs: 8}, {Name: "login"},
		},
		Unread: []string{"The pods could not be read."},
	}
	f.sort()
	return f
}

func health(name string, s v1alpha1.NodeHealthStatus) v1alpha1.NodeHealth {
	return v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: s}
}

func healths() []v1alpha1.NodeHealth {
	return []v1alpha1.NodeHealth{
		health("gpu-10", v1alpha1.NodeHealthStatus{
			Reports: []v1alpha1.HealthReport{
				{Source: "dcgm", Entity: "node", Signal: "FanSlow", State: v1alpha1.HealthStateDegraded, Since: ago(9)},
				{Source: "dcgm", Entity: "gpu/GPU-a", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: ago(3)},
			},
			Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, Since: ago(3), QuarantinedTime: new(ago(3)), Lemon: true},
		}),
		health("gpu-2", v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, Since: ago(5)}}),
		health("gpu-4", v1alpha1.NodeHealthStatus{
			Sources: []v1alpha1.HealthSource{{Name: "dcgm", State: v1alpha1.HealthUnknown, Message: "the host engine does not answer"}, {Name: "alertmanager", State: v1alpha1.HealthHealthy}},
			Verdict: &v1alpha1.HealthVerdict{State: v1alpha1.HealthUnknown, Since: ago(1), HeldBackBy: "cluster", HeldBackTime: new(ago(1))},
		}),
	}
}

func printed(t *testing.T, f *Fleet, healths []v1alpha1.NodeHealth, name string, unhealthy bool) string {
	t.Helper()
	f.AddHealth(healths)
	nodes, err := f.List(name, unhealthy)
	check.Equal(t, "error", nil, err)
	var out bytes.Buffer
	nodes.Print(&out, 80, now)
	return out.String()
}

func TestWhichJobsHaveNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TrainingJob)
		want   bool
	}{
		"a job that was placed": {func(*v1alpha1.TrainingJob) {}, true},
		"one that waits for Kueue": {func(j *v1alpha1.TrainingJob) {
			j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue})
		}, false},
		"one that is suspended":       {func(j *v1alpha1.TrainingJob) { j.Spec.Suspend = true }, false},
		"one that was not placed":     {func(j *v1alpha1.TrainingJob) { j.Status.Placement = nil }, false},
		"one of another controller's": {func(j *v1alpha1.TrainingJob) { j.Spec.ManagedBy = "kueue.x-k8s.io/multikueue" }, false},
	} {
		job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{Placement: &v1alpha1.Placement{}}}
		tc.change(job)
		check.Equal(t, name, tc.want, HasNodes(job))
	}
}

func TestTheListOfNodes(t *testing.T) {
	check.Equal(t, "table", `HYPERNODE  NODE    READY        STATE    SINCE  QUARANTINE  GPUS  HELD-FOR
rack-2     gpu-2   yes          Healthy  5h     -           4/8   llama-70b
rack-2     gpu-10  yes          Failed   3h     3h,lemon    8/8   -
  XID79 of gpu/GPU-a (Failed, 3h), FanSlow of node (Degraded, 9h)
rack-10    gpu-3   no,cordoned  -        -      -           0/8   -
rack-10    gpu-4   yes          Unknown  60m    held back   0/8   -
  dcgm cannot tell: the host engine does not answer
-          login   yes          -        -      -           -     -
The pods could not be read.
`, printed(t, twoRacks(), healths(), "", false))
}

func TestWhenAQuarantineEnds(t *testing.T) {
	well := health("gpu-10", v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{
		State: v1alpha1.HealthHealthy, Since: ago(1), QuarantinedTime: new(ago(3)), QuarantineEndTime: new(metav1.NewTime(now.Add(5 * time.Minute))),
	}})
	check.Equal(t, "table", `HYPERNODE  NODE    READY  STATE    SINCE  QUARANTINE  GPUS  HELD-FOR
rack-2     gpu-10  yes    Healthy  60m    3h          8/8   -
  leaves quarantine at 03:09:05 UTC (in 5m), if nothing fails until then
The pods could not be read.
`, printed(t, twoRacks(), []v1alpha1.NodeHealth{well}, "rack-2", true))
}

func TestNodesAreChosen(t *testing.T) {
	for name, tc := range map[string]struct {
		of        string
		unhealthy bool
		want      string
	}{
		"a rack":               {"rack-2", false, "gpu-2 gpu-10"},
		"at any tier":          {"spine", false, "gpu-2 gpu-10 gpu-3 gpu-4"},
		"unhealthy":            {"", true, "gpu-10 gpu-3 gpu-4"},
		"unhealthy, of a rack": {"rack-10", true, "gpu-3 gpu-4"},
		"a node":               {"gpu-2", false, "gpu-2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoRacks()
			f.AddHealth(healths())
			nodes, err := f.List(tc.of, tc.unhealthy)
			check.Equal(t, "error", nil, err)
			var names []string
			for i := range nodes.Nodes {
				names = append(names, nodes.Nodes[i].Name)
			}
			check.Equal(t, "nodes", tc.want, strings.Join(names, " "))
		})
	}
	cordoned := twoRacks()
	cordoned.Nodes[0].Cordoned = true
	nodes, err := cordoned.List("", true)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "a node that is only cordoned is listed", true, slices.ContainsFunc(nodes.Nodes, func(n Node) bool { return n.Name == cordoned.Nodes[0].Name }))
	_, err = twoRacks().List("rack-7", false)
	if want := "there is no HyperNode \"rack-7\": The pods could not be read. `kubectl lockstep map --all` shows all."; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNamesAreComparedNaturally(t *testing.T) {
	sorted := []string{"gpu-0", "gpu-00", "gpu-1", "gpu-02", "gpu-2", "gpu-10", "gpu-10-b", "gpu-a", "rack-9-1", "rack-9-12"}
	got := slices.Clone(sorted)
	slices.Reverse(got)
	slices.SortFunc(got, Naturally)
	check.Equal(t, "names", sorted, got)
}

// Names sort alike from whatever order: if one is before a second, and that before a third, the first is before the third.
func TestTheNaturalOrderIsStrict(t *testing.T) {
	names := []string{"", "rack-", "rack-a", "rack"}
	for _, number := range []string{"0", "00", "000", "1", "01", "2", "02", "002", "10", "010"} {
		for _, end := range []string{"", "a", "-", "-0", "-00", "-1", "-02a"} {
			names = append(names, "rack-"+number+end)
		}
	}
	less := func(a, b string) bool { return Naturally(a, b) < 0 }
	for _, a := range names {
		for _, b := range names {
			check.Equal(t, a+" and "+b, Naturally(a, b), -Naturally(b, a))
			check.Equal(t, a+" is "+b, a == b, Naturally(a, b) == 0)
			for _, c := range names {
				if less(a, b) && less(b, c) && !less(a, c) {
					t.Fatalf("%s < %s < %s < %s", a, b, c, a)
				}
			}
		}
	}
	check.Equal(t, "0 is a number", true, less("rack-0a", "rack-1") && less("rack-1", "rack-02") && less("rack-0a", "rack-02"))
}
