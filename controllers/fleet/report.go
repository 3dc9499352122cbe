// What people are told of the fleet, by events, log lines and metrics: the difference between the verdicts as they were and as
// they were recorded.

package fleet

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

func (r *Reconciler) report(ctx context.Context, f *fleet, d *nodes.Decision) {
	for _, h := range f.Healths {
		r.reportVerdict(ctx, h, d.Verdicts[h.Name])
	}
	if f.told {
		r.reportBreakers(ctx, f.Policy, d.Status.Breakers)
	}
	nodeStates.WithLabelValues(string(v1alpha1.HealthStateFailed)).Set(float64(d.Status.Failed))
	nodeStates.WithLabelValues(string(v1alpha1.HealthStateDegraded)).Set(float64(d.Status.Degraded))
	nodeStates.WithLabelValues(string(v1alpha1.HealthUnknown)).Set(float64(d.Status.Unknown))
	quarantinedNodes.Set(float64(d.Status.Quarantined))
	lemonNodes.Set(float64(d.Status.Lemons))
	heldBackNodes.Set(float64(d.Status.HeldBack))
}

func (r *Reconciler) reportVerdict(ctx context.Context, h *v1alpha1.NodeHealth, is *v1alpha1.HealthVerdict) {
	was := h.Status.Verdict
	if is == nil || is == was {
		return
	}
	if was == nil {
		was = &v1alpha1.HealthVerdict{}
	}
	// Its name for a UID, as in the events of kubelets: `kubectl describe node` looks for that.
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: h.Name, UID: types.UID(h.Name)}}
	message := nodes.Condition(h, is).Message
	switch {
	case was.QuarantinedTime == nil && is.QuarantinedTime != nil:
		quarantines.Inc()
		r.tell(ctx, node, corev1.EventTypeWarning, "Quarantined", "Quarantine", message)
	case was.QuarantinedTime != nil && is.QuarantinedTime == nil:
		r.tell(ctx, node, corev1.EventTypeNormal, "QuarantineEnded", "Quarantine", message)
	case was.HeldBackTime == nil && is.HeldBackTime != nil:
		r.tell(ctx, node, corev1.EventTypeWarning, "HeldBack", "Breaker", message)
	}
}

func (r *Reconciler) reportBreakers(ctx context.Context, p *v1alpha1.HealthPolicy, open []v1alpha1.OpenBreaker) {
	was, is := map[string]bool{}, map[string]bool{}
	for _, b := range p.Status.Breakers {
		was[b.Scope] = true
	}
	kinds := map[string]int{"cluster": 0, "hypernode": 0}
	for _, b := range open {
		is[b.Scope] = true
		kind, _, _ := strings.Cut(b.Scope, "/")
		kinds[kind]++
		if !was[b.Scope] {
			r.tell(ctx, p, corev1.EventTypeWarning, "BreakerOpened", "Breaker", nodes.DescribeBreaker(b))
		}
	}
	for scope := range was {
		if !is[scope] {
			r.tell(ctx, p, corev1.EventTypeNormal, "BreakerClosed", "Breaker", "the breaker of "+nodes.DescribeScope(scope)+" holds nothing back any more")
		}
	}
	for kind, n := range kinds {
		breakersOpen.WithLabelValues(kind).Set(float64(n))
	}
}

// maxNote is the API's limit, in bytes: a longer event is refused.
const maxNote = 1024

func (r *Reconciler) tell(ctx context.Context, obj client.Object, kind, reason, action, note string) {
	r.Events.Eventf(obj, nil, kind, reason, action, "%s", strings.ToValidUTF8(note[:min(len(note), maxNote)], ""))
	about := []any{"name", obj.GetName(), "note", note}
	if reason == "BreakerOpened" { // nothing goes on until a person has looked
		log.FromContext(ctx).Error(nil, reason, about...)
		return
	}
	log.FromContext(ctx).Info(reason, about...)
}
