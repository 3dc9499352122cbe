// Streams that share a connection. A process that may have 20,000 files open serves no 64,000 connections, and 64,000 streams on 16,000.

package ranks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision/simulated"
)

// sharedClient has a stream on a connection that others use, too. It does not connect again.
type sharedClient struct {
	options stream.Options
	dial    func() (*grpc.ClientConn, error)
	changed chan struct{}

	mu     sync.Mutex
	report *wire.Report
}

// clientsOf returns what makes the client of a rank: nil for the real one.
func clientsOf(g *Gang) func(rank int) func(stream.Options) simulated.Client {
	if g.Sharing <= 1 {
		return func(int) func(stream.Options) simulated.Client { return nil }
	}
	debug.SetGCPercent(25) // memory is what there is too little of, too
	dials := make([]func() (*grpc.ClientConn, error), (len(g.Ranks)+g.Sharing-1)/g.Sharing)
	for i := range dials {
		address, caFile := g.Addresses[i%len(g.Addresses)], g.Ranks[i*g.Sharing].CAFile
		dials[i] = sync.OnceValues(func() (*grpc.ClientConn, error) { return dial(address, g.ServerName, caFile) })
	}
	return func(rank int) func(stream.Options) simulated.Client {
		return func(o stream.Options) simulated.Client {
			return &sharedClient{options: o, dial: dials[rank/g.Sharing], changed: make(chan struct{}, 1)}
		}
	}
}

// dial is stream.Client's, for several streams.
func dial(address, serverName, caFile string) (*grpc.ClientConn, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(ca) {
		return nil, errors.New(caFile + " has no certificate")
	}
	config := &tls.Config{RootCAs: trusted, ServerName: serverName, MinVersion: tls.VersionTLS13}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithNoProxy(),
		grpc.WithReadBufferSize(0), grpc.WithWriteBufferSize(4<<10), grpc.WithInitialWindowSize(65535), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry())
}

// Report is part of simulated.Client.
func (c *sharedClient) Report(r *wire.Report) {
	c.mu.Lock()
	c.report = r
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Update is part of simulated.Client.
func (c *sharedClient) Update(r *wire.Report) { c.Report(r) }

// Close is part of simulated.Client: the stream ends with Run's context.
func (c *sharedClient) Close(context.Context) {}

// Run is part of simulated.Client.
func (c *sharedClient) Run(ctx context.Context) {
	if err := c.run(ctx); ctx.Err() == nil {
		c.options.Log.Error("A stream on a shared connection has ended", slog.Any("error", err))
		c.options.Disconnected()
	}
}

func (c *sharedClient) run(ctx context.Context) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	token, err := os.ReadFile(c.options.TokenFile)
	if err != nil {
		return err
	}
	s, err := wire.NewSupervisionClient(conn).Supervise(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))))
	if err != nil {
		return err
	}
	go c.send(s)
	for connected := false; ; connected = true {
		order, err := s.Recv()
		if err != nil {
			return err
		}
		if !connected {
			c.options.Connected()
		}
		c.options.Ordered(order)
	}
}

// send sends each report until the stream ends.
func (c *sharedClient) send(s wire.Supervision_SuperviseClient) {
	for {
		select {
		case <-c.changed:
			c.mu.Lock()
			report := proto.CloneOf(c.report)
			c.mu.Unlock()
			_ = s.Send(report) // Recv has the error
		case <-s.Context().Done():
			return
		}
	}
}
