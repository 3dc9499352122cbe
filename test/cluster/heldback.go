// A second API server on the same etcd, which can be held back: it takes writes and reads single objects as they are, and its lists and
// watches stay as they were. An API server whose watch of etcd is slow behaves so, too.

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// HeldBack is an API server that can be held back.
type HeldBack struct {
	// URL is where it serves.
	URL string

	process *Process
	cluster *Cluster
	proxy   *http.Server

	mu   sync.Mutex
	held []string
	// changed is closed when other keys are held back.
	changed chan struct{}
}

// AddHeldBack starts a second API server, which logs to a file of its own what the first one's audit policy says. It begins a list with
// what its watch cache has, as API servers without the feature WatchList do.
func (c *Cluster) AddHeldBack(ctx context.Context, auditLog string) (*HeldBack, error) {
	if c.plan == nil {
		return nil, errNotOurs
	}
	h := &HeldBack{cluster: c, changed: make(chan struct{})}
	p := *c.plan
	free, release, err := claimPorts(2)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.releases = append(c.releases, release)
	c.mu.Unlock()
	if err := h.forward(p.ports.etcd, free[0]); err != nil {
		return nil, err
	}
	p.ports.etcd, p.ports.apiServer = free[0], free[1]
	p.options.AuditLog = auditLog
	command, err := p.apiServer()
	if err != nil {
		return nil, err
	}
	command.Name += "-held-back"
	command.Args = append(command.Args, "--feature-gates=WatchList=false")
	h.URL = p.serverURL()
	h.process, err = c.Run(ctx, command)
	return h, err
}

// Stop ends it.
func (h *HeldBack) Stop() error {
	h.Release()
	err := h.process.Kill()
	h.cluster.forget(h.process)
	_ = h.proxy.Close()
	return err
}

// Hold keeps from it what is written to keys of etcd that contain one of these words, as in "/pods/".
func (h *HeldBack) Hold(words ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = words
	close(h.changed)
	h.changed = make(chan struct{})
}

// Release lets it know everything.
func (h *HeldBack) Release() { h.Hold() }

// forward passes what comes to a port on to etcd, except what watches are told while their keys are held back.
func (h *HeldBack) forward(etcd, port int) error {
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true) // gRPC is nothing else
	upstream := &url.URL{Scheme: "http", Host: loopback(etcd)}
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Transport:     &http.Transport{Protocols: &plain},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // an API server that ends closes all its watches
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header["Te"] = []string{"trailers"}
			if strings.HasSuffix(r.In.URL.Path, "/Watch") {
				asked := &watchRequest{ReadCloser: r.Out.Body}
				r.Out = r.Out.WithContext(context.WithValue(r.Out.Context(), watchKey{}, asked))
				r.Out.Body = asked
			}
		},
		ModifyResponse: func(r *http.Response) error {
			ctx := r.Request.Context()
			if asked, ok := ctx.Value(watchKey{}).(*watchRequest); ok {
				r.Body = &watchAnswer{ReadCloser: r.Body, ctx: ctx, asked: asked, from: h}
			}
			return nil
		},
	}
	h.proxy = &http.Server{Handler: proxy, Protocols: &plain, ReadHeaderTimeout: time.Minute}
	go func() { _ = h.proxy.Serve(listener) }()
	return nil
}

// watchKey is that of the watchRequest in the context of a request.
type watchKey struct{}

// holds reports whether keys are held back, and what is closed when others are.
func (h *HeldBack) holds(keys []byte) (held bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.held, func(word string) bool { return bytes.Contains(keys, []byte(word)) }), h.changed
}

// watchRequest is what an API server asks etcd to watch. It has a stream for each resource.
type watchRequest struct {
	io.ReadCloser
	mu   sync.Mutex
	keys []byte
}

// maxKeys is how much is kept of a request: its keys come first.
const maxKeys = 1 << 10

func (w *watchRequest) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, p[:min(n, maxKeys-len(w.keys))]...)
	return n, err
}

func (w *watchRequest) seen() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.keys)
}

// watchAnswer is what etcd tells a watch.
type watchAnswer struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // that of the request
	asked *watchRequest
	from  *HeldBack
}

func (w *watchAnswer) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	for {
		held, changed := w.from.holds(w.asked.seen())
		if !held {
			return n, err
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return 0, fmt.Errorf("the watch is over: %w", w.ctx.Err())
		}
	}
}
