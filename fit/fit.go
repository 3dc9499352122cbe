// Package fit reports whether a pod may be bound to a node without a scheduler. Kubelets check only a part of it:
// they admit a pod whose extended resource the node does not have, and ignore cordons and NoSchedule taints.
package fit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Node is a node with the pods that are bound to it.
type Node struct {
	Object *corev1.Node
	Pods   []corev1.Pod
}

// Check returns why a pod may not be bound to the node, and nil where it may. Taints that ignored reports true
// for do not count.
func (n *Node) Check(pod *corev1.Pod, ignored func(corev1.Taint) bool) error {
	if err := n.usable(pod, ignored); err != nil {
		return err
	}
	if err := Selected(pod, n.Object); err != nil {
		return err
	}
	if port, taken := n.takenPort(pod); taken {
		return fmt.Errorf("host port %d is taken", port)
	}
	return n.room(pod)
}

// Selected returns why a pod's nodeSelector and required node affinity exclude a node, and nil where they do not.
func Selected(pod *corev1.Pod, node *corev1.Node) error {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); !matches {
		return errors.Join(errors.New("the pod's node affinity excludes it"), err)
	}
	return nil
}

func (n *Node) usable(pod *corev1.Pod, ignored func(corev1.Taint) bool) error {
	ready := slices.ContainsFunc(n.Object.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case !n.Object.DeletionTimestamp.IsZero():
		return errors.New("it is being deleted")
	case !ready:
		return errors.New("it is not ready")
	case n.Object.Spec.Unschedulable:
		return errors.New("it is cordoned")
	}
	if taint, found := Untolerated(pod, n.Object, ignored); found {
		return fmt.Errorf("the pod does not tolerate its taint %s", taint.ToString())
	}
	return nil
}

// Untolerated returns a taint of a node that keeps the pod away from it. Taints that ignored reports true for do not count.
func Untolerated(pod *corev1.Pod, node *corev1.Node, ignored func(corev1.Taint) bool) (corev1.Taint, bool) {
	keepsAway := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule && !ignored(*t) }
	return scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, keepsAway, false)
}

// room compares what is allocatable with what the node's pods and the pod request.
func (n *Node) room(pod *corev1.Pod) error {
	wanted := Requests(pod)
	used := map[corev1.ResourceName]resource.Quantity{}
	for i := range n.Pods {
		if running(&n.Pods[i]) {
			add(used, Requests(&n.Pods[i]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		sum, has := used[name], n.Object.Status.Allocatable[name]
		sum.Add(wanted[name])
		if quantity := wanted[name]; !quantity.IsZero() && sum.Cmp(has) > 0 {
			return fmt.Errorf("it has %s of %s, and its pods would request %s", has.String(), name, sum.String())
		}
	}
	return nil
}

// Requests are the resources that a pod takes of a node: what its containers request, and one of the node's pods.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	out := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	out[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return out
}

// GPUs counts GPUs, and parts of them: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu.
func GPUs(resources corev1.ResourceList) int64 {
	sum := int64(0)
	for name, n := range resources {
		_, device, _ := strings.Cut(string(name), "/")
		if strings.HasPrefix(device, "gpu") || strings.HasPrefix(device, "mig-") {
			sum += n.Value()
		}
	}
	return sum
}

// TaskGPUs are the GPUs that each pod of a task asks for.
func TaskGPUs(t *v1alpha1.Task) int64 { return GPUs(Requests(PodOf(&t.Template))) }

// PodOf is a pod of a template, as the API server defaults it.
func PodOf(template *corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{Spec: *template.Spec.DeepCopy()}
	DefaultRequests(&pod.Spec)
	return pod
}

// DefaultRequests sets the request of each resource that a container only has a limit of to that limit, as the API
// server does for pods. It does not do so for a template in another object, which Volcano sums up before there are pods.
func DefaultRequests(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			requests := corev1.ResourceList{}
			maps.Copy(requests, r.Limits)
			maps.Copy(requests, r.Requests)
			if len(requests) > 0 {
				r.Requests = requests
			}
		}
	}
}

