// Objects as this process last wrote them. The cache may lag behind, and a decision on the older version would repeat or
// contradict the last write.

package writes

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Own are objects of a cluster as this process last wrote them, until the cache has them too.
type Own[P client.Object] struct {
	mu     sync.Mutex
	byName map[string]P
}

// Note keeps an object as it was written.
func (o *Own[P]) Note(obj P) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byName == nil {
		o.byName = map[string]P{}
	}
	o.byName[obj.GetName()] = obj
}

// Newer is what was written of an object, or what was read where that is as new.
func (o *Own[P]) Newer(read P) P {
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

// Newest puts what was written in the place of what was read of all there is, and forgets the rest.
func Newest[T any, P interface {
	*T
	client.Object
}](o *Own[P], read []T) {
	still := map[string]P{}
	for i := range read {
		if own := o.Newer(&read[i]); own != P(&read[i]) {
			still[own.GetName()], read[i] = own, *own
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byName = still
}
