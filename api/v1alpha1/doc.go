// Package v1alpha1 is the Lockstep API: the TrainingJob, and the words (condition
// types, reasons, labels) that every other part of the product uses.
//
// +kubebuilder:object:generate=true
// +groupName=lockstep.dev
package v1alpha1