func add(to map[corev1.ResourceName]resource.Quantity, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := to[name]
		sum.Add(quantity)
		to[name] = sum
	}
}

// running reports whether a pod uses its node: until its kubelet says that it has ended.
func running(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// takenPort returns a host port that the pod wants and another pod has.
func (n *Node) takenPort(pod *corev1.Pod) (int32, bool) {
	wanted := hostPorts(pod)
	for i := range n.Pods {
		if !running(&n.Pods[i]) {
			continue
		}
		for _, has := range hostPorts(&n.Pods[i]) {
			if slices.ContainsFunc(wanted, func(p corev1.ContainerPort) bool { return conflict(p, has) }) {
				return has.HostPort, true
			}
		}
	}
	return 0, false
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.HostPort > 0 {
					out = append(out, port)
				}
			}
		}
	}
	return out
}

func conflict(a, b corev1.ContainerPort) bool {
	anywhere := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	sameAddress := a.HostIP == b.HostIP || anywhere(a.HostIP) || anywhere(b.HostIP)
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol && sameAddress
}

// sharedDevices are the beginnings of the names of resources that are shares of devices: which device a pod gets is
// the scheduler's choice, which it writes into the pod's annotations.
var sharedDevices = []string{
	"volcano.sh/vgpu", "volcano.sh/gpu-", // Volcano's deviceshare plugin
	"nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/priority", // HAMi
	"huawei.com/Ascend", // Ascend's scheduler plugin
}

// numaPolicy is the annotation by which Volcano's numaaware plugin places a pod.
const numaPolicy = "volcano.sh/numa-topology-policy"

// NeedsScheduler returns why only the scheduler may place a pod, and nil where nothing in its spec says so. Volumes
// have a check of their own.
func NeedsScheduler(pod *corev1.Pod, schedulerName string) error {
	spec := &pod.Spec
	switch {
	case spec.SchedulerName != schedulerName:
		return fmt.Errorf("scheduler %s places it", spec.SchedulerName)
	case len(spec.SchedulingGates) > 0:
		return fmt.Errorf("scheduling gate %s is closed", spec.SchedulingGates[0].Name)
	case len(spec.ResourceClaims) > 0:
		return errors.New("the scheduler allocates its resource claims")
	case pod.Annotations[numaPolicy] != "":
		return fmt.Errorf("the scheduler chooses its NUMA nodes (annotation %s)", numaPolicy)
	}
	for name := range Requests(pod) {
		if slices.ContainsFunc(sharedDevices, func(prefix string) bool { return strings.HasPrefix(string(name), prefix) }) {
			return fmt.Errorf("the scheduler chooses its device (resource %s)", name)
		}
	}
	return nil
}

// ChoosesByPods returns why a pod depends on where other pods are, and nil where it does not.
func ChoosesByPods(pod *corev1.Pod) error {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return errors.New("it has a required pod affinity")
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return errors.New("it has a required pod anti-affinity")
		}
	}
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}) {
		return errors.New("it has a topology spread constraint with DoNotSchedule")
	}
	return nil
}

// Claim returns why a claim for a volume keeps a pod from a node, and nil where it does not. The volume is the one that
// the claim is bound to.
func Claim(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, node *corev1.Node) error {
	if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return fmt.Errorf("claim %s is ReadWriteOncePod", claim.Name)
	}
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return fmt.Errorf("volume %s: %w", volume.Name, err)
	}
	if !selector.Match(node) {
		return fmt.Errorf("volume %s is not for node %s", volume.Name, node.Name)
	}
	return nil
}

// CountsOnNode reports whether a node may take only a number of volumes of this kind, which its CSI driver says.
func CountsOnNode(volume *corev1.PersistentVolume) bool {
	s := &volume.Spec.PersistentVolumeSource
	// The kinds beside CSI are those of cloud disks, which Kubernetes hands to CSI drivers.
	return s.CSI != nil || s.AWSElasticBlockStore != nil || s.AzureDisk != nil || s.Cinder != nil || s.GCEPersistentDisk != nil || s.VsphereVolume != nil
}

// Bound reports whether a claim has its volume.
func Bound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != ""
}
