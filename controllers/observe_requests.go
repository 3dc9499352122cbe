// What a job's pods request, which decides about its holds.

package controllers

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// requestsOf returns what one pod of each task requests by its template.
func requestsOf(job *v1alpha1.TrainingJob) map[string]corev1.ResourceList {
	requests := make(map[string]corev1.ResourceList, len(job.Spec.Tasks))
	for i := range job.Spec.Tasks {
		requests[job.Spec.Tasks[i].Name] = fit.Requests(fit.PodOf(&job.Spec.Tasks[i].Template))
	}
	return requests
}

// requestsOfPod returns what a pod itself takes of its node: nothing where it is not one that Volcano has made for the job.
func requestsOfPod(pod *corev1.Pod, job *v1alpha1.TrainingJob) corev1.ResourceList {
	kind := schema.FromAPIVersionAndKind(batch.SchemeGroupVersion.String(), "Job").GroupKind()
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != kind ||
		ref.Name != gang.VolcanoJobName(job, numberOf(pod.Labels[v1alpha1.LabelAttempt])) {
		return corev1.ResourceList{}
	}
	return effectiveRequests(pod)
}

// effectiveRequests returns what a pod takes of its node. The cache keeps no containers, and trimPod has noted it instead.
func effectiveRequests(pod *corev1.Pod) corev1.ResourceList {
	if len(pod.Spec.Containers) > 0 {
		return fit.Requests(pod)
	}
	if pod.Spec.Resources == nil || pod.Spec.Resources.Requests == nil {
		return corev1.ResourceList{}
	}
	return pod.Spec.Resources.Requests
}

// noteRequests returns what is kept of a pod's requests: those of cpu and of the resources that decide about holds. A user's template
// may name any number of others.
func noteRequests(pod *corev1.Pod, deciding []corev1.ResourceName) *corev1.ResourceRequirements {
	requests := maps.Clone(effectiveRequests(pod))
	maps.DeleteFunc(requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return name != corev1.ResourceCPU && !slices.Contains(deciding, name)
	})
	return &corev1.ResourceRequirements{Requests: requests}
}
