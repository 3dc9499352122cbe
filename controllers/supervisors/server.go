// The server of the streams. Only the leader runs it, since only the leader decides.

package supervisors

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	grpcpeer "google.golang.org/grpc/peer"
	"k8s.io/utils/clock"

	"github.com/lockstep-dev/lockstep/serving"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	// maxStreams is how many connections there may be: a hundred thousand pods, and as many again that connect a second time before their
	// first connection is known to be lost. There are fewer where the process may not have as many files open, of which otherFiles are for everything
	// else, or has less memory than streamMemory for each, in bytes.
	maxStreams   = 200_000
	otherFiles   = 1000
	streamMemory = 128 << 10
	// maxUnknown is how many more there may be of clients that have not shown which pod they are, those apart that wait for their turn to do so.
	// Where there are more, the address with the most gives one up: clients without a token keep no pod out. A supervisor that finds no room
	// tries again.
	maxUnknown = 4000
	// maxReport is how large a message may be, in bytes: a termination message and a token are 4 KiB or less each.
	maxReport = 16 << 10
	// maxHeaders is how large a stream's metadata may be, in bytes; a token is 1 to 2 KiB of them.
	maxHeaders = 16 << 10
	// streamsPerConnection has room for a stream that replaces another.
	streamsPerConnection = 4
	// window is how much of a pod's messages waits to be taken, in bytes: HTTP/2's default. gRPC would let it grow to 16 MiB.
	window = 65535
	// handshakeTimeout is how long a client has until its first message has come, and then from its turn on until the connection is ready.
	handshakeTimeout = 10 * time.Second
	// idleTimeout is how long a connection may have no stream, as that of a client without a token. A supervisor opens its stream at once.
	idleTimeout = 5 * time.Second
	// pingEvery and pingTimeout find connections to nodes that are gone.
	pingEvery, pingTimeout = 30 * time.Second, 10 * time.Second
	// minPingInterval is how often a supervisor may ping.
	minPingInterval = 10 * time.Second
)

// Server serves the streams of supervisors.
type Server struct {
	wire.UnimplementedSupervisionServer
	address      string
	hub          *Hub
	certificates *Certificates
	tokens       *tokens
	members      *members
	pace         *pace
	clock        clock.WithTicker
	maxUnknown   int
	// running are the goroutines of the streams, which may go on for a moment after their stream's handler has returned.
	running sync.WaitGroup
}

func newServer(address string, hub *Hub, certificates *Certificates, tokens *tokens, members *members, clock clock.WithTicker) *Server {
	return &Server{
		address: address, hub: hub, certificates: certificates, tokens: tokens, members: members, pace: newPace(clock), clock: clock,
		maxUnknown: maxUnknown,
	}
}

// Start serves until the context ends. It is part of manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	if !s.certificates.await(ctx) {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("--supervisors-bind-address=%s: %w", s.address, err)
	}
	return s.serve(ctx, listener)
}

// serve serves the clients of a listener. When it returns, no report is taken any more.
func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer(append(limits(), grpc.Creds(s.secured()))...)
	wire.RegisterSupervisionServer(server, s)
	defer func() { server.Stop(); s.running.Wait() }()
	// Streams have no end to wait for: the next leader is where they go on.
	defer context.AfterFunc(ctx, server.Stop)()
	streams, unknown := room(openFiles(), memoryLimit(), s.maxUnknown)
	waiting := max(1, streams/2) // so many connect at once after a change of the leader
	err := server.Serve(serving.Limit(netutil.LimitListener(listener, streams+unknown+waiting), unknown, waiting))
	if errors.Is(err, grpc.ErrServerStopped) { // the context ended before it began
		return nil
	}
	return err
}

// room is how many connections there may be of pods, and how many more of clients that have not shown which pod they are, by how many files the
// process may have open and how much memory it may take.
func room(files, memory uint64, maxUnknown int) (streams, unknown int) {
	streams = int(min(maxStreams, max(files, otherFiles+10)-otherFiles, max(memory/streamMemory, 1)))
	return streams, max(1, min(maxUnknown, streams/4))
}

// openFiles is how many files this process may have open.
func openFiles() uint64 {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxUint64
	}
	return files.Cur
}

// memoryLimit is that of the container, by cgroup v2 or v1.
func memoryLimit() uint64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return limit
		}
	}
	return math.MaxUint64 // none
}

// limits keep the memory of a stream small, and what a client can take.
func limits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReport),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(streamsPerConnection),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		// Buffers of 32 KiB for each direction are the default. A connection has little to say.
		grpc.ReadBufferSize(0),
		grpc.WriteBufferSize(4 << 10),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval}),
		grpc.WaitForHandlers(true),
	}
}

// secured is the server's TLS, which tells a stream its connection.
type secured struct {
	credentials.TransportCredentials
}

// secured is TLS that answers a client's first message when it is the client's turn: a silent client keeps nobody waiting.
func (s *Server) secured() credentials.TransportCredentials {
	config := s.certificates.serverConfig()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return nil, hello.Conn.(*serving.Conn).Turn(handshakeTimeout)
	}
	return secured{credentials.NewTLS(config)}
}

// ServerHandshake is part of credentials.TransportCredentials.
func (s secured) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := s.TransportCredentials.ServerHandshake(raw)
	return conn, &connection{AuthInfo: info, Conn: raw.(*serving.Conn)}, err
}

// connection is that of a stream.
type connection struct {
	credentials.AuthInfo
	*serving.Conn
	refused atomic.Bool // of one of its streams
}

// connectionOf is that of a stream.
func connectionOf(ctx context.Context) *connection {
	p, _ := grpcpeer.FromContext(ctx)
	return p.AuthInfo.(*connection)
}

// authenticate is which pod a stream is of.
func (s *Server) authenticate(ctx context.Context) (identity, error) {
	token, err := bearer(ctx)
	if err != nil {
		return identity{}, err
	}
	who, err := s.tokens.verify(ctx, token)
	if err != nil {
		return identity{}, err
	}
	return who, s.pace.take(who.pod)
}
