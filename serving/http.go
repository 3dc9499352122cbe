// HTTP servers.

package serving

import (
	"context"
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
	// requestTimeout is how long it has for all of a request, and answerTimeout how long a request may take with its answer.
	requestTimeout, answerTimeout = 30 * time.Second, 45 * time.Second
	// shutdownTimeout is how long requests may go on when the server stops.
	shutdownTimeout = 5 * time.Second
)

// HTTP returns a server whose connections are closed after one request, so that no client keeps one.
func HTTP(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: answerTimeout,
	}
	server.SetKeepAlivesEnabled(false)
	return server
}

// Listen listens at an address, for at most so many connections.
func Listen(ctx context.Context, address string, most int) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return Limit(listener, most), nil
}

// Runnable returns a server that a manager runs on every replica.
func Runnable(name string, listener net.Listener, handler http.Handler) *manager.Server {
	return &manager.Server{Name: name, Server: HTTP(handler), Listener: listener, ShutdownTimeout: new(shutdownTimeout)}
}
