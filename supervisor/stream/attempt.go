// One attempt: a connection with one stream on it.

package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// A manager that is gone without a word is found after both times. The manager has to allow pings as often
// (keepalive.EnforcementPolicy): gRPC's default of five minutes ends such a stream.
const (
	pingAfter   = 20 * time.Second
	pingTimeout = 10 * time.Second
)

// window is how much of the manager's messages waits to be taken, in bytes: HTTP/2's default. gRPC would have it grow, and ping the manager after
// each order to find out how far.
const window = 65535

var (
	errClosed = errors.New("the manager has ended the stream")
	errSilent = fmt.Errorf("the manager has sent no order within %s", answerTimeout)
)

// attempt runs one stream to its end. It reports whether the manager has answered on it.
func (c *Client) attempt(ctx context.Context) (answered bool, err error) {
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	token, err := readToken(c.options.TokenFile)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(answerTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	// The header goes with this stream only: a token is read again for each.
	s, err := wire.NewSupervisionClient(conn).Supervise(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err != nil {
		return false, because(ctx, err)
	}
	ended := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.send(s, token, ended)
	}()
	answered, err = c.receive(s, silence)
	close(ended)
	<-sent
	return answered, because(ctx, err)
}

// because prefers the reason for which this side has ended a stream.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (c *Client) dial() (*grpc.ClientConn, error) {
	trusted, err := c.authorities()
	if err != nil {
		return nil, err
	}
	c.trusted = trusted
	config := &tls.Config{RootCAs: trusted.pool, ServerName: c.options.ServerName, MinVersion: tls.VersionTLS13}
	return grpc.NewClient("passthrough:///"+c.options.Address, // the dialer resolves the name, at each attempt
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithNoProxy(), // the manager is in the cluster
		// Buffers of 32 KiB for each direction are the default. A supervisor has little to say.
		grpc.WithReadBufferSize(0),
		grpc.WithWriteBufferSize(4<<10),
		grpc.WithInitialWindowSize(window),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry())
}

func readToken(file string) (string, error) {
	token, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the pod's token: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) == 0 {
		return "", fmt.Errorf("the pod's token: %s is empty", file)
	}
	return string(token), nil
}

// receive delivers orders until the stream ends.
func (c *Client) receive(s wire.Supervision_SuperviseClient, silence *time.Timer) (answered bool, err error) {
	for {
		order, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return answered, errClosed
		}
		if err != nil {
			return answered, err
		}
		if !answered {
			answered = true
			silence.Stop()
			c.options.Connected()
			c.options.Log.Info("A stream to the manager is up", "address", c.options.Address)
		}
		c.renew(order.GetAuthorities())
		c.options.Ordered(order)
	}
}

// send sends the last report when the stream begins and whenever there is another one or a newer token, and ends its side when the
// client is closed. Where it fails, receive gets the reason.
func (c *Client) send(s wire.Supervision_SuperviseClient, token string, ended <-chan struct{}) {
	poll := time.NewTicker(c.options.TokenPoll)
	defer poll.Stop()
	c.wake()
	for sent := 0; ; {
		select {
		case <-ended:
			return
		case <-c.changed:
			sent = c.sendLast(s, "", sent)
		case <-c.closing:
			c.sendLast(s, "", sent)
			_ = s.CloseSend()
			return
		case <-poll.C:
			if now, err := readToken(c.options.TokenFile); err == nil && now != token {
				token = now
				sent = c.sendLast(s, token, 0)
			}
		}
	}
}

// sendLast sends the last report, unless it is the one that was sent last, and returns its number.
func (c *Client) sendLast(s wire.Supervision_SuperviseClient, token string, sent int) (number int) {
	r, number := c.last()
	if r != nil && number != sent {
		r.Token = token
		_ = s.Send(r)
	}
	return number
}
