// Command manager runs Lockstep's controllers.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers"
	"github.com/lockstep-dev/lockstep/controllers/fleet"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/controllers/nvsentinel"
	"github.com/lockstep-dev/lockstep/controllers/tracing"
	"github.com/lockstep-dev/lockstep/health/alerts"
	"github.com/lockstep-dev/lockstep/version"
)

// calm is longer than a decision takes, and too short for people to notice.
const calm = 500 * time.Millisecond

func main() {
	o := parseFlags()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme,
		kueue.AddToScheme, batch.AddToScheme, bus.AddToScheme, scheduling.AddToScheme, topology.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}

// directBinding is nil where it is off.
func (o *options) directBinding(reader client.Reader) *controllers.DirectBinding {
	if !o.bindDirectly {
		return nil
	}
	return &controllers.DirectBinding{Reader: reader, Version: o.volcanoVersion}
}

func run(ctx context.Context, o *options) error {
	if err := o.validate(namespaceFile); err != nil {
		return err
	}
	ctrl.Log.Info("Starting", "version", version.String())
	traces, err := o.tracing.tracer(ctx)
	if err != nil {
		return err
	}
	defer stopTracing(traces)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no cluster to talk to (set --kubeconfig or KUBECONFIG, or run in a pod): %w", err)
	}
	config.QPS, config.Burst = float32(o.qps), o.burst
	if traces != nil {
		config.Wrap(traces.Transport)
	}
	runs := o.part()
	mgr, err := newManager(config, o, runs)
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	begin := &startup{mgr: mgr, kinds: runs.kinds, setUp: func(ctx context.Context) error { return runs.setUp(ctx, mgr, o, traces) }}
	if err := mgr.Add(begin); err != nil {
		return err
	}
	if err := o.addServers(ctx, mgr, begin.Ready); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(config *rest.Config, o *options, runs part) (ctrl.Manager, error) {
	return ctrl.NewManager(config, manager.Options{
		Scheme:                        newScheme(),
		Cache:                         runs.cache,
		NewCache:                      newCache,
		Metrics:                       metricsserver.Options{BindAddress: off}, // servers.go serves them
		HealthProbeBindAddress:        off,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              runs.lease,
		LeaderElectionNamespace:       o.leaderElectNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(20 * time.Second),
	})
}

// part is what a process runs: the controllers of TrainingJobs, or the drainer.
type part struct {
	lease string
	cache cache.Options
	// kinds are those that it reads, but for Kubernetes' own.
	kinds []client.Object
	setUp func(context.Context, ctrl.Manager, *options, *tracing.Tracer) error
}

func (o *options) part() part {
	requests := map[client.Object]cache.ByObject{}
	if o.drainRequests != "" {
		requests[nvsentinel.New()] = nvsentinel.InNamespace(o.drainRequests)
	}
	if o.drainer {
		return part{"drainer.lockstep.dev", cache.Options{ByObject: requests}, slices.Collect(maps.Keys(requests)), setUpDrainer}
	}
	cached := controllers.CacheOptions(o.holdLimits().Resources...)
	maps.Copy(cached.ByObject, requests)
	read := slices.AppendSeq(slices.Clone(kinds), maps.Keys(requests))
	if o.kueue {
		cached.ByObject[&kueue.Workload{}] = kueue.ByObject()
		read = append(read, kueue.Kinds()...)
	}
	return part{"manager.lockstep.dev", cached, read, setUp}
}

// follow has the jobs follow DrainRequests.
func (o *options) follow(ctx context.Context, mgr ctrl.Manager, jobs *controllers.TrainingJobReconciler) error {
	if o.drainRequests == "" {
		return nil
	}
	jobs.DrainRequests = &nvsentinel.Requests{Reader: mgr.GetCache()} // the client reads what has no Go type from the API server
	return nvsentinel.AddIndex(ctx, mgr.GetFieldIndexer())
}

// queue has Kueue decide when jobs run.
func (o *options) queue(ctx context.Context, mgr ctrl.Manager, jobs *controllers.TrainingJobReconciler) error {
	if !o.kueue {
		return nil
	}
	jobs.Admissions = &kueue.Admissions{Cached: mgr.GetClient(), Live: mgr.GetAPIReader()}
	workloads := &kueue.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("lockstep"), Clock: clock.RealClock{}}
	return workloads.SetupWithManager(ctx, mgr)
}

// setUpDrainer adds the drainer, which runs apart, as a service account of its own: it may evict pods of all kinds, and the manager may not.
func setUpDrainer(_ context.Context, mgr ctrl.Manager, _ *options, _ *tracing.Tracer) error {
	drainer := &nvsentinel.Drainer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := drainer.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the drainer: %w", err)
	}
	return nil
}

// setUp adds all that the manager runs.
func setUp(ctx context.Context, mgr ctrl.Manager, o *options, traces *tracing.Tracer) error {
	if err := controllers.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	nodes := &fleet.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("lockstep"), Clock: clock.RealClock{}, Writers: o.writers,
		Calm: calm,
	}
	supervision, err := o.supervision(mgr)
	if err != nil {
		return fmt.Errorf("set up the stream of supervisors: %w", err)
	}
	jobs := &controllers.TrainingJobReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("lockstep"), Clock: clock.RealClock{}, Writers: o.writers,
		Verdicts:      &nodes.Verdicts,
		Traces:        traces,
		DirectBinding: o.directBinding(mgr.GetAPIReader()),
		HoldLimits:    o.holdLimits(),
		Supervision:   supervision,
	}
	if err := o.follow(ctx, mgr, jobs); err != nil {
		return err
	}
	if err := o.queue(ctx, mgr, jobs); err != nil {
		return fmt.Errorf("set up the controller of Kueue's Workloads: %w", err)
	}
	if err := jobs.SetupWithManager(mgr, o.workers); err != nil {
		return fmt.Errorf("set up the TrainingJob controller: %w", err)
	}
	if err := metrics.Registry.Register(&controllers.Gauges{Jobs: mgr.GetClient(), Clock: clock.RealClock{}}); err != nil {
		return fmt.Errorf("register the gauges of jobs: %w", err)
	}
	if err := (&controllers.HoldSweeper{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the hold sweeper: %w", err)
	}
	if err := nodes.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the fleet controller: %w", err)
	}
	if err := alerts.SetupWithManager(ctx, mgr, o.alerts); err != nil {
		return fmt.Errorf("set up the alert receiver: %w", err)
	}
	return nil
}
