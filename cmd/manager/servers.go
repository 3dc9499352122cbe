// The servers of metrics and probes. Those of controller-runtime take 1 MiB of header from each of any number of connections.

package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/lockstep-dev/lockstep/serving"
)

const (
	// off is the address of a server that does not run.
	off = "0"
	// maxScrapers is how many connections of the server of metrics may have their requests arrive, and how many may be answered, at once.
	maxScrapers = 32
	// maxScrapes are gathered at once, each of which holds all metrics in memory: those that are answered, and as many whose
	// connections have given way and that end soon.
	maxScrapes = 2 * maxScrapers
	// maxProbers is maxScrapers for probes: an answer costs nothing, and a kubelet whose probes fail restarts the manager.
	maxProbers = 256
)

// addServers adds the servers that are on to a manager.
func (o *options) addServers(ctx context.Context, mgr manager.Manager, ready healthz.Checker) error {
	measured, probed := http.NewServeMux(), http.NewServeMux()
	measured.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes,
	}))
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"healthz": healthz.Ping}, "/readyz": {"readyz": ready}} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		probed.Handle(path, handler)
		probed.Handle(path+"/", handler) // and one check alone
	}
	for _, s := range []struct {
		name, flag, address string
		most                int
		server              *http.Server
	}{
		{"metrics", "--metrics-bind-address", o.metricsAddress, maxScrapers, serving.HTTP(measured)},
		{"probes", "--health-probe-bind-address", o.probeAddress, maxProbers, serving.Probes(probed)},
	} {
		if s.address == off || s.address == "" {
			continue
		}
		listener, err := serving.Listen(ctx, s.address, s.most)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", s.flag, s.address, err)
		}
		if err := mgr.Add(serving.Runnable(s.name, listener, s.server)); err != nil {
			return err
		}
	}
	return nil
}
