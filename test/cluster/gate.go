// A gate between Volcano's controller and the API server, through which a test lets what it wants.

package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Gate is a proxy that refuses to list and watch one resource while it is shut.
type Gate struct {
	proxy httputil.ReverseProxy

	mu      sync.Mutex
	shutFor string
	reads   map[*http.Request]context.CancelFunc
	// deleted counts the requests to delete an object, by resource.
	deleted map[string]int
}

// GateController restarts Volcano's controller so that it talks to the API server through a gate, and with one worker,
// which handles everything in the order in which it hears of it. Remove takes the gate away.
func (c *Cluster) GateController(ctx context.Context) (g *Gate, remove func(context.Context) error, err error) {
	transport, err := rest.TransportFor(c.RESTConfig())
	if err != nil {
		return nil, nil, err
	}
	upstream, err := url.Parse(c.RESTConfig().Host)
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	g = &Gate{reads: map[*http.Request]context.CancelFunc{}, deleted: map[string]int{}}
	g.proxy = httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}
	server := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()

	controller := c.Component(VolcanoControllerManager)
	args := controller.cmd.Args
	restart := func(ctx context.Context, args []string) error {
		err := controller.Kill()
		controller.cmd.Args = args
		return errors.Join(err, controller.Start(ctx))
	}
	remove = func(ctx context.Context) error { return errors.Join(restart(ctx, args), server.Close()) }
	if err := restart(ctx, slices.Concat(args, []string{"--master=http://" + listener.Addr().String(), "--worker-threads=1"})); err != nil {
		return nil, nil, errors.Join(err, remove(ctx))
	}
	return g, remove, nil
}

// Shut ends all lists and watches of a resource and refuses new ones.
func (g *Gate) Shut(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutFor = resource
	for request, cancel := range g.reads {
		if path.Base(request.URL.Path) == resource {
			cancel()
		}
	}
}

// Open lets everything through.
func (g *Gate) Open() { g.Shut("") }

func (g *Gate) deletions(resource string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deleted[resource]
}

// ServeHTTP lets a request through, or refuses it.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if !g.enter(r, cancel) {
		http.Error(w, "the gate is shut", http.StatusServiceUnavailable)
		return
	}
	defer g.leave(r)
	g.proxy.ServeHTTP(w, r.WithContext(ctx))
}

func (g *Gate) enter(r *http.Request, cancel context.CancelFunc) bool {
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

func (g *Gate) leave(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.reads, r)
}
