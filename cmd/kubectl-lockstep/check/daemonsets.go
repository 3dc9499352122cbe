// DaemonSets that Lockstep's taints keep away from nodes that need them.

package check

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// kubeletPlugins are the folders in which device plugins, and the drivers of volumes and claims, meet the kubelet.
var kubeletPlugins = []string{"/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"}

// keptAway warns of DaemonSets without which pods cannot start, and whose own pods do not return to a node that is held or in quarantine. The DaemonSet controller
// makes none where a NoSchedule taint is not tolerated, also in the place of one that was updated.
func (r *Result) keptAway(daemonSets []appsv1.DaemonSet) {
	var names []string
	for i := range daemonSets {
		if pod := &daemonSets[i].Spec.Template.Spec; servesPods(pod) && !toleratesHolds(pod) {
			names = append(names, full(&daemonSets[i]))
		}
	}
	if len(names) > 0 {
		r.warning("DaemonSet/"+slices.Min(names), "Pods need what these DaemonSets bring, and a pod of theirs that ends or is updated does not return to a node that a job holds, or that is in quarantine: "+
			some(names)+".", "Give their pods the toleration {operator: Exists, effect: NoSchedule}: tolerations of the charts, daemonsets.tolerations of the GPU Operator's.")
	}
}

// servesPods reports whether a pod serves devices, volumes or claims to those of its node.
func servesPods(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && slices.ContainsFunc(kubeletPlugins, func(dir string) bool {
			return strings.HasPrefix(strings.TrimRight(v.HostPath.Path, "/")+"/", dir+"/")
		})
	})
}

// toleratesHolds reports whether a pod tolerates the taints of any job.
func toleratesHolds(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == "" && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule)
	})
}
