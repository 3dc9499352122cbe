package alerts

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	degraded = v1alpha1.HealthStateDegraded
	failed   = v1alpha1.HealthStateFailed
)

func at(minutes int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(minutes) * time.Minute)) }

func report(signal string, state v1alpha1.HealthState, since int, pods ...string) v1alpha1.HealthReport {
	return v1alpha1.HealthReport{Source: Source, Entity: "gpu/GPU-a", Signal: signal, State: state, Since: at(since), Pods: pods}
}

func fires(signal string, state v1alpha1.HealthState, since int, pods ...string) Change {
	return Change{Report: report(signal, state, since, pods...)}
}

func ended(signal string, since, ends int) Change {
	end := at(ends)
	return Change{Report: report(signal, degraded, since), Ends: &end}
}

func TestMerge(t *testing.T) {
	type reports = []v1alpha1.HealthReport
	acknowledged := at(5)
	for name, c := range map[string]struct {
		current      reports
		changes      []Change
		acknowledged *metav1.Time
		want         reports
	}{
		"firing sets":                     {nil, []Change{fires("A", degraded, 0)}, nil, reports{report("A", degraded, 0)}},
		"firing again changes nothing":    {reports{report("A", degraded, 0)}, []Change{fires("A", degraded, 0)}, nil, reports{report("A", degraded, 0)}},
		"resolved clears that one":        {reports{report("A", degraded, 0), report("B", failed, 0)}, []Change{ended("A", 0, 5)}, nil, reports{report("B", failed, 0)}},
		"resolved of what is not there":   {reports{report("B", failed, 0)}, []Change{ended("A", 0, 5)}, nil, reports{report("B", failed, 0)}},
		"resolved, told late":             {reports{report("A", degraded, 6)}, []Change{ended("A", 0, 5)}, nil, reports{report("A", degraded, 6)}},
		"one ends, its twin fires":        {reports{report("A", degraded, 0)}, []Change{fires("A", degraded, 3), ended("A", 0, 5)}, nil, reports{report("A", degraded, 3)}},
		"the worst of twins, since first": {nil, []Change{fires("A", degraded, 3, "ns/a"), fires("A", failed, 4, "ns/b")}, nil, reports{report("A", failed, 3, "ns/a", "ns/b")}},
		"twins, one of all pods":          {nil, []Change{fires("A", degraded, 3, "ns/a"), fires("A", degraded, 4)}, nil, reports{report("A", degraded, 3)}},
		"it becomes worse":                {reports{report("A", degraded, 0)}, []Change{fires("A", failed, 4)}, nil, reports{report("A", failed, 0)}},
		"acknowledged is gone":            {reports{report("A", degraded, 5), report("B", degraded, 6)}, nil, &acknowledged, reports{report("B", degraded, 6)}},
		"acknowledged does not come back": {nil, []Change{fires("A", failed, 5)}, &acknowledged, nil},
		"a later one does":                {reports{report("A", degraded, 4)}, []Change{fires("A", failed, 6)}, &acknowledged, reports{report("A", failed, 6)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, left := Merge(c.current, c.changes, c.acknowledged)
			if diff := cmp.Diff(c.want, got); diff != "" || left > 0 {
				t.Errorf("left out %d\n%s", left, diff)
			}
		})
	}
}

func TestTheWorstStayWhereThereAreTooMany(t *testing.T) {
	var current []v1alpha1.HealthReport
	for i := range maxReports {
		current = append(current, report(fmt.Sprintf("S%03d", i), degraded, i))
	}
	got, left := Merge(current, []Change{fires("T", failed, 900), fires("U", degraded, 901)}, nil)
	if left != 2 || len(got) != maxReports {
		t.Fatalf("%d entries, %d left out", len(got), left)
	}
	kept := byKey(got)
	if _, ok := kept[key{"gpu/GPU-a", "T"}]; !ok {
		t.Error("a failure was left out for something degraded")
	}
	for _, signal := range []string{"U", "S255"} {
		if _, ok := kept[key{"gpu/GPU-a", signal}]; ok {
			t.Errorf("%s was kept, one of the latest", signal)
		}
	}
}

func TestThePodsOfAReportAreBounded(t *testing.T) {
	var changes []Change
	for i := range maxPods + 1 {
		changes = append(changes, fires("A", degraded, 0, fmt.Sprintf("ns/p%d", i)))
	}
	if got, _ := Merge(nil, changes, nil); len(got) != 1 || got[0].Pods != nil {
		t.Errorf("%d reports, with %d pods", len(got), len(got[0].Pods))
	}
}
