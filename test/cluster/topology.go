// The shape of a pool of nodes: which nodes, in which racks, under which HyperNodes. Pure.

package cluster

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

const (
	// PoolLabel is on every node, HyperNode and filler pod of a topology; a nodeSelector with it
	// confines a job to its pool.
	PoolLabel = "lockstep.dev/pool"
	// RackLabel is on every node; its value is the name of the rack's HyperNode.
	RackLabel = "lockstep.dev/rack"

	// playedAnnotation is on every node that KWOK plays.
	playedAnnotation = "kwok.x-k8s.io/node"

	gpu = corev1.ResourceName("nvidia.com/gpu")
)

// MemberKind is how the racks' HyperNodes name their nodes.
type MemberKind string

// The ways in which a HyperNode can select nodes.
const (
	ExactMembers MemberKind = "exact"
	RegexMembers MemberKind = "regex"
	LabelMembers MemberKind = "label"
)

// Topology is a pool of equal nodes in equal racks. Several live in one cluster, by their names.
type Topology struct {
	// Name is the pool: rack 2 of pool "a" is HyperNode a-r2, its first node a-r2-n0.
	Name         string
	Racks        int
	NodesPerRack int
	GPUsPerNode  int
	// Tiers say how the racks, which are tier 1, are grouped: {4} puts four racks under each
	// HyperNode of tier 2, {4, 2} also two of those under each of tier 3. The last of a tier has
	// fewer where it does not come out even.
	Tiers []int
	// Members is how HyperNodes of tier 1 select nodes: exact by default.
	Members MemberKind
	// CPU and Memory are quantities per node; 128 and 1Ti by default.
	CPU, Memory string
	// HostnameSuffix makes the label kubernetes.io/hostname differ from the node's name, as on some
	// clouds.
	HostnameSuffix string
	// Real nodes have a kubelet with containerd on a machine of their own, in place of KWOK. They have
	// the host's processors and memory. See machines.Check for what the host needs.
	Real bool
	// Labels are further labels of every node.
	Labels map[string]string
}

// GB300NVL72 is a pool of racks of 18 compute trays with 4 GPUs each, one NVLink domain per rack.
func GB300NVL72(name string, racks int) Topology {
	return Topology{Name: name, Racks: racks, NodesPerRack: 18, GPUsPerNode: 4, CPU: "144", Memory: "960Gi"}
}

// Rack is the name of a rack's HyperNode, and the value of its nodes' rack label.
func (t Topology) Rack(rack int) string { return fmt.Sprintf("%s-r%d", t.Name, rack) }

// Node is the name of a node of a rack.
func (t Topology) Node(rack, node int) string { return fmt.Sprintf("%s-n%d", t.Rack(rack), node) }

// HyperNode is the name of a HyperNode of any tier: tier 1 is the racks.
func (t Topology) HyperNode(tier, index int) string {
	if tier == 1 {
		return t.Rack(index)
	}
	return fmt.Sprintf("%s-t%d-%d", t.Name, tier, index)
}

// NodeNames are all nodes, rack by rack.
func (t Topology) NodeNames() []string {
	names := make([]string, 0, t.Racks*t.NodesPerRack)
	for rack := range t.Racks {
		names = append(names, t.RackNodes(rack)...)
	}
	return names
}

// RackNodes are the nodes of one rack.
func (t Topology) RackNodes(rack int) []string {
	names := make([]string, 0, t.NodesPerRack)
	for node := range t.NodesPerRack {
		names = append(names, t.Node(rack, node))
	}
	return names
}

// NodeSelector confines a pod to the pool.
func (t Topology) NodeSelector() map[string]string { return map[string]string{PoolLabel: t.Name} }

func (t Topology) validate() error {
	switch {
	case t.Name == "":
		return fmt.Errorf("a topology needs a name: it keeps its nodes apart from others'")
	case t.Racks < 1 || t.NodesPerRack < 1 || t.GPUsPerNode < 0:
		return fmt.Errorf("topology %s has %d racks of %d nodes with %d GPUs: it needs one rack and one node at least",
			t.Name, t.Racks, t.NodesPerRack, t.GPUsPerNode)
	}
	for i, size := range t.Tiers {
		if size < 1 {
			return fmt.Errorf("topology %s: tier %d groups %d HyperNodes: it has to be one at least", t.Name, i+2, size)
		}
	}
	if t.Real && (t.CPU != "" || t.Memory != "" || t.HostnameSuffix != "") {
		return fmt.Errorf("topology %s: real nodes have the host's CPU and memory, and their own names: leave CPU, Memory and HostnameSuffix empty", t.Name)
	}
	switch t.Members {
	case "", ExactMembers, RegexMembers, LabelMembers:
		return nil
	default:
		return fmt.Errorf("topology %s: members %q are none of %s, %s, %s", t.Name, t.Members, ExactMembers, RegexMembers, LabelMembers)
	}
}

