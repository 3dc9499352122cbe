// Package supervision has the two ends of a supervisor, for its tests: a manager that says what a test says, over gRPC and TLS, and a
// program that does what a test says.
package supervision

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// ServerName is the name in the manager's certificate.
const ServerName = "supervision.lockstep.test"

// Manager takes the streams of supervisors.
type Manager struct {
	wire.UnimplementedSupervisionServer
	t *testing.T
	// Address, and the files of its CA and of a pod's token.
	Address, CAFile, TokenFile string
	certificate                tls.Certificate
	serial                     int64
	streams                    chan *Stream
	server                     *grpc.Server
	served                     <-chan struct{}
}

// Stream is that of one supervisor.
type Stream struct {
	t *testing.T
	// Authorization is the header that it came with.
	Authorization []string
	reports       chan *wire.Report
	orders        chan *wire.Order
	end           chan error
	ended         chan struct{}
}

// NewManager returns a manager that listens.
func NewManager(t *testing.T) *Manager {
	dir := t.TempDir()
	m := &Manager{t: t, CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token"), streams: make(chan *Stream, 16)}
	m.Write(m.TokenFile, "token-1\n")
	m.NewCA()
	m.Listen("127.0.0.1:0")
	t.Cleanup(func() { m.Stop() })
	return m
}

// Write replaces a file as the kubelet does, at once.
func (m *Manager) Write(file, text string) {
	m.t.Helper()
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		m.t.Fatal(err)
	}
}

// NewCA gives the manager another certificate from another CA, and the pod that CA.
func (m *Manager) NewCA() {
	m.t.Helper()
	m.Write(m.CAFile, m.NewCertificate(time.Now()))
}

// NewCertificate gives the manager that listens next another certificate from another CA, which was made at a time and holds two hours. It
// returns the CA's, in PEM.
func (m *Manager) NewCertificate(made time.Time) string {
	m.t.Helper()
	m.serial++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		m.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(m.serial), Subject: pkix.Name{CommonName: ServerName}, DNSNames: []string{ServerName},
		NotBefore: made.Add(-time.Hour), NotAfter: made.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		m.t.Fatal(err)
	}
	m.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Listen serves at an address, such as that of a manager that was stopped.
func (m *Manager) Listen(address string) {
	m.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Address = listener.Addr().String()
	m.server = grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&m.certificate)), grpc.InitialWindowSize(65535),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	wire.RegisterSupervisionServer(m.server, m)
	served := make(chan struct{})
	go func(s *grpc.Server) {
		defer close(served)
		_ = s.Serve(listener)
	}(m.server)
	m.served = served
}

// Stop ends all streams without a word, and listens no more.
func (m *Manager) Stop() {
	m.server.Stop()
	<-m.served // it listens until then where it was about to begin
}

// Supervise serves a stream as the test says.
func (m *Manager) Supervise(server wire.Supervision_SuperviseServer) error {
	s := &Stream{
		t: m.t, Authorization: metadata.ValueFromIncomingContext(server.Context(), "authorization"),
		reports: make(chan *wire.Report, 64), orders: make(chan *wire.Order, 64), end: make(chan error, 1), ended: make(chan struct{}),
	}
	m.streams <- s
	go s.receive(server)
	for {
		select {
		case o := <-s.orders:
			if err := server.Send(o); err != nil {
				return err
			}
		case err := <-s.end:
			return err
		case <-s.ended: // the supervisor has ended its side
			return nil
		case <-server.Context().Done():
			return context.Cause(server.Context())
		}
	}
}

func (s *Stream) receive(server wire.Supervision_SuperviseServer) {
	defer close(s.ended)
	for {
		r, err := server.Recv()
		if err != nil {
			return
		}
		s.reports <- r
	}
}

// Next waits for the next stream.
func (m *Manager) Next() *Stream {
	m.t.Helper()
	return Receive(m.t, m.streams, "stream")
}

// Order sends an order.
func (s *Stream) Order(o *wire.Order) { s.orders <- o }

// End ends the stream.
func (s *Stream) End(err error) { s.end <- err }

// Ended waits until the supervisor has ended the stream.
func (s *Stream) Ended() {
	s.t.Helper()
	Receive(s.t, s.ended, "end of the stream")
}

// Report waits for the next report.
func (s *Stream) Report() *wire.Report {
	s.t.Helper()
	return Receive(s.t, s.reports, "report")
}

// Await waits for the report of a state, and returns it with the states that came before.
func (s *Stream) Await(state wire.State) (r *wire.Report, before []wire.State) {
	s.t.Helper()
	for {
		if r = s.Report(); r.State == state {
			return r, before
		}
		before = append(before, r.State)
	}
}
