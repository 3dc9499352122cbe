package check

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestDaemonSetsThatTaintsKeepAway(t *testing.T) {
	serves := func(name, path string, tolerations ...corev1.Toleration) func(*Cluster) {
		return func(c *Cluster) {
			d := appsv1.DaemonSet{ObjectMeta: named("kube-system", name)}
			d.Spec.Template.Spec.Tolerations = tolerations
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "other"}, {VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}}
			c.DaemonSets.Items = append(c.DaemonSets.Items, d)
		}
	}
	// As in the chart of NVIDIA's device plugin, deployments/helm/nvidia-device-plugin/values.yaml.
	gpus := []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}, {Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	const warning = "Warning DaemonSet/kube-system/nvidia: Pods need what these DaemonSets bring, and a pod of theirs that ends or is updated does not return to a node that a job holds, or that is in quarantine: "
	expect(t, map[string]change{
		"a device plugin":             {serves("nvidia", "/var/lib/kubelet/device-plugins", gpus...), []string{warning + "kube-system/nvidia."}},
		"a driver of volumes":         {serves("nvidia", "/var/lib/kubelet/plugins/csi.example/", gpus...), []string{warning + "kube-system/nvidia."}},
		"one that tolerates the rest": {serves("nvidia", "/var/lib/kubelet/device-plugins", append(gpus, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})...), nil},
		"one that tolerates all":      {serves("nvidia", "/var/lib/kubelet/device-plugins", corev1.Toleration{Operator: corev1.TolerationOpExists}), nil},
		"one that tolerates evictions": {
			serves("nvidia", "/var/lib/kubelet/plugins_registry", corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}),
			[]string{warning + "kube-system/nvidia."},
		},
		"one that collects logs": {serves("logs", "/var/lib/kubelet/plugins-of-mine"), nil},
		"two": {func(c *Cluster) {
			serves("nvidia", "/var/lib/kubelet/device-plugins", gpus...)(c)
			serves("volumes", "/var/lib/kubelet/plugins")(c)
		}, []string{warning + "kube-system/nvidia, kube-system/volumes."}},
	})
}
