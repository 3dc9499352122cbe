// The attack by connections: clients without a token at each port of the manager.

package tenants

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// connections to each port at once. Those to metrics and to alerts are more than there may be.
	connections = 160
	// pauseDial is how long a client waits before it connects again.
	pauseDial = time.Second
	// patience is how long a client keeps a connection that the manager does not close.
	patience = 20 * time.Second
)

// insecure accepts any certificate: the attackers do not care which server answers.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// crowd keeps connections to all ports until the context ends.
func (a *attacker) crowd(ctx context.Context) {
	var group sync.WaitGroup
	for _, port := range []struct {
		address string
		dials   *atomic.Int64
		talk    func(ctx context.Context, kind int, c net.Conn)
	}{
		{a.ports.Metrics, &a.counts.MetricsConnections, talkHTTP},
		{a.ports.Alerts, &a.counts.AlertConnections, func(ctx context.Context, kind int, c net.Conn) {
			if secure := tls.Client(c, insecure()); kind == 0 || secure.HandshakeContext(ctx) == nil {
				talkHTTP(ctx, kind, secure)
			}
		}},
		{a.ports.Supervisors, &a.counts.SupervisorStream, talkGRPC},
	} {
		for i := range connections {
			group.Go(func() {
				// Pods have addresses of their own, and so have these clients.
				from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%3))}}
				every(ctx, pauseDial, func(n int) {
					c, err := from.DialContext(ctx, "tcp", port.address)
					if err != nil {
						return
					}
					defer c.Close()
					port.dials.Add(1)
					stop := context.AfterFunc(ctx, func() { _ = c.Close() })
					defer stop()
					_ = c.SetDeadline(time.Now().Add(patience))
					port.talk(ctx, (i+n)%8, c)
				})
			})
		}
	}
	group.Wait()
}

// talkHTTP says nothing, asks for all and sends a lot, or, mostly, sends a header that does not end.
func talkHTTP(_ context.Context, kind int, c net.Conn) {
	switch kind {
	case 0:
		_, _ = io.Copy(io.Discard, io.LimitReader(silent{c}, 1))
		return
	case 1:
		body := strings.Repeat("{", 64<<10)
		_, _ = fmt.Fprintf(c, "POST /alertmanager HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	case 2:
		_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
	default:
		_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("a", 12<<10))
	}
	_, _ = io.Copy(io.Discard, c)
}

// silent reads from the plain connection of a client that has not begun TLS.
type silent struct{ net.Conn }

func (s silent) Read(p []byte) (int, error) {
	if secure, is := s.Conn.(*tls.Conn); is {
		return secure.NetConn().Read(p)
	}
	return s.Conn.Read(p)
}

// talkGRPC opens a stream with a forged token, opens none, or does not even finish the handshake.
func talkGRPC(ctx context.Context, kind int, c net.Conn) {
	switch {
	case kind < 4:
		_, _ = io.Copy(io.Discard, c)
	case kind < 7:
		config := insecure()
		config.NextProtos = []string{"h2"}
		secure := tls.Client(c, config)
		if secure.HandshakeContext(ctx) == nil {
			_, _ = io.Copy(io.Discard, secure)
		}
	default:
		forge(ctx, c)
	}
}

// forge opens a stream with a token that nobody has signed.
func forge(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var once sync.Once
	client, err := grpc.NewClient("passthrough:///manager", grpc.WithTransportCredentials(credentials.NewTLS(insecure())),
		grpc.WithContextDialer(func(context.Context, string) (conn net.Conn, err error) {
			err = net.ErrClosed
			once.Do(func() { conn, err = c, nil })
			return conn, err
		}))
	if err != nil {
		return
	}
	defer client.Close()
	token := strings.Repeat("e", 40) + "." + strings.Repeat("e", 400) + "." + strings.Repeat("e", 86)
	stream, err := wire.NewSupervisionClient(client).Supervise(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err == nil {
		_, _ = stream.Recv()
	}
}
