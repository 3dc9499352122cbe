package alerts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lockstep-dev/lockstep/test/check"
)

// replica is a manager that runs what is added to it, and does not lead.
type replica struct {
	manager.Manager
	t       *testing.T
	address net.Addr
}

func (*replica) GetLogger() logr.Logger { return logr.Discard() }

func (r *replica) Add(runnable manager.Runnable) error {
	if elected, ok := runnable.(manager.LeaderElectionRunnable); !ok || elected.NeedLeaderElection() {
		r.t.Errorf("%T runs on the leader only", runnable)
	}
	if server, ok := runnable.(*manager.Server); ok {
		r.address = server.Listener.Addr()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- runnable.Start(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	return nil
}

// serve has a replica serve a handler, whose certificate the roots know.
func serve(t *testing.T, handler http.Handler) (address string, roots *x509.CertPool) {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &replica{t: t}
	if err := (Options{Address: "127.0.0.1:0", CertDir: dir}).serve(t.Context(), r, handler); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return r.address.String(), roots
}

// Where more requests are being answered than may be, the oldest gives way.
func TestAnswersAtOnceAreBounded(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	address, roots := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release }))
	defer close(release)
	var oldest net.Conn
	for range maxConnections + 1 {
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-arrived
		if oldest == nil {
			oldest = c
		}
	}
	_ = oldest.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := oldest.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest connection does not give way")
	}
}

// Before it is known who calls, connections are of TLS, few, and their headers small.
func TestTheReceiversServer(t *testing.T) {
	address, roots := serve(t, newWorld(t, node("n1")).handler)
	post := func(from, token string) int {
		t.Helper()
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
			DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
		}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+Path, strings.NewReader(payloadJSON(alertOf(firing, "n1", "GPU-a", "A"))))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		check.Equal(t, "protocol", "HTTP/1.1", response.Proto)
		return response.StatusCode
	}
	check.Equal(t, "a token of 32 KiB", http.StatusRequestHeaderFieldsTooLarge, post("127.0.0.1", strings.Repeat("a", 32<<10)))
	for range 2 * maxConnections {
		silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	check.Equal(t, "an alert, beside many that say nothing", http.StatusOK, post("127.0.0.2", goodToken))
}
