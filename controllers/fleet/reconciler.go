// Package fleet has two controllers over all nodes. One turns reports into verdicts, for all nodes in one pass, because the
// breaker counts. The other applies taints and conditions, separately, so that reports do not wait for it.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies/nodes"
)

// Reconciler says of every node whether it is ill, keeps jobs from those that have
// failed, and stops where too many are.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	client.Client
	// Live reads from the API server, where the cache may not have caught up.
	Live client.Reader
	// Events is where people are told what happens to nodes.
	Events events.EventRecorder
	// Clock tells the time that decisions are given.
	Clock clock.PassiveClock
	// Writers is how many writes of one kind go out side by side. Default: 1.
	Writers int
	// Calm is how long no verdict must have been written before people are told of the last ones:
	// in conditions, in the counts of the HealthPolicy, and by the taint that keeps no job away. Default: 0.
	Calm time.Duration
	// Verdicts are those that were recorded.
	Verdicts Verdicts

	topology hypernodes.Cache
	caughtUp bool // the first look at verdicts was at the API server
	actedOn  bool // and so was the first that acts on them
	storm    storm
	// What this process wrote and the cache may not show yet, beside verdicts.
	policies   writes.Own[*v1alpha1.HealthPolicy]
	hyperNodes writes.Own[*topologyv1alpha1.HyperNode]
	nodes      writes.Own[*corev1.Node]
	// missed is since when nodes that have a NodeHealth are gone, by name.
	missed map[string]time.Time
}

// +kubebuilder:rbac:groups=lockstep.dev,resources=nodehealths,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=lockstep.dev,resources=nodehealths/status,verbs=patch
// +kubebuilder:rbac:groups=lockstep.dev,resources=healthpolicies,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=lockstep.dev,resources=healthpolicies/status,verbs=update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups=topology.volcano.sh,resources=hypernodes,verbs=list;watch
// +kubebuilder:rbac:groups=topology.volcano.sh,resources=hypernodes/status,verbs=patch

// fleet is what one pass has seen.
type fleet struct {
	nodes.Fleet
	nodes []corev1.Node
	// read are the NodeHealths as they were read, by name.
	read map[string]*v1alpha1.NodeHealth
	// missing are nodes that need a NodeHealth, outlived the NodeHealths that no node needs.
	missing  []string
	outlived []*v1alpha1.NodeHealth
	// behind reports whether a write has run into another one: the next pass tries it again.
	behind atomic.Bool
	// more reports whether this pass leaves something to the next one.
	more bool
	// calmIn is how long what can wait has to.
	calmIn time.Duration
	// told reports whether the status of the HealthPolicy is as was decided.
	told bool
}

// requeueAfter is when the work that this pass has deferred is due.
func (f *fleet) requeueAfter() ctrl.Result {
	switch {
	case f.more:
		return ctrl.Result{RequeueAfter: writes.MinRequeue}
	case f.behind.Load():
		return ctrl.Result{RequeueAfter: writes.ConflictPause}
	}
	return ctrl.Result{RequeueAfter: f.calmIn}
}

// later drops the error of a write that has run into another one.
func (f *fleet) later(err error) error {
	if err != nil && writes.Overtaken(err) == nil {
		f.behind.Store(true)
		return nil
	}
	return err
}

// Reconcile takes all nodes one step further.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	f, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observe: %w", err)
	}
	decision := nodes.Decide(&f.Fleet)
	failed := r.record(ctx, f, &decision)
	r.report(ctx, f, &decision)
	if err := errors.Join(failed, r.keep(ctx, f)); err != nil {
		return ctrl.Result{}, err
	}
	if again := f.requeueAfter(); !again.IsZero() || decision.Next.IsZero() {
		return again, nil
	}
	return ctrl.Result{RequeueAfter: max(decision.Next.Sub(f.Now), writes.MinRequeue)}, nil
}

