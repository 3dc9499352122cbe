// HTTP servers.

package serving

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxHeader of a request, in bytes; a token is 1 to 2 KiB of them. Go adds 4 KiB to it.
	maxHeader = 16 << 10
	// headerTimeout is how long a client has for its TLS handshake, and for the header of a request.
	headerTimeout = 5 * time.Second
	// probeTimeout and maxProbeHeader are those of a probe: a kubelet sends some 200 bytes at once, and waits 1 s for the answer.
	probeTimeout, maxProbeHeader = time.Second, 4 << 10
	// requestTimeout is how long it has for all of a request, and answerTimeout how long a request may take with its answer.
	requestTimeout, answerTimeout = 30 * time.Second, 45 * time.Second
	// shutdownTimeout is how long requests may go on when the server stops.
	shutdownTimeout = 5 * time.Second
)

// HTTP returns a server whose connections are closed after one request, so that no client keeps one.
func HTTP(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: noted(handler), ConnContext: withConn, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: answerTimeout,
	}
	server.SetKeepAlivesEnabled(false)
	return server
}

// Probes returns a server for requests that are small and are answered at once.
func Probes(handler http.Handler) *http.Server {
	server := HTTP(handler)
	server.ReadHeaderTimeout, server.MaxHeaderBytes = probeTimeout, maxProbeHeader
	return server
}

// noted has the listener know which requests have arrived.
func noted(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := connOf(r.Context()); c != nil {
			c.answering()
		}
		handler.ServeHTTP(w, r)
	})
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request; nil where no Listener has accepted it.
func connOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Listen listens at an address, for at most so many connections of each kind.
func Listen(ctx context.Context, address string, most int) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return Limit(listener, most, most), nil
}

// Runnable returns a server that a manager runs on every replica.
func Runnable(name string, listener net.Listener, server *http.Server) *manager.Server {
	return &manager.Server{Name: name, Server: server, Listener: listener, ShutdownTimeout: new(shutdownTimeout)}
}
