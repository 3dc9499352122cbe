// Command health-agent watches the health of a node's GPUs, NVLinks and ports, logs what it
// finds, and publishes it in the node's NodeHealth. It runs on every GPU node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/health"
	healthagent "github.com/lockstep-dev/lockstep/health/agent"
	"github.com/lockstep-dev/lockstep/health/dcgm"
	"github.com/lockstep-dev/lockstep/serving"
	"github.com/lockstep-dev/lockstep/version"
)

// options are the agent's flags; `health-agent -h` documents them.
type options struct {
	dcgmAddress, dcgmLibrary string
	policyDir                string
	probeAddress, metrics    string
	interval, timeout        time.Duration
	sysfs, procfs            string
	node, kubelet            string
	heartbeat                time.Duration
}

func main() {
	o := bindFlags(flag.CommandLine)
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "health-agent:", err)
		os.Exit(1)
	}
}

func bindFlags(flags *flag.FlagSet) *options {
	o := &options{}
	flags.StringVar(&o.dcgmAddress, "dcgm-address", "localhost:5555", "the node's DCGM host engine: unix:///path, host:port, vsock://cid:port, or embedded, which runs one in the agent")
	flags.StringVar(&o.dcgmLibrary, "dcgm-library", "libdcgm.so.4", "file of DCGM's library")
	flags.StringVar(&o.policyDir, "policy-dir", "", "folder with files of rows that go over the default table of signals, such as a mounted ConfigMap; read again when it changes; default: none")
	flags.StringVar(&o.metrics, "metrics-bind-address", ":8083", "address of the metrics endpoint; 0 turns it off")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8082", "address of /healthz; 0 turns it off")
	flags.DurationVar(&o.interval, "interval", 10*time.Second, "time between two polls; DCGM's health checks look back 60 s, so no more than 30s")
	flags.DurationVar(&o.timeout, "timeout", 20*time.Second, "time after which DCGM counts as unreachable")
	flags.StringVar(&o.sysfs, "sysfs", "/sys", "where the node's sysfs is mounted")
	flags.StringVar(&o.procfs, "procfs", "/proc", "where the node's procfs is mounted")
	flags.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "name of the node, in whose NodeHealth to publish; default: $NODE_NAME; without it findings are only logged")
	flags.StringVar(&o.kubelet, "kubelet", "unix:///var/lib/kubelet/pod-resources/kubelet.sock", "the kubelet's PodResources API, which knows who holds which GPU")
	flags.DurationVar(&o.heartbeat, "heartbeat", 5*time.Minute, "how often to publish even if nothing has changed")
	version.AddFlag(flags)
	return o
}

func run(o *options) error {
	address, err := dcgm.ParseAddress(o.dcgmAddress)
	if err != nil {
		return fmt.Errorf("--dcgm-address: %w", err)
	}
	if o.interval <= 0 || o.interval > 30*time.Second {
		return fmt.Errorf("--interval: %s is not between 0 and 30s", o.interval)
	}
	host, err := healthagent.ReadHost(o.procfs)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reader := dcgm.NewReader(dcgm.Options{Address: address, Library: o.dcgmLibrary, Interval: o.interval, Timeout: o.timeout})
	a := &healthagent.Agent{
		DCGM:      reader,
		Overrides: &healthagent.Overrides{},
		Host:      host, Sysfs: os.DirFS(o.sysfs), Metrics: healthagent.NewMetrics(),
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if o.policyDir != "" {
		if _, err := os.ReadDir(o.policyDir); err != nil {
			return fmt.Errorf("--policy-dir: %w", err)
		}
		a.Overrides.Dir = os.DirFS(o.policyDir)
	}
	if a.Reporter, err = newReporter(o, a.Metrics); err != nil {
		return err
	}
	defer serve(o.probeAddress, serving.Probes(only("/healthz", alive)), maxProbers, stop, a.Log)()
	defer serve(o.metrics, serving.HTTP(only("/metrics", a.Metrics.Handler())), maxScrapers, stop, a.Log)()
	a.Run(ctx, o.interval)
	return reader.Close(context.Background())
}

// newReporter connects to the API server and the kubelet; nil where no node is named.
func newReporter(o *options, metrics *healthagent.Metrics) (*healthagent.Reporter, error) {
	if o.node == "" {
		return nil, nil
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to publish to (set --kubeconfig or KUBECONFIG, or run in a pod): %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	kubelet, err := healthagent.DialKubelet(o.kubelet)
	if err != nil {
		return nil, fmt.Errorf("--kubelet: %w", err)
	}
	return &healthagent.Reporter{
		Publisher: &healthagent.Publisher{Client: c, Node: o.node, Source: health.SourceName, Heartbeat: o.heartbeat},
		Holders:   kubelet.Holders,
		Metrics:   metrics,
	}, nil
}

// alive is the answer of /healthz for as long as the agent runs. It does not ask DCGM: an
// engine that blocks is something to report, and a restart of the agent mends nothing.
var alive = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

// maxScrapers and maxProbers are how many connections of either server may have their requests arrive, and how many may be answered,
// at once.
const maxScrapers, maxProbers = 16, 128

// only returns a handler of one path.
func only(path string, handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+path, handler)
	return mux
}

// serve serves at an address until it is closed; where it cannot, the agent stops.
func serve(address string, server *http.Server, most int, stop func(), log *slog.Logger) (closing func()) {
	if address == "0" {
		return func() {}
	}
	go func() {
		listener, err := serving.Listen(context.Background(), address, most)
		if err == nil {
			err = server.Serve(listener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			log.Error("cannot serve", "address", address, "error", err)
			stop()
		}
	}()
	return func() { _ = server.Close() }
}
