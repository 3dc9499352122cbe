// The TrainingJob controller: one pass from observation to action.

package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/fleet"
	"github.com/lockstep-dev/lockstep/controllers/hypernodes"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/controllers/tracing"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// TrainingJobReconciler keeps TrainingJobs running.
type TrainingJobReconciler struct {
	// Client reads from the cache and writes to the API server.
	client.Client
	// Live reads from the API server, where the cache may not have caught up.
	Live client.Reader
	// Events is where users are told what happens to their jobs.
	Events events.EventRecorder
	// Clock tells the time that decisions are given.
	Clock clock.PassiveClock
	// Writers is how many writes of one kind for one job go out side by side. Default: 1.
	Writers int
	// DirectBinding allows pods that return to nodes which their job has held to be bound without the scheduler; nil allows none.
	DirectBinding *DirectBinding
	// HoldLimits are the limits on the nodes that jobs hold.
	HoldLimits gang.HoldLimits
	// Traces makes spans of recoveries; nil for none.
	Traces *tracing.Tracer
	// Supervision is the manager's side of the supervisors of pods; nil where it offers none.
	Supervision *Supervision
	// Verdicts are those of the fleet controller in this process; nil for what the cache shows of them.
	Verdicts *fleet.Verdicts
	// DrainRequests say which pods leave the nodes that NVSentinel has cordoned; nil where all are to leave a cordoned node.
	DrainRequests *nvsentinel.Requests
	// Admissions say which jobs Kueue has admitted; nil where it has no say.
	Admissions *kueue.Admissions

	topology    hypernodes.Cache
	memories    memories
	checkpoints checkpoints
}

// +kubebuilder:rbac:groups=lockstep.dev,resources=trainingjobs,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=lockstep.dev,resources=trainingjobs/status,verbs=update
// +kubebuilder:rbac:groups=lockstep.dev,resources=trainingjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=lockstep.dev,resources=nodehealths,verbs=get;list;watch
// +kubebuilder:rbac:groups=lockstep.dev,resources=healthpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.volcano.sh,resources=jobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch.volcano.sh,resources=jobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=bus.volcano.sh,resources=commands,verbs=create
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=podgroups,verbs=list;watch;patch
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=queues,verbs=list;watch
// +kubebuilder:rbac:groups=topology.volcano.sh,resources=hypernodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/binding,verbs=create
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// lastingConflict is after how many conflicts in a row one is an error.
const lastingConflict = 10

// Reconcile takes one job one step further. Where others have written meanwhile it looks again soon.
func (r *TrainingJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := r.memories.of(req.NamespacedName)
	m.pass.Lock()
	defer m.pass.Unlock()
	if wait := m.rests.Sub(r.Clock.Now()); wait > 0 && !m.isUrgent() {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	result, err := r.step(ctx, req)
	if err != nil {
		m.rests = time.Time{}
	}
	if n := inARow(&m.conflicts, err != nil && writes.IsConflict(err)); n > 0 && n < lastingConflict {
		log.FromContext(ctx).V(1).Info("Others have written meanwhile", "error", err.Error())
		return ctrl.Result{RequeueAfter: writes.ConflictPause}, nil
	}
	if n := inARow(&m.refusals, isRefused(err)); n > 0 {
		log.FromContext(ctx).V(1).Info("What the job asks for is refused", "error", err.Error())
		retry := retryAfter(n)
		if result.RequeueAfter > 0 {
			retry = min(retry, result.RequeueAfter)
		}
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	if err != nil {
		return ctrl.Result{}, err // controller-runtime has times of its own for errors
	}
	return result, nil
}

// step is one pass. Beside an error of what it did it returns when it is due next.
func (r *TrainingJobReconciler) step(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	job := &v1alpha1.TrainingJob{}
	if err := r.Get(ctx, req.NamespacedName, job); err != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.catchUp(ctx, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	m := r.memoryOf(job)
	if !job.DeletionTimestamp.IsZero() || m.written.isNewerThan(job) {
		return ctrl.Result{}, nil // gone soon, or the cache has yet to show our own last write: its event brings us back
	}
	pass := r.Traces.Pass(job)
	defer func() { pass.End(err) }()
	o, err := r.observe(pass.Stage(ctx, tracing.Observe), job)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observe: %w", err)
	}
	pass.Stage(ctx, tracing.Decide)
	began := r.Clock.Now()
	decision := policies.Decide(o)
	r.rest(job, &decision.Status, r.Clock.Since(began))
	pass.Concerns(&decision.Status)
	m.lack.note(decision.Lacking, o.Now)
	r.reportReturns(o, &decision.Status)
	isRecorded := equality.Semantic.DeepEqual(job.Status, decision.Status)
	if decision.Delete && isRecorded {
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, job, client.Preconditions{UID: &job.UID}))
	}
	if !isRecorded {
		if err := r.confirm(ctx, o, &decision.Status); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.record(pass.Stage(ctx, tracing.Record), job, decision.Status); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		r.report(o, &decision.Status)
	}
	if err = r.act(pass.Stage(ctx, tracing.Act), job, o, &decision.Status); err != nil {
		err = fmt.Errorf("act: %w", err)
	}
	next := instant.Earliest(decision.Next, r.reportSilence(o), m.unheldRetry())
	if next.IsZero() {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(next.Sub(o.Now), writes.MinRequeue)}, err
}
