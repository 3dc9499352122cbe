// Workloads: what a TrainingJob asks Kueue for.

package kueue

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
)

// IsQueued reports whether Kueue decides when a job runs.
func IsQueued(job *v1alpha1.TrainingJob) bool { return job.Labels[LabelQueue] != "" }

// prebuilt is the Workload that was made for a job; empty for none.
func prebuilt(job *v1alpha1.TrainingJob) string {
	if name := job.Annotations[Prebuilt]; name != "" {
		return name
	}
	return job.Labels[Prebuilt]
}

// maxName leaves room for the rest of a name, which is a label's value as well.
const maxName = 40

// NameFor is the name of the Workload of a job.
func NameFor(job *v1alpha1.TrainingJob) string {
	if name := prebuilt(job); name != "" {
		return name
	}
	hash := sha256.Sum256([]byte(job.UID))
	return "trainingjob-" + job.Name[:min(len(job.Name), maxName)] + "-" + hex.EncodeToString(hash[:])[:5]
}

// workloadFor makes the Workload of a job, but for its priority.
func workloadFor(job *v1alpha1.TrainingJob) *Workload {
	return &Workload{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: NameFor(job), Finalizers: []string{Finalizer},
			Labels:          map[string]string{LabelJobUID: string(job.UID)},
			OwnerReferences: []metav1.OwnerReference{ownerOf(job)},
		},
		Spec: WorkloadSpec{QueueName: job.Labels[LabelQueue], PodSets: podSets(job)},
	}
}

func ownerOf(job *v1alpha1.TrainingJob) metav1.OwnerReference {
	return *metav1.NewControllerRef(job, v1alpha1.GroupVersion.WithKind("TrainingJob"))
}

// podSets are the pods of each task, its spares among them: a spare that takes a rank over needs what the rank has.
func podSets(job *v1alpha1.TrainingJob) []PodSet {
	sets := make([]PodSet, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		spec := task.Template.Spec.DeepCopy()
		fit.DefaultRequests(spec)
		sets[i] = PodSet{Name: task.Name, Count: task.Replicas + ptr.Deref(task.Spares, 0), Template: corev1.PodTemplateSpec{Spec: *spec}}
	}
	return sets
}

// isFor reports whether a Workload is for the pods of a job, or for more of them.
func (w *Workload) isFor(job *v1alpha1.TrainingJob) bool {
	wanted := podSets(job)
	if len(wanted) != len(w.Spec.PodSets) {
		return false
	}
	for i := range wanted {
		is := &w.Spec.PodSets[i]
		if is.Name != wanted[i].Name || is.Count < wanted[i].Count || !equality.Semantic.DeepEqual(claimOf(&is.Template.Spec), claimOf(&wanted[i].Template.Spec)) {
			return false
		}
	}
	return true
}

// counts reports whether a Workload is for as many pods as a job has.
func (w *Workload) counts(job *v1alpha1.TrainingJob) bool {
	for i, wanted := range podSets(job) {
		if w.Spec.PodSets[i].Count != wanted.Count {
			return false
		}
	}
	return true
}

// claim is what Kueue counts of a pod, and chooses its flavors by. The API server sets no defaults in it.
type claim struct {
	Containers, InitContainers []containerClaim
	Resources                  *corev1.ResourceRequirements
	ResourceClaims             []corev1.PodResourceClaim
	RuntimeClassName           *string
	Overhead                   corev1.ResourceList
	NodeSelector               map[string]string
	Affinity                   *corev1.Affinity
	Tolerations                []corev1.Toleration
}

type containerClaim struct {
	Resources     corev1.ResourceRequirements
	RestartPolicy *corev1.ContainerRestartPolicy
}

func claimOf(spec *corev1.PodSpec) claim {
	return claim{
		Containers: claimsOf(spec.Containers), InitContainers: claimsOf(spec.InitContainers), Resources: spec.Resources, ResourceClaims: spec.ResourceClaims,
		RuntimeClassName: spec.RuntimeClassName, Overhead: spec.Overhead, NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
	}
}

func claimsOf(containers []corev1.Container) (all []containerClaim) {
	for i := range containers {
		all = append(all, containerClaim{containers[i].Resources, containers[i].RestartPolicy})
	}
	return all
}

// is reports whether a condition of a Workload is True.
func (w *Workload) is(condition string) bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, condition)
}

// owner is the UID of the TrainingJob that a Workload is of, and its name; empty for none.
func (w *Workload) owner() (uid, name string) {
	if ref := metav1.GetControllerOfNoCopy(w); ref != nil && ref.Kind == "TrainingJob" && ref.APIVersion == v1alpha1.GroupVersion.String() {
		return string(ref.UID), ref.Name
	}
	return "", ""
}

// isFree reports whether a Workload was made for a job, and nobody has taken it yet.
func (w *Workload) isFree(job *v1alpha1.TrainingJob) bool {
	return len(w.OwnerReferences) == 0 && w.DeletionTimestamp.IsZero() && !w.is(ConditionFinished) && w.Labels[LabelOrigin] == job.Labels[LabelOrigin] && w.isFor(job)
}

// waits is why a job may not run by its Workload; empty where it may.
func (w *Workload) waits(job *v1alpha1.TrainingJob) string {
	uid, _ := w.owner()
	switch {
	case uid != string(job.UID):
		return "Workload " + w.Name + " does not belong to the job"
	case w.is(ConditionFinished):
		return "Workload " + w.Name + " is finished: " + w.message(ConditionFinished)
	case !w.DeletionTimestamp.IsZero():
		return "Workload " + w.Name + " is deleted: the job needs another"
	case w.is(ConditionEvicted):
		return "Kueue evicts Workload " + w.Name + ": " + w.message(ConditionEvicted)
	case !w.is(ConditionAdmitted) || w.Status.Admission == nil:
		return "Kueue has not admitted Workload " + w.Name + " to queue " + w.Spec.QueueName + " yet: " + w.message(ConditionQuotaReserved)
	case !w.isFor(job):
		return "Workload " + w.Name + " is for other pods than those of the job"
	}
	for i := range w.Status.Admission.PodSetAssignments {
		if w.Status.Admission.PodSetAssignments[i].TopologyAssignment != nil {
			return "Workload " + w.Name + " has a topology from Kueue, and spec.networkTopology decides on that of a TrainingJob: its queue needs a ResourceFlavor without topologyName"
		}
	}
	return ""
}

func (w *Workload) message(condition string) string {
	if is := meta.FindStatusCondition(w.Status.Conditions, condition); is != nil {
		return is.Message
	}
	return "it has not been looked at"
}
