// A gate between Volcano's controller and the API server, through which a test lets what it wants.

package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// gate is a proxy that refuses to list and watch one resource while it is shut.
type gate struct {
	proxy httputil.ReverseProxy

	mu      sync.Mutex
	shutFor string
	reads   map[*http.Request]context.CancelFunc
	// deleted counts the requests to delete an object, by resource.
	deleted map[string]int
}

// behindGate restarts Volcano's controller so that it talks to the API server through a gate, and
// with one worker, which handles everything in the order in which it hears of it.
func behindGate(t *testing.T) *gate {
	t.Helper()
	transport, err := rest.TransportFor(shared.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := url.Parse(shared.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{reads: map[*http.Request]context.CancelFunc{}, deleted: map[string]int{}}
	g.proxy = httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}
	server := httptest.NewServer(g)

	controller := shared.Component(VolcanoControllerManager)
	args := controller.cmd.Args
	restart := func(ctx context.Context, args []string) {
		t.Helper()
		if err := controller.Kill(); err != nil {
			t.Error(err)
		}
		controller.cmd.Args = args
		if err := controller.Start(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		restart(context.Background(), args)
		server.Close()
	})
	restart(t.Context(), slices.Concat(args, []string{"--master=" + server.URL, "--worker-threads=1"}))
	return g
}

// shut ends all lists and watches of a resource and refuses new ones.
func (g *gate) shut(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutFor = resource
	for request, cancel := range g.reads {
		if path.Base(request.URL.Path) == resource {
			cancel()
		}
	}
}

func (g *gate) open() { g.shut("") }

func (g *gate) deletions(resource string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deleted[resource]
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if !g.enter(r, cancel) {
		http.Error(w, "the gate is shut", http.StatusServiceUnavailable)
		return
	}
	defer g.leave(r)
	g.proxy.ServeHTTP(w, r.WithContext(ctx))
}

func (g *gate) enter(r *http.Request, cancel context.CancelFunc) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r.Method {
	case http.MethodDelete:
		g.deleted[path.Base(path.Dir(r.URL.Path))]++
	case http.MethodGet:
		if path.Base(r.URL.Path) == g.shutFor {
			return false
		}
		g.reads[r] = cancel
	}
	return true
}

func (g *gate) leave(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.reads, r)
}