// observe looks at all nodes. The first look of a process is at the API server itself, so
// that what the process before it admitted counts.
func (r *Reconciler) observe(ctx context.Context) (*fleet, error) {
	f, healths, err := r.list(ctx, !r.caughtUp)
	if err != nil {
		return nil, err
	}
	if f.Policy, err = r.policy(ctx); err != nil {
		return nil, err
	}
	r.caughtUp = true
	writes.Newest(&r.Verdicts.own, healths)
	f.join(healths)
	r.miss(f)
	return f, nil
}

// list reads the nodes and their NodeHealths; the latter live, where the cache may have yet to
// show what another process wrote.
func (r *Reconciler) list(ctx context.Context, live bool) (*fleet, []v1alpha1.NodeHealth, error) {
	hyperNodes, err := r.topology.Get(ctx, r.Client)
	if err != nil {
		return nil, nil, err
	}
	all, healths := &corev1.NodeList{}, &v1alpha1.NodeHealthList{}
	if err := r.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	var reader client.Reader = r.Client
	if live {
		reader = r.Live
	}
	if err := reader.List(ctx, healths, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list NodeHealths: %w", err)
	}
	f := &fleet{Fleet: nodes.Fleet{Now: r.Clock.Now(), Topology: hyperNodes, Nodes: len(all.Items)}, nodes: all.Items}
	return f, healths.Items, nil
}

// join brings nodes and their NodeHealths together, with what other tools say in the nodes'
// conditions.
func (f *fleet) join(healths []v1alpha1.NodeHealth) {
	f.read = make(map[string]*v1alpha1.NodeHealth, len(healths))
	for i := range healths {
		f.read[healths[i].Name] = &healths[i]
	}
	f.Machines = nodes.MachinesOf(f.nodes)
	for i := range healths {
		if _, exists := f.Machines[healths[i].Name]; !exists {
			f.Gone = append(f.Gone, &healths[i])
		}
	}
	former := nodes.QuarantinedMachines(&f.Fleet)
	for i := range f.nodes {
		node := &f.nodes[i]
		h := nodes.WithConditions(f.read[node.Name], node, &f.Policy.Spec)
		switch {
		case h == nil && former.Of(f.Machines[node.Name]) == nil:
		case f.read[node.Name] == nil:
			f.missing = append(f.missing, node.Name) // its entries follow once it is there
		default:
			f.Healths = append(f.Healths, h)
		}
	}
	slices.SortFunc(f.Healths, func(a, b *v1alpha1.NodeHealth) int { return strings.Compare(a.Name, b.Name) })
}

// outliveFor is how long a NodeHealth is kept after its node is gone: a node that is
// repaired may come back under its name, and its faults are not mended by that.
const outliveFor = 24 * time.Hour

// quarantineOutlivesFor is the same of one in quarantine, which its health alone ends: a machine that is replaced never comes back.
const quarantineOutlivesFor = 30 * 24 * time.Hour

// miss finds the NodeHealths whose nodes have been gone for long enough.
func (r *Reconciler) miss(f *fleet) {
	missed := map[string]time.Time{}
	for _, h := range f.Gone {
		since, ok := r.missed[h.Name]
		if !ok {
			since = f.Now
		}
		missed[h.Name] = since
		limit := outliveFor
		if nodes.Quarantined(h) {
			limit = quarantineOutlivesFor
		}
		if f.Now.Sub(since) >= limit {
			f.outlived = append(f.outlived, h)
		}
	}
	r.missed = missed
}

// policy is the HealthPolicy, which is made where it is missing.
func (r *Reconciler) policy(ctx context.Context) (*v1alpha1.HealthPolicy, error) {
	p := &v1alpha1.HealthPolicy{}
	err := r.Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p)
	if err == nil {
		return r.policies.Newer(p), nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	p = &v1alpha1.HealthPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HealthPolicyName}}
	if err := r.Create(ctx, p); err != nil {
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("make the HealthPolicy: %w", err)
		}
		return p, r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.HealthPolicyName}, p)
	}
	return p, nil
}
