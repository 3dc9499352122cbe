package fleetmap

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

var update = flag.Bool("update", false, "write the golden files")

// fleet is a cluster of racks; spines of so many racks are above them, unless that is 0.
func fleet(racks, nodesPerRack, racksPerSpine int) *Fleet {
	f := &Fleet{}
	var all []topology.HyperNode
	var spine []string
	for r := range racks {
		var rack []string
		for n := range nodesPerRack {
			name := fmt.Sprintf("gpu-%d-%d", r, n)
			rack = append(rack, name)
			f.Nodes = append(f.Nodes, Node{Name: name})
		}
		all = append(all, topology.HyperNode{Name: fmt.Sprintf("rack-%d", r), Tier: 1, Nodes: rack})
		spine = append(spine, rack...)
		if racksPerSpine > 0 && ((r+1)%racksPerSpine == 0 || r == racks-1) {
			all = append(all, topology.HyperNode{Name: fmt.Sprintf("spine-%d", r/racksPerSpine), Tier: 2, Nodes: spine})
			spine = nil
		}
	}
	f.Topology = topology.New(all)
	return f
}

// node of a fleet.
func (f *Fleet) node(rack, node int) *Node {
	name := fmt.Sprintf("gpu-%d-%d", rack, node)
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	panic("no node " + name)
}

// small is two racks and a node that is in none, with one node of each kind.
func small() *Fleet {
	f := fleet(2, 8, 0)
	f.node(0, 0).Used = true
	f.node(0, 1).Used, f.node(0, 1).Holds = true, []string{"hold.lockstep.dev/llama-1"}
	f.node(0, 2).Holds = []string{"hold.lockstep.dev/llama-1"}
	f.node(0, 3).Used, f.node(0, 3).Spare = true, true
	f.node(0, 4).Quarantined = true
	f.node(0, 5).Cordoned = true
	f.node(0, 6).NotReady = true
	f.node(0, 7).Used, f.node(0, 7).Degraded = true, true
	f.node(1, 0).Holds = []string{"hold.lockstep.dev/other-2"}
	f.Nodes = append(f.Nodes, Node{Name: "login"})
	return f
}

// withOthers is small, where another pod has GPUs of a free node, and of one that is held.
func withOthers() *Fleet {
	f := small()
	f.node(1, 0).OthersGPUs, f.node(1, 7).OthersGPUs = true, true
	return f
}

func llama() *Job {
	return &Job{
		Namespace: "default", Name: "llama", State: "Recovering", Homes: []string{"rack-0"}, HoldKey: "hold.lockstep.dev/llama-1",
		Tasks:  []Task{{"launcher", []string{"gpu-0-0"}}, {"worker", []string{"gpu-0-1", "", "gpu-0-7"}}},
		Spares: []string{"gpu-0-3"}, SparesWanted: 2,
		Excluded: map[string]v1alpha1.ExcludedNode{"gpu-0-6": {Until: metav1.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC), Incident: 2}},
	}
}

// large has 5,000 nodes in 160 racks, most of them in use, and some that are ill.
func large(ill int) *Fleet {
	f := fleet(160, 32, 16)
	f.Nodes = f.Nodes[:5000]
	random := rand.New(rand.NewPCG(1, 2))
	for i := range f.Nodes {
		f.Nodes[i].Used = random.IntN(4) > 0
	}
	for i := range ill {
		n := &f.Nodes[random.IntN(len(f.Nodes))]
		switch i % 4 {
		case 0:
			n.Quarantined = true
		case 1:
			n.NotReady, n.Used = true, false
		case 2:
			n.Cordoned = true
		case 3:
			n.Holds, n.Used = []string{"hold.lockstep.dev/llama-1"}, false
		}
	}
	return f
}

// job of the large fleet: of a rack, or of 4 of them.
func jobOf(ranks, firstRack int) *Job {
	j := &Job{Namespace: "default", Name: "big", State: "Running", Homes: []string{"spine-0"}, Tasks: []Task{{Name: "worker"}}}
	for i := range ranks {
		j.Tasks[0].Nodes = append(j.Tasks[0].Nodes, fmt.Sprintf("gpu-%d-%d", firstRack+i/32, i%32))
	}
	return j
}

func TestMapsAreDrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		fleet *Fleet
		limit int
		job   *Job
	}{
		"small":            {small(), 60, nil},
		"others-gpus":      {withOthers(), 60, nil},
		"small-job":        {small(), 60, llama()},
		"no-hypernodes":    {&Fleet{Nodes: []Node{{Name: "a"}, {Name: "b", NotReady: true}}}, 60, nil},
		"unread":           {&Fleet{Nodes: []Node{{Name: "a"}}, Unread: []string{"The pods could not be read, so no node is shown as in use: pods is forbidden: User \"jane\" cannot list resource \"pods\"."}}, 60, nil},
		"long-names":       {&Fleet{Nodes: []Node{{Name: "a"}}, Topology: topology.New([]topology.HyperNode{{Name: strings.Repeat("long-", 12) + "rack-1", Nodes: []string{"a"}}})}, 0, nil},
		"wide-rack":        {fleet(1, 100, 0), 60, nil},
		"hundred-racks":    {fleet(100, 18, 0), 60, nil},
		"lone-rack":        {lone(), 12, nil},
		"flat-and-outside": {outsiders(), 20, nil},
		"queued-job":       {fleet(4, 8, 2), 14, queuedJob()},
		"large":            {large(12), 60, nil},
		"large-ill":        {large(120), 60, nil},
		"large-flat-ill":   {flat(large(400)), 60, nil},
		"large-job":        {large(40), 60, jobOf(32, 5)},
		"large-job-racks":  {large(40), 60, jobOf(128, 4)},
		"large-job-spines": {large(40), 60, jobOf(2000, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			lines := Draw(tc.fleet, tc.job, tc.limit)
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if n := len(lines); tc.limit > 0 && n > tc.limit {
				t.Errorf("%d lines, and there may be %d", n, tc.limit)
			}
			golden(t, name, strings.Join(lines, "\n")+"\n")
		})
	}
}

func TestTheReport(t *testing.T) {
	f := fleet(2, 2, 2)
	f.Nodes = append(f.Nodes, Node{Name: "login", Cordoned: true})
	f.node(1, 1).Used = true
	job := &Job{Homes: []string{"rack-1"}}
	check.Equal(t, "report", Report{
		Job: job, Total: Counts{Nodes: 5, Free: 3, Used: 1, Cordoned: 1},
		HyperNodes: []HyperNode{
			{Name: "spine-0", Tier: 2, Counts: Counts{Nodes: 4, Free: 3, Used: 1}},
			{Name: "rack-0", Tier: 1, Parent: "spine-0", Counts: Counts{Nodes: 2, Free: 2}},
			{Name: "rack-1", Tier: 1, Parent: "spine-0", Home: true, Counts: Counts{Nodes: 2, Free: 1, Used: 1}},
		},
		Nodes: []Node{
			{Name: "gpu-0-0", HyperNode: "rack-0"}, {Name: "gpu-0-1", HyperNode: "rack-0"},
			{Name: "gpu-1-0", HyperNode: "rack-1"}, {Name: "gpu-1-1", HyperNode: "rack-1", Used: true}, {Name: "login", Cordoned: true},
		},
	}, ReportOf(f, job))
}

// A job whose nodes no HyperNode holds has no home, and each partition may have one of its own.
func TestHomes(t *testing.T) {
	job := &v1alpha1.TrainingJob{Status: v1alpha1.TrainingJobStatus{Placement: &v1alpha1.Placement{}}}
	check.Equal(t, "nowhere", 0, len(JobOf(job, nil).Homes))
	job.Status.Placement.Tasks = []v1alpha1.TaskPlacement{{Partitions: []v1alpha1.PartitionPlacement{{HyperNode: "rack-0"}, {HyperNode: "rack-1"}}}}
	check.Equal(t, "of partitions", []string{"rack-0", "rack-1"}, JobOf(job, nil).Homes)
}

// However few lines there may be, a map that is summed up to one line of HyperNodes, with its hint, is the shortest.
func TestMapsFit(t *testing.T) {
	const shortest = 20
	for limit := shortest; limit < 120; limit += 5 {
		if n := len(Draw(large(60), nil, limit)); n > limit {
			t.Errorf("%d lines, and there may be %d", n, limit)
		}
	}
}

// lone is a quiet rack beside spines, of which nothing tells either.
func lone() *Fleet {
	f := fleet(6, 2, 2)
	f.Nodes = append(f.Nodes, Node{Name: "a"})
	f.Topology = topology.New(append(f.Topology.All(), topology.HyperNode{Name: "spine-9", Tier: 1, Nodes: []string{"a"}}))
	return f
}

// outsiders is 20 racks, each with a node that is ill, and a node that is in none.
func outsiders() *Fleet {
	f := fleet(20, 2, 0)
	for i := range 20 {
		f.node(i, 0).NotReady = true
	}
	f.Nodes = append(f.Nodes, Node{Name: "login"})
	return f
}

// queuedJob has a home, and no pods.
func queuedJob() *Job {
	return &Job{Namespace: "default", Name: "llama", State: "Suspended", Homes: []string{"rack-1"}, Tasks: []Task{{"worker", []string{"", ""}}}}
}

// flat takes the spines away.
func flat(f *Fleet) *Fleet {
	var racks []topology.HyperNode
	for _, h := range f.Topology.All() {
		if h.Tier == 1 {
			racks = append(racks, h)
		}
	}
	f.Topology = topology.New(racks)
	return f
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, file, string(want), got)
}

// A node that has failed lately is well.
func TestDegradedNodes(t *testing.T) {
	for value, degraded := range map[string]bool{"": true, v1alpha1.DegradedFailedLately: false} {
		n := corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: v1alpha1.TaintDegraded, Value: value}}}}
		check.Equal(t, "degraded with the value "+value, degraded, nodeOf(&n).Degraded)
	}
}
