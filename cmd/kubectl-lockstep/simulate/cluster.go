package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// cluster is where the jobs run: racks of nodes, or the HyperNodes of a file.
type cluster struct {
	nodes, nodesPerRack int
	gpusPerNode         int64
	file                string
}

func (c *cluster) addFlags(f *pflag.FlagSet) {
	f.IntVar(&c.nodes, "nodes", 0, "nodes of the cluster; default: those that the jobs need and a tenth more")
	f.IntVar(&c.nodesPerRack, "nodes-per-rack", 32, "nodes of a HyperNode of tier 1; all are in one of tier 2")
	f.Int64Var(&c.gpusPerNode, "gpus-per-node", 8, "GPUs of a node")
	f.StringVar(&c.file, "topology", "", "file with HyperNodes and Nodes in place of --nodes: what kubectl get hypernodes,nodes -o yaml prints")
}

// hyperNodes are those in which all of the studies are played.
func (c *cluster) hyperNodes(studies []*study) ([]topology.HyperNode, error) {
	if c.file != "" {
		return readTopology(c.file)
	}
	if c.nodesPerRack < 1 {
		return nil, fmt.Errorf("--nodes-per-rack is %d, and has to be 1 at least", c.nodesPerRack)
	}
	if c.nodes < 0 {
		return nil, fmt.Errorf("--nodes is %d, and has to be positive", c.nodes)
	}
	nodes := c.nodes
	if nodes == 0 {
		for _, s := range studies {
			perNode, err := c.podsPerNode(s.job)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			needed := (pods(s.job) + perNode - 1) / perNode
			nodes = max(nodes, needed+(needed+9)/10)
		}
	}
	return lab.Racks(nodes, c.nodesPerRack), nil
}

// podsPerNode is how many pods of the job's largest task fit on a node by their GPUs.
func (c *cluster) podsPerNode(job *v1alpha1.TrainingJob) (int, error) {
	if c.gpusPerNode < 1 {
		return 0, fmt.Errorf("--gpus-per-node is %d, and has to be 1 at least", c.gpusPerNode)
	}
	most := int64(0)
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		if gpus := gpusOf(t); gpus > c.gpusPerNode {
			return 0, fmt.Errorf("a pod of task %s has %d GPUs, and a node has %d: see --gpus-per-node", t.Name, gpus, c.gpusPerNode)
		}
		most = max(most, gpusOf(t))
	}
	if most == 0 {
		return 1, nil
	}
	return int(c.gpusPerNode / most), nil
}

// gpusOf are the GPUs of a pod of a task.
func gpusOf(t *v1alpha1.Task) int64 {
	gpus := int64(0)
	for _, c := range t.Template.Spec.Containers {
		gpus += c.Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI).Value()
	}
	return gpus
}

// readTopology reads HyperNodes and Nodes. Nodes without GPUs take no pods of a job that has some.
func readTopology(file string) ([]topology.HyperNode, error) {
	objects, err := readObjects(file)
	if err != nil {
		return nil, fmt.Errorf("--topology: %w", err)
	}
	var hyperNodes []topologyv1alpha1.HyperNode
	var nodes []corev1.Node
	for _, object := range objects {
		switch object := object.(type) {
		case *topologyv1alpha1.HyperNode:
			hyperNodes = append(hyperNodes, *object)
		case *corev1.Node:
			nodes = append(nodes, *object)
		}
	}
	if len(hyperNodes) == 0 || len(nodes) == 0 {
		return nil, errors.New("--topology: " + file + " has to have HyperNodes and Nodes: what kubectl get hypernodes,nodes -o yaml prints")
	}
	found := hypernodes.Resolve(hyperNodes, nodes)
	return slices.DeleteFunc(found, func(h topology.HyperNode) bool { return len(h.Nodes) == 0 }), nil
}
