package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/lockstep-dev/lockstep/test/check"
)

// servers is a manager that runs what is added to it.
type servers struct {
	manager.Manager
	t         *testing.T
	addresses map[string]string
}

func (m *servers) Add(r manager.Runnable) error {
	server := r.(*manager.Server)
	m.addresses[server.Name] = server.Listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	m.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
	})
	return nil
}

func TestMetricsAndProbes(t *testing.T) {
	m := &servers{t: t, addresses: map[string]string{}}
	var notReady error
	o := &options{metricsAddress: "127.0.0.1:0", probeAddress: "127.0.0.1:0"}
	if err := o.addServers(t.Context(), m, func(*http.Request) error { return notReady }); err != nil {
		t.Fatal(err)
	}
	get := func(server, path string, header http.Header) (code int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.addresses[server]+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(raw)
	}
	if code, body := get("metrics", "/metrics", nil); code != http.StatusOK || !strings.Contains(body, "\nlockstep_") {
		t.Errorf("/metrics: %d without the manager's metrics", code)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/readyz/readyz": 200, "/readyz/none": 404, "/metrics": 404} {
		code, _ := get("probes", path, nil)
		check.Equal(t, path, want, code)
	}
	notReady = errors.New("not yet")
	code, _ := get("probes", "/readyz", nil)
	check.Equal(t, "/readyz", http.StatusInternalServerError, code)
	for name := range m.addresses {
		code, _ := get(name, "/", http.Header{"A": {strings.Repeat("a", 32<<10)}})
		check.Equal(t, name+": a header of 32 KiB", http.StatusRequestHeaderFieldsTooLarge, code)
	}
}

// scrape is a collector that takes as long as a test has it take.
type scrape func()

func (scrape) Describe(to chan<- *prometheus.Desc) {
	to <- prometheus.NewDesc("slow", "A metric.", nil, nil)
}
func (s scrape) Collect(chan<- prometheus.Metric) { s() }

// Where more requests are being answered than may be, the oldest gives way.
func TestAnswersAtOnceAreBounded(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := func() { arrived <- struct{}{}; <-release }
	metrics.Registry.MustRegister(scrape(slow))
	defer metrics.Registry.Unregister(scrape(slow))
	m := &servers{t: t, addresses: map[string]string{}}
	o := &options{metricsAddress: "127.0.0.1:0", probeAddress: "127.0.0.1:0"}
	if err := o.addServers(t.Context(), m, func(*http.Request) error { slow(); return nil }); err != nil {
		t.Fatal(err)
	}
	defer close(release)
	for server, path := range map[string]string{"metrics": "/metrics", "probes": "/readyz"} {
		var all []net.Conn
		for range map[string]int{"metrics": maxScrapers, "probes": maxProbers}[server] + 1 {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", m.addresses[server])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			<-arrived
			all = append(all, c)
		}
		_ = all[0].SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := all[0].Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the oldest of %d connections does not give way", server, len(all))
		}
	}
}

func TestServersThatAreOff(t *testing.T) {
	m := &servers{t: t, addresses: map[string]string{}}
	if err := (&options{metricsAddress: "0", probeAddress: "0"}).addServers(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "servers", map[string]string{}, m.addresses)
}
