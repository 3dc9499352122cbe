// Claims: whether the volumes of a pod keep it from a node.

package controllers

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/fit"
)

// claims checks the volumes of pods. Those of one job share most of them.
type claims struct {
	client.Reader
	namespace string

	mu    sync.Mutex
	known map[string]*claimed
}

type claimed struct {
	sync.Once
	claim  corev1.PersistentVolumeClaim
	volume corev1.PersistentVolume
	err    error
}

// check returns why a pod's volumes keep it from a node. Where the node may be new to the pod's rank, as that of a spare is, its room
// for more volumes is the scheduler's to count.
func (c *claims) check(ctx context.Context, pod *corev1.Pod, node *corev1.Node, mayBeNew bool) (refusal, err error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral != nil {
			return fmt.Errorf("volume %s is made for the pod, by way of the scheduler", v.Name), nil
		}
		if v.PersistentVolumeClaim == nil {
			continue
		}
		known := c.get(ctx, v.PersistentVolumeClaim.ClaimName)
		switch {
		case apierrors.IsNotFound(known.err):
			return known.err, nil
		case known.err != nil:
			return nil, known.err
		case !fit.Bound(&known.claim):
			return fmt.Errorf("claim %s is not bound", known.claim.Name), nil
		case mayBeNew && fit.CountsOnNode(&known.volume):
			return fmt.Errorf("the node may be that of a spare, and may have no room for volume %s", known.volume.Name), nil
		}
		if refusal := fit.Claim(&known.claim, &known.volume, node); refusal != nil {
			return refusal, nil
		}
	}
	return nil, nil
}

func (c *claims) get(ctx context.Context, name string) *claimed {
	c.mu.Lock()
	if c.known == nil {
		c.known = map[string]*claimed{}
	}
	known, ok := c.known[name]
	if !ok {
		known = &claimed{}
		c.known[name] = known
	}
	c.mu.Unlock()
	known.Do(func() {
		if known.err = c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, &known.claim); known.err == nil && fit.Bound(&known.claim) {
			known.err = c.Get(ctx, client.ObjectKey{Name: known.claim.Spec.VolumeName}, &known.volume)
		}
	})
	return known
}
