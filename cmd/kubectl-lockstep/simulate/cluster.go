package simulate

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// gpuResource is what a pod asks for that uses GPUs.
const gpuResource = "nvidia.com/gpu"

// cluster is where the jobs run: racks of nodes, or the HyperNodes of a file.
type cluster struct {
	nodes, nodesPerRack int
	gpusPerNode         int64
	file                string
	// lost is how many nodes a replay takes away, which a cluster of no given size has beside the others.
	lost int
	// named are the nodes that the incidents of a replay name.
	named []string
	// gpusGiven is whether gpusPerNode is from the user.
	gpusGiven bool
	in        io.Reader
}

func (c *cluster) addFlags(f *pflag.FlagSet) {
	f.IntVar(&c.nodes, "nodes", 0, "nodes of the cluster; default: those that the jobs need and a tenth more")
	f.IntVar(&c.nodesPerRack, "nodes-per-rack", 32, "nodes of a HyperNode of tier 1; all are in one of tier 2")
	f.Int64Var(&c.gpusPerNode, "gpus-per-node", 8, "GPUs of a node; with --topology, where no Node says how many it has")
	f.StringVar(&c.file, "topology", "", "file with HyperNodes and Nodes in place of --nodes: what kubectl get hypernodes,nodes -o yaml prints")
}

func (c *cluster) check() error {
	switch {
	case c.nodesPerRack < 1:
		return fmt.Errorf("--nodes-per-rack is %d, and has to be 1 at least", c.nodesPerRack)
	case c.nodes < 0:
		return fmt.Errorf("--nodes is %d, and has to be positive", c.nodes)
	case c.gpusPerNode < 1:
		return fmt.Errorf("--gpus-per-node is %d, and has to be 1 at least", c.gpusPerNode)
	}
	return nil
}

// site is a cluster as the lab plays it.
type site struct {
	hyperNodes []topology.HyperNode
	gpus       map[string]int64 // of each node
	// name is how errors call one of its nodes, and flags are those that say how large it is.
	name, flags string
}

// site returns the nodes on which all of the studies are played. What of a file is left out is told as a warning.
func (c *cluster) site(studies []*study, warn func(string)) (*site, error) {
	if c.file != "" {
		return c.readTopology(studies, warn)
	}
	nodes := c.nodes
	if nodes == 0 {
		for _, s := range studies {
			perNode := max(1, podsFor(c.gpusPerNode, s.job))
			needed := (pods(s.job) + perNode - 1) / perNode
			nodes = max(nodes, needed+max((needed+9)/10, c.lost))
		}
	}
	out := &site{hyperNodes: lab.Racks(nodes, c.nodesPerRack), gpus: map[string]int64{}, name: "a node, see --gpus-per-node,", flags: ": see --nodes and --nodes-per-rack"}
	for _, h := range out.hyperNodes {
		for _, n := range h.Nodes {
			out.gpus[n] = c.gpusPerNode
		}
	}
	return out, nil
}

// podsOn is how many pods of a job fit on each node.
func (s *site) podsOn(job *v1alpha1.TrainingJob) (map[string]int, error) {
	out := map[string]int{}
	most, room := int64(0), 0
	for node, gpus := range s.gpus {
		out[node] = podsFor(gpus, job)
		most, room = max(most, gpus), max(room, out[node])
	}
	if t := largestTask(job); room == 0 {
		return nil, fmt.Errorf("a pod of task %s has %d GPUs, and %s has %d at most", t.Name, gpusOf(t), s.name, most)
	}
	return out, s.checkRoom(job, out)
}

// checkRoom refuses a job that no HyperNode which it may use has room for.
func (s *site) checkRoom(job *v1alpha1.TrainingJob, podsOn map[string]int) error {
	t := job.Spec.NetworkTopology
	if t == nil || t.Mode != v1alpha1.TopologyHard || t.HighestTierAllowed == nil {
		return nil
	}
	most := 0
	for _, h := range s.hyperNodes {
		slots := 0
		for _, n := range h.Nodes {
			slots += podsOn[n]
		}
		if h.Tier <= *t.HighestTierAllowed {
			most = max(most, slots)
		}
	}
	if n := int(gang.MinAvailable(job)); n > most {
		return fmt.Errorf("the job needs %d pods at once, and a HyperNode of tier %d or lower, as its networkTopology asks for, takes %d at most%s", n, *t.HighestTierAllowed, most, s.flags)
	}
	return nil
}

// podsFor is how many pods of the job's largest task have room on a node with some GPUs.
func podsFor(gpus int64, job *v1alpha1.TrainingJob) int {
	if needed := gpusOf(largestTask(job)); needed > 0 {
		return int(gpus / needed)
	}
	return 1
}

// largestTask is that whose pods have the most GPUs.
func largestTask(job *v1alpha1.TrainingJob) *v1alpha1.Task {
	largest := &job.Spec.Tasks[0]
	for i := range job.Spec.Tasks {
		if t := &job.Spec.Tasks[i]; gpusOf(t) > gpusOf(largest) {
			largest = t
		}
	}
	return largest
}

// gpusOf are the GPUs of a pod of a task.
func gpusOf(t *v1alpha1.Task) int64 {
	gpus := int64(0)
	for _, c := range t.Template.Spec.Containers {
		gpus += c.Resources.Limits.Name(gpuResource, resource.DecimalSI).Value()
	}
	return gpus
}