func (t Topology) nodes() ([]*corev1.Node, error) {
	allocatable, err := t.allocatable()
	if err != nil {
		return nil, err
	}
	nodes := make([]*corev1.Node, 0, t.Racks*t.NodesPerRack)
	for rack := range t.Racks {
		for node := range t.NodesPerRack {
			nodes = append(nodes, t.node(t.Rack(rack), t.Node(rack, node), allocatable))
		}
	}
	return nodes, nil
}

func (t Topology) node(rack, name string, allocatable corev1.ResourceList) *corev1.Node {
	labels := map[string]string{
		heartbeatLabel:         "true",
		PoolLabel:              t.Name,
		RackLabel:              rack,
		corev1.LabelHostname:   name + t.HostnameSuffix,
		corev1.LabelArchStable: "amd64",
		corev1.LabelOSStable:   "linux",
		// The node controller slows evictions down per zone: a pool whose nodes die must not
		// change how it treats the others.
		corev1.LabelTopologyZone: t.Name,
	}
	maps.Copy(labels, t.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{playedAnnotation: "fake"}},
		Status: corev1.NodeStatus{
			Allocatable: allocatable,
			Capacity:    allocatable,
			Phase:       corev1.NodeRunning, // KWOK's heartbeat asks for it.
			Conditions:  healthy(metav1.Now()),
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			NodeInfo:    corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "kwok"},
		},
	}
}

// healthy are the conditions that a kubelet registers with. A node that came without them would cost
// five more writes before it is usable, which is half a minute for a thousand nodes on two cores.
func healthy(now metav1.Time) []corev1.NodeCondition {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "RouteCreated"),
	}
}

func (t Topology) allocatable() (corev1.ResourceList, error) {
	list := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("110"),
		gpu:                 *resource.NewQuantity(int64(t.GPUsPerNode), resource.DecimalSI),
	}
	for name, value := range map[corev1.ResourceName][2]string{
		corev1.ResourceCPU:    {t.CPU, "128"},
		corev1.ResourceMemory: {t.Memory, "1Ti"},
	} {
		text := value[0]
		if text == "" {
			text = value[1]
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("topology %s: %s %q: %w", t.Name, name, text, err)
		}
		list[name] = quantity
	}
	return list, nil
}

// hyperNodes are all HyperNodes, tier by tier from the racks up.
func (t Topology) hyperNodes() [][]*topologyv1alpha1.HyperNode {
	racks := make([]*topologyv1alpha1.HyperNode, 0, t.Racks)
	for rack := range t.Racks {
		racks = append(racks, t.hyperNode(1, rack, t.rackMembers(rack)))
	}
	tiers := [][]*topologyv1alpha1.HyperNode{racks}
	for i, size := range t.Tiers {
		tiers = append(tiers, t.groups(i+2, size, tiers[i]))
	}
	return tiers
}

// groups puts every so many HyperNodes of the tier below under one of this tier.
func (t Topology) groups(tier, size int, below []*topologyv1alpha1.HyperNode) []*topologyv1alpha1.HyperNode {
	var all []*topologyv1alpha1.HyperNode
	for children := range slices.Chunk(below, size) {
		members := make([]topologyv1alpha1.MemberSpec, 0, len(children))
		for _, child := range children {
			members = append(members, exactMember(topologyv1alpha1.MemberTypeHyperNode, child.Name))
		}
		all = append(all, t.hyperNode(tier, len(all), members))
	}
	return all
}

func (t Topology) hyperNode(tier, index int, members []topologyv1alpha1.MemberSpec) *topologyv1alpha1.HyperNode {
	return &topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{Name: t.HyperNode(tier, index), Labels: map[string]string{PoolLabel: t.Name}},
		Spec:       topologyv1alpha1.HyperNodeSpec{Tier: tier, Members: members},
	}
}

func (t Topology) rackMembers(rack int) []topologyv1alpha1.MemberSpec {
	switch t.Members {
	case RegexMembers:
		pattern := "^" + regexp.QuoteMeta(t.Rack(rack)) + "-n[0-9]+$"
		return []topologyv1alpha1.MemberSpec{nodeMember(topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: pattern}})}
	case LabelMembers:
		match := &metav1.LabelSelector{MatchLabels: map[string]string{RackLabel: t.Rack(rack)}}
		return []topologyv1alpha1.MemberSpec{nodeMember(topologyv1alpha1.MemberSelector{LabelMatch: match})}
	default:
		var members []topologyv1alpha1.MemberSpec
		for _, node := range t.RackNodes(rack) {
			members = append(members, exactMember(topologyv1alpha1.MemberTypeNode, node))
		}
		return members
	}
}

func nodeMember(selector topologyv1alpha1.MemberSelector) topologyv1alpha1.MemberSpec {
	return topologyv1alpha1.MemberSpec{Type: topologyv1alpha1.MemberTypeNode, Selector: selector}
}

func exactMember(kind topologyv1alpha1.MemberType, name string) topologyv1alpha1.MemberSpec {
	return topologyv1alpha1.MemberSpec{Type: kind, Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: name}}}
}
