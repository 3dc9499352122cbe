// Command manager runs Lockstep's controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
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
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/controllers/tracing"
	"github.com/lockstep-dev/lockstep/controllers/volcano"
	"github.com/lockstep-dev/lockstep/health/alerts"
	"github.com/lockstep-dev/lockstep/version"
)

// calm is longer than a decision takes, and too short for people to notice.
const calm = 500 * time.Millisecond

// options are the manager's flags; `manager -h` documents them.
type options struct {
	metricsAddress, probeAddress string
	leaderElect                  bool
	leaderElectNamespace         string
	workers, writers             int
	qps                          float64
	burst                        int
	bindDirectly                 bool
	volcanoVersion               string
	alerts                       alerts.Options
	supervisors                  supervisors.Options
	supervisorImage              string
	tracing                      tracingOptions
	log                          zap.Options
}

func main() {
	o := parseFlags()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func parseFlags() *options {
	o := &options{}
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint; 0 turns it off")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns them off")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "run one active manager among several replicas")
	flag.StringVar(&o.leaderElectNamespace, "leader-election-namespace", "", "namespace of the leader's lease; default: the manager's own")
	flag.IntVar(&o.workers, "workers", 8, "number of jobs that are looked at side by side")
	flag.IntVar(&o.writers, "writers", 16, "number of pods, or nodes, of one job that are written side by side")
	flag.Float64Var(&o.qps, "kube-api-qps", 500, "requests per second to the API server, sustained")
	flag.IntVar(&o.burst, "kube-api-burst", 1000, "requests to the API server in a burst")
	flag.BoolVar(&o.bindDirectly, "bind-directly", true, "bind a pod that returns to a node which its job has held without the scheduler; only with versions of Volcano that this was tested with")
	flag.StringVar(&o.volcanoVersion, "volcano-version", "", "version of the cluster's Volcano, such as v1.14.1; default: the image tag of the Deployment labelled app=volcano-scheduler")
	flag.StringVar(&o.alerts.Address, "alerts-bind-address", alerts.Off, "address of the receiver of Alertmanager's webhook, such as :9443; 0 turns it off")
	flag.StringVar(&o.alerts.CertDir, "alerts-cert-dir", "", "folder of the receiver's tls.crt and tls.key; read again when they change")
	flag.StringVar(&o.supervisors.BindAddress, "supervisors-bind-address", supervisors.Off, "address of the stream of the supervisors in pods, such as :9444; 0 turns it off, and jobs with spec.supervisor are refused")
	flag.StringVar(&o.supervisors.Address, "supervisors-address", "lockstep-supervisors.lockstep-system.svc:9444", "host:port by which pods reach that stream of the leader")
	flag.StringVar(&o.supervisorImage, "supervisor-image", "", "image of lockstep-run, which pods of jobs with spec.supervisor copy it from")
	o.tracing.bindFlags(flag.CommandLine)
	o.log.BindFlags(flag.CommandLine)
	version.AddFlag(flag.CommandLine)
	flag.Parse()
	return o
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme,
		batch.AddToScheme, bus.AddToScheme, scheduling.AddToScheme, topology.AddToScheme,
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

// supervision is nil where it is off.
func (o *options) supervision(mgr ctrl.Manager) (*controllers.Supervision, error) {
	if o.supervisors.BindAddress == supervisors.Off {
		return nil, nil
	}
	if o.supervisorImage == "" {
		return nil, errors.New("--supervisor-image: name the image of lockstep-run, or turn the stream off with --supervisors-bind-address=0")
	}
	o.supervisors.Namespace = o.leaderElectNamespace
	hub, certificates, err := supervisors.SetupWithManager(mgr, o.supervisors)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(o.supervisors.Address)
	return &controllers.Supervision{
		Pods: volcano.Supervision{Image: o.supervisorImage, Address: o.supervisors.Address, ServerName: host},
		Hub:  hub, Authorities: certificates.Bundle,
	}, err
}

func run(ctx context.Context, o *options) error {
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
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme:                        newScheme(),
		Cache:                         controllers.CacheOptions(),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "manager.lockstep.dev",
		LeaderElectionNamespace:       o.leaderElectNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(20 * time.Second),
	})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	begin := &startup{mgr: mgr, setUp: func(ctx context.Context) error { return setUp(ctx, mgr, o, traces) }}
	if err := mgr.Add(begin); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", begin.Ready); err != nil {
		return err
	}
	return mgr.Start(ctx)
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
		Supervision:   supervision,
	}
	if err := jobs.SetupWithManager(mgr, o.workers); err != nil {
		return fmt.Errorf("set up the TrainingJob controller: %w", err)
	}
	if err := metrics.Registry.Register(&controllers.Gauges{Jobs: mgr.GetClient(), Clock: clock.RealClock{}}); err != nil {
		return fmt.Errorf("register the gauges of jobs: %w", err)
	}
	if err := (&controllers.HoldSweeper{Client: mgr.GetClient(), Clock: clock.RealClock{}}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the hold sweeper: %w", err)
	}
	if err := nodes.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the fleet controller: %w", err)
	}
	if err := alerts.SetupWithManager(mgr, o.alerts); err != nil {
		return fmt.Errorf("set up the alert receiver: %w", err)
	}
	return nil
}
