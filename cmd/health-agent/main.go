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
)

// options are the agent's flags; `health-agent -h` documents them.
type options struct {
	dcgmAddress, dcgmLibrary string
	probeAddress             string
	interval, timeout        time.Duration
	sysfs, procfs            string
	node, kubelet            string
	heartbeat                time.Duration
}

func main() {
	o := parseFlags()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "health-agent:", err)
		os.Exit(1)
	}
}

func parseFlags() *options {
	o := &options{}
	flag.StringVar(&o.dcgmAddress, "dcgm-address", "localhost:5555", "the node's DCGM host engine: unix:///path, host:port, vsock://cid:port, or embedded, which runs one in the agent")
	flag.StringVar(&o.dcgmLibrary, "dcgm-library", "libdcgm.so.4", "file of DCGM's library")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8082", "address of /healthz")
	flag.DurationVar(&o.interval, "interval", 10*time.Second, "time between two polls; DCGM's health checks look back 60 s, so no more than 30s")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Second, "time after which DCGM counts as unreachable")
	flag.StringVar(&o.sysfs, "sysfs", "/sys", "where the node's sysfs is mounted")
	flag.StringVar(&o.procfs, "procfs", "/proc", "where the node's procfs is mounted")
	flag.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "name of the node, in whose NodeHealth to publish; default: $NODE_NAME; without it findings are only logged")
	flag.StringVar(&o.kubelet, "kubelet", "unix:///var/lib/kubelet/pod-resources/kubelet.sock", "the kubelet's PodResources API, which knows who holds which GPU")
	flag.DurationVar(&o.heartbeat, "heartbeat", 5*time.Minute, "how often to publish even if nothing has changed")
	flag.Parse()
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
	host, err := readHost(o.procfs)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	table := health.Default()
	a := &agent{
		reader: dcgm.NewReader(dcgm.Options{
			Address: address, Library: o.dcgmLibrary, Fields: table.Watched(), Interval: o.interval, Timeout: o.timeout,
		}),
		table: table, host: host, ports: os.DirFS(o.sysfs + "/class/infiniband"),
		log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if a.reporter, err = newReporter(o); err != nil {
		return err
	}
	probes := serveProbes(o.probeAddress, stop, a.log)
	a.loop(ctx, o.interval)
	return errors.Join(probes.Close(), a.reader.Close(context.Background()))
}

// newReporter connects to the API server and the kubelet; nil where no node is named.
func newReporter(o *options) (*healthagent.Reporter, error) {
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
	}, nil
}

// serveProbes answers /healthz for as long as the agent runs. It does not ask DCGM: an
// engine that blocks is something to report, and a restart of the agent mends nothing.
func serveProbes(address string, stop func(), log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Error("cannot serve /healthz", "error", err)
			stop()
		}
	}()
	return server
}
