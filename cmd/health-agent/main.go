// Command health-agent watches the health of a node's GPUs, NVLinks and ports, and logs what
// it finds. It runs on every GPU node.
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

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/health/dcgm"
)

// options are the agent's flags; `health-agent -h` documents them.
type options struct {
	dcgmAddress, dcgmLibrary string
	probeAddress             string
	interval, timeout        time.Duration
	sysfs, procfs            string
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
	probes := serveProbes(o.probeAddress, stop, a.log)
	a.loop(ctx, o.interval)
	return errors.Join(probes.Close(), a.reader.Close(context.Background()))
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
