// Package predicates says which changes of watched objects a controller looks at.
package predicates

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// OnUpdate lets everything through but updates that do not matter.
func OnUpdate[T client.Object](matters func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return matters(e.ObjectOld.(T), e.ObjectNew.(T)) },
	}
}
