// What this process wrote and the cache has yet to show. A pass comes right after another, and a
// breaker that missed what the last one let through would let through too much.

package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownWrites are objects of a cluster as this process last wrote them, until the cache has them too.
type ownWrites[P client.Object] struct {
	mu     sync.Mutex
	byName map[string]P
}

func (o *ownWrites[P]) note(obj P) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byName == nil {
		o.byName = map[string]P{}
	}
	o.byName[obj.GetName()] = obj
}

// newer is what was written of an object, or what was read where that is as new.
func (o *ownWrites[P]) newer(read P) P {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, ok := o.byName[read.GetName()]
	if !ok {
		return read
	}
	if order, err := resourceversion.CompareResourceVersion(read.GetResourceVersion(), own.GetResourceVersion()); err != nil || order >= 0 {
		return read
	}
	return own
}

// newest puts what was written in the place of what was read of all there is, and forgets the rest.
func newest[T any, P interface {
	*T
	client.Object
}](o *ownWrites[P], read []T) {
	still := map[string]P{}
	for i := range read {
		if own := o.newer(&read[i]); own != P(&read[i]) {
			still[own.GetName()], read[i] = own, *own
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byName = still
}
