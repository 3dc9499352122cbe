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

// newer is what was written of an object, or else what was read; the former is forgotten then.
func (o *ownWrites[P]) newer(read P) P {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, ok := o.byName[read.GetName()]
	if !ok {
		return read
	}
	order, err := resourceversion.CompareResourceVersion(read.GetResourceVersion(), own.GetResourceVersion())
	if err == nil && order < 0 {
		return own
	}
	delete(o.byName, read.GetName())
	return read
}

// newest puts what was written in the place of what was read.
func newest[T any, P interface {
	*T
	client.Object
}](o *ownWrites[P], read []T) {
	for i := range read {
		read[i] = *o.newer(&read[i])
	}
}
