// One life of the operator: the manager and its controllers as in cmd/manager, in
// this process, with a wire that can break and a clock that can be stopped.

package chaos

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lockstep-dev/lockstep/controllers"
	"github.com/lockstep-dev/lockstep/controllers/fleet"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/health/alerts"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// setting is what the lives of an operator have in common. It knows one namespace and one pool of nodes, so that many can run side by side.
type setting struct {
	config    *rest.Config
	wire      *wire
	clock     *stoppable
	namespace string
	pool      map[string]string
	log       io.Writer
	// supervisors says where the server of supervisors is, which may be off.
	supervisors supervisors.Options
	// elected reports whether it has to be the leader before it does anything.
	elected bool
	// fleet reports whether it looks after nodes, too.
	fleet bool
}

// A leader that dies is missed after leaseTime, so that a test does not wait for the 15 s of cmd/manager.
const leaseTime, renewTime, retryTime = 3 * time.Second, 2 * time.Second, 200 * time.Millisecond

// leaseName is that of the leader's Lease, in the namespace of the lane.
const leaseName = "lockstep"

// volcanoVersion is that of the test cluster, by which pods are bound directly as they are by the shipped manager.
const volcanoVersion = "v1.14.1"

// life is one process of the operator.
type life struct {
	config *rest.Config
	clock  observed
	wire   *wire
	jobs   *controllers.TrainingJobReconciler
	holds  *controllers.HoldSweeper
	fleet  *fleet.Reconciler // nil where it does not look after nodes
	alerts *alerts.Receiver  // likewise
	lane   string
	dead   atomic.Bool
	stop   context.CancelFunc
	ended  chan error
}

// begin starts an operator, and returns once its caches are filled.
func begin(o setting) (*life, error) {
	ctx, stop := context.WithCancel(context.Background())
	l := &life{config: o.config, clock: observed{stoppable: o.clock}, wire: o.wire, lane: o.namespace, stop: stop, ended: make(chan error, 1)}
	config := rest.CopyConfig(o.config)
	config.Wrap(l.transport)
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme:                  testCluster.Client().Scheme(),
		Logger:                  zap.New(zap.WriteTo(o.log), zap.UseDevMode(true)),
		Cache:                   narrowed(controllers.CacheOptions(gpuResource), o.namespace, o.pool),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		Controller:              ctrlconfig.Controller{SkipNameValidation: new(true)},
		GracefulShutdownTimeout: ptr.To[time.Duration](-1), // end waits for it
		LeaderElection:          o.elected, LeaderElectionID: leaseName, LeaderElectionNamespace: o.namespace,
		LeaseDuration: new(leaseTime), RenewDeadline: new(renewTime), RetryPeriod: new(retryTime),
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return l.client(c), nil
		},
	})
	if err != nil {
		return l, err
	}
	l.jobs = &controllers.TrainingJobReconciler{
		Client: mgr.GetClient(), Live: live{mgr.GetAPIReader(), l}, Events: mgr.GetEventRecorder("lockstep"), Clock: &l.clock,
		HoldLimits:    gang.HoldLimits{Resources: []corev1.ResourceName{gpuResource}},
		DirectBinding: &controllers.DirectBinding{Version: volcanoVersion},
	}
	l.holds = &controllers.HoldSweeper{Client: mgr.GetClient(), Live: live{mgr.GetAPIReader(), l}, Clock: o.clock}
	if o.fleet {
		l.fleet = &fleet.Reconciler{Client: mgr.GetClient(), Live: live{mgr.GetAPIReader(), l}, Events: mgr.GetEventRecorder("lockstep"), Clock: o.clock}
		l.jobs.Verdicts = &l.fleet.Verdicts
	}
	if err := l.setUp(ctx, mgr, o.supervisors); err != nil {
		return l, err
	}
	go func() {
		err := mgr.Start(ctx)
		l.dead.Store(true)
		l.ended <- err
	}()
	mgr.GetCache().WaitForCacheSync(ctx)
	return l, nil
}

// setUp adds the controllers to a manager, as cmd/manager does.
func (l *life) setUp(ctx context.Context, mgr ctrl.Manager, o supervisors.Options) error {
	if err := controllers.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	hub, certificates, err := supervisors.SetupWithManager(mgr, o)
	if err != nil {
		return err
	}
	if hub != nil {
		l.jobs.Supervision = &controllers.Supervision{
			Pods: volcano.Supervision{Image: "lockstep-run", Address: o.Address, ServerName: localhost},
			Hub:  hub, Authorities: certificates.Bundle,
		}
	}
	if l.fleet != nil {
		if err := l.setUpFleet(mgr); err != nil {
			return err
		}
	}
	if err := l.jobs.SetupWithManager(mgr, 2); err != nil {
		return err
	}
	return l.holds.SetupWithManager(mgr)
}

// setUpFleet adds the fleet controller and the receiver of alerts. The receiver has its own client. Tests call it directly, without its server.
func (l *life) setUpFleet(mgr ctrl.Manager) error {
	own, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	l.alerts = &alerts.Receiver{Cluster: mgr.GetClient(), Store: &alerts.Store{Client: l.client(own)}}
	return l.fleet.SetupWithManager(mgr)
}

// narrowed leaves of what is cached one namespace and the nodes of one pool.
func narrowed(o cache.Options, namespace string, pool map[string]string) cache.Options {
	o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	for obj, by := range o.ByObject {
		if _, ok := obj.(*corev1.Node); ok {
			by.Label = labels.SelectorFromSet(pool)
			o.ByObject[obj] = by
		}
	}
	return o
}

// crash ends a life at once: no further call leaves it.
func (l *life) crash() {
	l.dead.Store(true)
	l.stop()
}

func (l *life) over() bool { return l.dead.Load() }

// end crashes a life, if it has not, and returns when nothing of it is left. One that is no longer the leader has ended by itself.
func (l *life) end() error {
	l.crash()
	err := <-l.ended
	if err != nil && err.Error() == "leader election lost" {
		return nil
	}
	return err
}

// observed is the clock of one life. Each look at a job begins with it.
type observed struct {
	*stoppable
	looks atomic.Int32
}

// Now tells the time, and notes that it was asked for.
func (c *observed) Now() time.Time {
	now := c.stoppable.Now()
	c.looks.Add(1)
	return now
}

// stoppable is a clock that can be stopped, and set. Whoever asks it for the time waits until
// it goes on: nothing is observed meanwhile, so that all that happens then is seen at once.
type stoppable struct {
	clock.RealClock
	stopped sync.RWMutex
	// ahead is how many nanoseconds it is ahead of all other clocks.
	ahead atomic.Int64
}

// advance sets it forward.
func (c *stoppable) advance(by time.Duration) { c.ahead.Add(int64(by)) }

// Since tells how long ago something was.
func (c *stoppable) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Now tells the time.
func (c *stoppable) Now() time.Time {
	c.stopped.RLock()
	defer c.stopped.RUnlock()
	return c.RealClock.Now().Add(time.Duration(c.ahead.Load()))
}
