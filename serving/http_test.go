package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

const (
	most = 8
	// slow is the path of an answer that ends when it is released.
	slow = "/slow"
)

// watched is a listener that counts what a server takes.
type watched struct {
	net.Listener
	open, peak, bytes atomic.Int64
	release           chan struct{} // ends slow answers
}

func (w *watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w.peak.Store(max(w.peak.Load(), w.open.Add(1)))
	return &watchedConn{Conn: c, of: w}, nil
}

type watchedConn struct {
	net.Conn
	of   *watched
	once sync.Once
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.of.bytes.Add(int64(n))
	return n, err
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

// serve serves "ok" at an address of this machine.
func serve(t *testing.T) *watched {
	t.Helper()
	raw, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := &watched{Listener: raw, release: make(chan struct{})}
	server := HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == slow {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-listener.release:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "ok")
	}))
	go func() { _ = server.Serve(Limit(listener, most, most)) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener
}

func dial(t *testing.T, from string, to net.Addr) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// get is the answer to a client of another address than the crowd's.
func get(t *testing.T, to net.Addr) (body string, keepsOpen bool) {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(t, "127.0.0.2", to), nil }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+to.String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), !response.Close
}

// Headers of 1 MB that do not end are read up to a limit, on no more connections than there may be.
func TestEndlessHeadersAreBounded(t *testing.T) {
	const clients = 4 * most
	w := serve(t)
	var sent sync.WaitGroup
	for range clients {
		c := dial(t, "127.0.0.1", w.Addr())
		sent.Go(func() {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("a", 1<<20)) // until it is closed
		})
	}
	sent.Wait()
	if got := w.bytes.Load(); got > clients*(maxHeader+8<<10) {
		t.Errorf("%d bytes were read of %d clients", got, clients)
	}
	if got := w.peak.Load(); got > most+1 { // the one that is refused
		t.Errorf("%d connections at once, and there may be %d", got, most)
	}
	body, keepsOpen := get(t, w.Addr())
	check.Equal(t, "answer to another client", "ok", body)
	check.Equal(t, "the connection stays open", false, keepsOpen)
}

// Clients that say nothing more do not keep one of another address out.
func TestSilentClientsKeepNobodyOut(t *testing.T) {
	w := serve(t)
	for range 4 * most {
		_, _ = io.WriteString(dial(t, "127.0.0.1", w.Addr()), "GET / HTTP/1.1\r\nA: ")
	}
	body, _ := get(t, w.Addr())
	check.Equal(t, "answer to another client", "ok", body)
	if got := w.peak.Load(); got > most+1 {
		t.Errorf("%d connections at once, and there may be %d", got, most)
	}
}

// Clients at more addresses than there may be connections keep nobody out: one that sends its request at once is answered.
func TestSilentClientsAtManyAddressesKeepNobodyOut(t *testing.T) {
	w := serve(t)
	for i := range 4 * most {
		_, _ = io.WriteString(dial(t, fmt.Sprintf("127.0.1.%d", i+1), w.Addr()), "GET / HTTP/1.1\r\nA: ")
	}
	body, _ := get(t, w.Addr())
	check.Equal(t, "answer to another client", "ok", body)
}

// An answer that takes its time goes on while other clients connect again and again.
func TestNewcomersEndNoAnswer(t *testing.T) {
	w := serve(t)
	scrape := dial(t, "127.0.0.2", w.Addr())
	_, _ = io.WriteString(scrape, "GET "+slow+" HTTP/1.1\r\nHost: a\r\n\r\n")
	first := make([]byte, len("HTTP/1.1 200 OK"))
	if _, err := io.ReadFull(scrape, first); err != nil {
		t.Fatal(err)
	}
	for i := range 4 * most {
		dial(t, fmt.Sprintf("127.0.1.%d", i+1), w.Addr())
	}
	body, _ := get(t, w.Addr())
	check.Equal(t, "answer to another client", "ok", body)
	if got := w.peak.Load(); got > most+2 { // the answer, and the one that gives way
		t.Errorf("%d connections at once", got)
	}
	close(w.release)
	rest, err := io.ReadAll(scrape)
	if err != nil || !strings.Contains(string(rest), "\r\nok\r\n") {
		t.Errorf("the rest of the answer: %q, %v", rest, err)
	}
}

// A server behind TLS knows the connections of its requests, too.
func TestTheConnectionOfARequest(t *testing.T) {
	c := newDoor()
	c.come("a:1")
	conn := c.accepted[c.came[0]]
	check.Equal(t, "its own", true, connOf(withConn(t.Context(), conn)) == conn)
	check.Equal(t, "within TLS", true, connOf(withConn(t.Context(), tls.Server(conn, nil))) == conn)
	check.Equal(t, "of no Listener", true, connOf(withConn(t.Context(), c.came[0])) == nil)
}

func TestAProbeHasLittleTime(t *testing.T) {
	probes := Probes(http.NotFoundHandler())
	check.Equal(t, "for its header", probeTimeout, probes.ReadHeaderTimeout)
	check.Equal(t, "bytes of header", maxProbeHeader, probes.MaxHeaderBytes)
}

// No client has a connection for longer than its request and the answer may take.
func TestARequestHasATime(t *testing.T) {
	server := HTTP(http.NotFoundHandler())
	check.Equal(t, "for its header", headerTimeout, server.ReadHeaderTimeout)
	check.Equal(t, "for all of it", requestTimeout, server.ReadTimeout)
	check.Equal(t, "with its answer", answerTimeout, server.WriteTimeout)
}
