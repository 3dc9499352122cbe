// Attribution: which pods a fault concerns.

package agent

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Attribute says of each report which pods hold what is ill. A fault of a GPU, or of one of
// its links, concerns the pods that hold the GPU; any other one all pods of the node. Where
// the kubelet did not answer (known is false), it concerns those that it did before.
func Attribute(reports, before []v1alpha1.HealthReport, holders map[string][]string, known bool) []v1alpha1.HealthReport {
	out := slices.Clone(reports)
	for i := range out {
		r := &out[i]
		gpu := gpuOf(r.Entity)
		if gpu == "" {
			continue
		}
		if !known {
			if j := slices.IndexFunc(before, func(b v1alpha1.HealthReport) bool { return sameFault(&b, r) }); j >= 0 {
				r.Pods, r.Unused = before[j].Pods, before[j].Unused
			} else {
				r.Unused = true // nobody is moved on a guess
			}
			continue
		}
		r.Pods = holding(holders, gpu)
		r.Unused = len(r.Pods) == 0
	}
	return out
}

// holding are the pods that hold a GPU, or replicas of it: NVIDIA's device plugin names those of a GPU that pods share in time GPU-UUID::0 and so on.
func holding(holders map[string][]string, gpu string) []string {
	pods := slices.Clone(holders[gpu])
	for device, of := range holders {
		if uuid, _, replica := strings.Cut(device, "::"); replica && uuid == gpu {
			pods = append(pods, of...)
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// Spinning are the pods whose GPUs all spin, and are held by no other pod, with since when the last of them does.
func Spinning(gpus map[string]time.Time, holders map[string][]string) []v1alpha1.SpinningPod {
	since, not := map[string]time.Time{}, map[string]bool{}
	for device, pods := range holders {
		began, spins := gpus[device]
		for _, pod := range pods {
			switch {
			case !strings.HasPrefix(device, "GPU-") && !strings.HasPrefix(device, "MIG-"):
			case !spins || len(pods) > 1:
				not[pod] = true
			case began.After(since[pod]):
				since[pod] = began
			}
		}
	}
	var out []v1alpha1.SpinningPod
	for _, pod := range slices.Sorted(maps.Keys(since)) {
		if !not[pod] {
			out = append(out, v1alpha1.SpinningPod{Pod: pod, Since: metav1.NewTime(since[pod]).Rfc3339Copy()})
		}
	}
	return out
}

// gpuOf is the UUID of the GPU that an entity is, or is a part of; empty for others.
func gpuOf(entity string) string {
	kind, id, _ := strings.Cut(entity, "/")
	if kind != "gpu" && kind != "nvlink" {
		return ""
	}
	uuid, _, _ := strings.Cut(id, "/")
	return uuid
}

func sameFault(a, b *v1alpha1.HealthReport) bool {
	return a.Source == b.Source && a.Entity == b.Entity && a.Signal == b.Signal
}
