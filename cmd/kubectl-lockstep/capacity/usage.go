// Usage: what pods take of each node, and what each job takes of a queue.

package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
)

// Usage is what the pods of a cluster take, as far as they are on nodes and have not ended.
type Usage struct {
	byNode map[string]corev1.ResourceList
	byJob  map[groupKey]corev1.ResourceList
	groups map[groupKey]*scheduling.PodGroup
}

// groupKey is a PodGroup.
type groupKey struct{ namespace, name string }

// NewUsage is the usage of no pods yet. The PodGroups say which queue those are of that are added.
func NewUsage(groups []scheduling.PodGroup) *Usage {
	u := &Usage{byNode: map[string]corev1.ResourceList{}, byJob: map[groupKey]corev1.ResourceList{}, groups: map[groupKey]*scheduling.PodGroup{}}
	for i := range groups {
		u.groups[groupKey{groups[i].Namespace, groups[i].Name}] = &groups[i]
	}
	return u
}

// UsesNode reports whether a pod has a node and has not ended there.
func UsesNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Add adds a pod. One that uses no node takes nothing.
func (u *Usage) Add(pod *corev1.Pod) {
	if !UsesNode(pod) {
		return
	}
	requests := fit.Requests(pod)
	addTo(u.byNode, pod.Spec.NodeName, requests)
	addTo(u.byJob, groupKey{pod.Namespace, pod.Annotations[scheduling.KubeGroupNameAnnotationKey]}, requests)
}

func addTo[K comparable](to map[K]corev1.ResourceList, key K, more corev1.ResourceList) {
	if to[key] == nil {
		to[key] = corev1.ResourceList{}
	}
	for name, quantity := range more {
		quantity.Add(to[key][name])
		to[key][name] = quantity
	}
}

// hasRoomFor reports whether the pods of a node leave room for another one.
func (u *Usage) hasRoomFor(pod *corev1.Pod, node *corev1.Node) bool {
	for name, asked := range fit.Requests(pod) {
		total := asked.DeepCopy()
		total.Add(u.byNode[node.Name][name])
		if has := node.Status.Allocatable[name]; !asked.IsZero() && total.Cmp(has) > 0 {
			return false
		}
	}
	return true
}

// Users names the jobs that take a resource of a queue, each with how much, those that take the most first. The job that asks is left out.
// A quantity is reserved while the queue has admitted the gang, and its pods have no nodes yet.
func (u *Usage) Users(queue string, name corev1.ResourceName, without *v1alpha1.TrainingJob) []string {
	type user struct {
		text  string
		takes resource.Quantity
	}
	var users []user
	for key, group := range u.groups {
		if group.Spec.Queue != queue || group.Labels[v1alpha1.LabelUID] == string(without.UID) {
			continue
		}
		takes, state := u.byJob[key][name], ""
		if group.Status.Phase == scheduling.PodGroupInqueue && group.Spec.MinResources != nil {
			if reserved := (*group.Spec.MinResources)[name]; reserved.Cmp(takes) > 0 {
				takes, state = reserved, ", reserved: its pods have no nodes yet"
			}
		}
		if !takes.IsZero() {
			users = append(users, user{fmt.Sprintf("%s (%s%s)", userName(group), takes.String(), state), takes})
		}
	}
	slices.SortFunc(users, func(a, b user) int { return cmp.Or(b.takes.Cmp(a.takes), strings.Compare(a.text, b.text)) })
	var out []string
	for _, u := range users {
		out = append(out, u.text)
	}
	return out
}

// userName names the job of a PodGroup. Volcano gives a PodGroup the labels of its Job, and that its owner.
func userName(group *scheduling.PodGroup) string {
	if job := group.Labels[v1alpha1.LabelJob]; job != "" {
		return "TrainingJob " + group.Namespace + "/" + job
	}
	for _, owner := range group.OwnerReferences {
		if owner.Kind == "Job" && owner.APIVersion == batch.SchemeGroupVersion.String() {
			return "Volcano Job " + group.Namespace + "/" + owner.Name
		}
	}
	return "PodGroup " + group.Namespace + "/" + group.Name
}
