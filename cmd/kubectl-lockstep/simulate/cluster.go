package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// site is a cluster as the lab plays it.
type site struct {
	hyperNodes []topology.HyperNode
	// gpus of each node; nil where all have perNode.
	gpus    map[string]int64
	perNode int64
}

// site returns the nodes on which all of the studies are played. Those that a replay names or takes away are among them.
func (o *options) site(studies []*study, history *lab.History) (*site, error) {
	out := &site{perNode: int64(o.gpusPerNode)}
	if o.topology == "" {
		out.hyperNodes = lab.Racks(o.size(studies, history), int(o.nodesPerRack))
	} else if err := o.readTopology(out, studies, history); err != nil {
		return nil, fmt.Errorf("--topology %s: %w", o.topology, err)
	}
	return out, nil
}

// size is how many nodes a cluster without a topology has.
func (o *options) size(studies []*study, history *lab.History) int {
	nodes := int(o.nodes)
	if nodes > 0 {
		return nodes
	}
	for _, s := range studies {
		perNode := max(1, podsFor(int64(o.gpusPerNode), gpusOfPod(s.job)))
		pods := int(gang.Replicas(s.job) + gang.Spares(s.job))
		needed := (pods + perNode - 1) / perNode
		nodes = max(nodes, needed+max((needed+9)/10, history.LostNodes()))
	}
	return nodes
}

// readTopology reads the HyperNodes of the file of --topology, and how many GPUs each of its Nodes has, where any Node says that. Nodes
// that the incidents of a replay name, and that are not there any more, are added. Nodes that take no pod of any study are left out, as
// their failures were not counted.
func (o *options) readTopology(out *site, studies []*study, history *lab.History) error {
	raw, err := readFile(o.In, o.topology)
	if err != nil {
		return err
	}
	hyperNodes, err := ofKind[topologyv1alpha1.HyperNode](raw, "HyperNode")
	if err != nil {
		return err
	}
	nodes, err := ofKind[corev1.Node](raw, "Node")
	if err != nil {
		return err
	}
	if len(hyperNodes) == 0 || len(nodes) == 0 {
		return errors.New("it has to have HyperNodes and Nodes: save what kubectl get hypernodes,nodes -o yaml prints")
	}
	var former, small []string
	for _, name := range history.Nodes() {
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			n := corev1.Node{Status: nodes[0].Status} // as the others are
			n.Name, n.Labels = name, map[string]string{corev1.LabelHostname: name}
			former, nodes = append(former, name), append(nodes, n)
		}
	}
	if len(former) > 0 {
		o.warn(fmt.Sprintf("--topology %s: nodes that the incidents name, and that are not in the file, are taken to have been there: %s",
			o.topology, strings.Join(former, ", ")))
	}
	if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return fit.GPUs(n.Status.Allocatable) > 0 }) {
		if o.given("gpus-per-node") {
			return errors.New("the Nodes say how many GPUs they have: leave --gpus-per-node out")
		}
		out.gpus = map[string]int64{}
		nodes = slices.DeleteFunc(nodes, func(n corev1.Node) bool {
			gpus := fit.GPUs(n.Status.Allocatable)
			out.gpus[n.Name] = gpus
			takes := slices.ContainsFunc(studies, func(s *study) bool { return podsFor(gpus, gpusOfPod(s.job)) > 0 })
			if !takes {
				small = append(small, n.Name)
			}
			return !takes
		})
	}
	if len(small) > 0 {
		o.warn(fmt.Sprintf("--topology %s: %s with too few GPUs for a pod of any job left out, such as %s",
			o.topology, lines.Count(len(small), "node"), small[0]))
	}
	out.hyperNodes = hypernodes.Resolve(hyperNodes, nodes)
	return nil
}

// podsOn is how many pods of a job fit on each node. An error says why the job cannot run.
func (s *site) podsOn(job *v1alpha1.TrainingJob) (map[string]int, error) {
	out := map[string]int{}
	perPod, room, allowed := gpusOfPod(job), 0, 0
	t := job.Spec.NetworkTopology
	hard := t != nil && t.Mode == v1alpha1.TopologyHard && t.HighestTierAllowed != nil
	for _, h := range s.hyperNodes {
		slots := 0
		for _, n := range h.Nodes {
			gpus := s.perNode
			if s.gpus != nil {
				gpus = s.gpus[n]
			}
			out[n] = podsFor(gpus, perPod)
			slots += out[n]
		}
		room = max(room, slots)
		if hard && h.Tier <= *t.HighestTierAllowed {
			allowed = max(allowed, slots)
		}
	}
	if room == 0 {
		return nil, fmt.Errorf("a pod has %d GPUs, and no node has as many: see --gpus-per-node and --topology", perPod)
	}
	if n := int(gang.MinAvailable(job)); hard && n > allowed {
		return nil, fmt.Errorf("the job needs %d pods at once, and a HyperNode of tier %d or lower, as its networkTopology asks for, "+
			"takes %d at most: see --nodes, --nodes-per-rack and --topology", n, *t.HighestTierAllowed, allowed)
	}
	return out, nil
}

// podsFor is how many pods have room on a node.
func podsFor(gpus, perPod int64) int {
	if perPod == 0 {
		return 1
	}
	return int(gpus / perPod)
}

// gpusOfPod are the GPUs of a pod of the job, and the most where tasks differ.
func gpusOfPod(job *v1alpha1.TrainingJob) int64 {
	most := int64(0)
	for i := range job.Spec.Tasks {
		most = max(most, fit.TaskGPUs(&job.Spec.Tasks[i]))
	}
	return most
}
