// Usage: what pods take of each node, and what each job takes of a queue.

package capacity

import (
	"cmp"
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

// Add adds a pod. One without a node, or that has ended, takes nothing.
func (u *Usage) Add(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
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

// HasRoom reports whether the pods of a node leave room for one of a task of a job.
func (u *Usage) HasRoom(job *v1alpha1.TrainingJob, node *corev1.Node) bool {
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool { return u.hasRoomFor(fit.PodOf(&t.Template), node) })
}

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

// User is a job that takes something of a queue.
type User struct {
	// Name of the job with its kind and namespace, such as "TrainingJob research/llama".
	Name string
	// Quantity that its pods take, or that is reserved for them.
	Quantity resource.Quantity
	// Reserved reports that the queue has admitted the gang, and that its pods have no nodes yet.
	Reserved bool
}

// Users are the jobs that take a resource of a queue, those that take the most first. A job does not stand in its own way.
func (u *Usage) Users(queue string, name corev1.ResourceName, without *v1alpha1.TrainingJob) []User {
	var out []User
	for key, group := range u.groups {
		if group.Spec.Queue != queue || group.Labels[v1alpha1.LabelUID] == string(without.UID) {
			continue
		}
		user := User{Name: userName(group), Quantity: u.byJob[key][name]}
		if group.Status.Phase == scheduling.PodGroupInqueue && group.Spec.MinResources != nil {
			if reserved := (*group.Spec.MinResources)[name]; reserved.Cmp(user.Quantity) > 0 {
				user.Quantity, user.Reserved = reserved, true
			}
		}
		if !user.Quantity.IsZero() {
			out = append(out, user)
		}
	}
	slices.SortFunc(out, func(a, b User) int { return cmp.Or(b.Quantity.Cmp(a.Quantity), strings.Compare(a.Name, b.Name)) })
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
