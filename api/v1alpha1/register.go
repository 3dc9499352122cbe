// Registration of the API's types with a runtime scheme.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of this package: lockstep.dev/v1alpha1.
	GroupVersion = schema.GroupVersion{Group: "lockstep.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &TrainingJob{}, &TrainingJobList{}, &NodeHealth{}, &NodeHealthList{}, &HealthPolicy{}, &HealthPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
