// What a gang costs the manager: a thousand supervisors in another process, each with a connection of its own.

package supervisors

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// gangVariable tells a process that it is the supervisors of a benchmark.
const gangVariable = "LOCKSTEP_BENCHMARK_GANG"

const gangSize = 1000

// supervised is what the process of the supervisors is told, on its standard input.
type supervised struct {
	Address string
	Bundle  []byte
	Tokens  []string
}

// TestMain is the supervisors, in the process that a benchmark starts.
func TestMain(m *testing.M) {
	if os.Getenv(gangVariable) == "" {
		os.Exit(m.Run())
	}
	if err := superviseAll(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func superviseAll(ctx context.Context) error {
	var gang supervised
	if err := json.NewDecoder(os.Stdin).Decode(&gang); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(gang.Bundle)
	security := credentials.NewTLS(&tls.Config{RootCAs: roots, Time: func() time.Time { return t0 }})
	var running sync.WaitGroup
	for _, token := range gang.Tokens {
		running.Go(func() {
			if err := supervise(ctx, gang.Address, security, token); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	running.Wait()
	return nil
}

// supervise reports that the program runs, and then that it waits in each epoch that is ordered.
func supervise(ctx context.Context, address string, security credentials.TransportCredentials, token string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(security))
	if err != nil {
		return err
	}
	defer connection.Close()
	s, err := wire.NewSupervisionClient(connection).Supervise(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err != nil {
		return err
	}
	report := &wire.Report{State: wire.State_STATE_RUNNING}
	for {
		if err := s.Send(report); err != nil {
			return err
		}
		order, err := s.Recv()
		if err != nil {
			return err
		}
		report = &wire.Report{Epoch: order.GetEpoch(), State: wire.State_STATE_WAITING}
	}
}

// BenchmarkAGang measures how long it takes until an order has reached a thousand supervisors and all have reported, and what the
// manager allocates for that. It also says how long they take to connect, and what the manager keeps for each of them.
func BenchmarkAGang(b *testing.B) {
	w := newWorld(b)
	w.server.pace.limit = rate.Inf
	gang := supervised{Address: w.address, Bundle: w.certificates.Bundle()}
	known := fake.NewClientBuilder().WithScheme(scheme(b)).WithObjects(trainingJob(), volcanoJob())
	for rank := range gangSize {
		p := pod(fmt.Sprintf("llm-1-worker-%d", rank))
		p.Spec = corev1.PodSpec{NodeName: "n0"}
		known.WithObjects(p)
		gang.Tokens = append(gang.Tokens, w.token(p.Name))
	}
	w.server.members.cache = known.Build()
	input, err := json.Marshal(gang)
	must(b, err)
	before := memory()
	began := time.Now()
	command := exec.CommandContext(b.Context(), os.Args[0])
	command.Env, command.Stdin, command.Stderr = append(os.Environ(), gangVariable+"=1"), bytes.NewReader(input), os.Stderr
	must(b, command.Start())
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	w.awaitAll(0, wire.State_STATE_RUNNING)
	connecting, each := time.Since(began), (memory()-before)/gangSize
	epoch := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		epoch++
		w.hub.Order(theJob, Order{Epoch: epoch, RestartReason: "PodFailed", HyperNode: "rack-a"}, nil)
		w.awaitAll(epoch, wire.State_STATE_WAITING)
	}
	b.ReportMetric(connecting.Seconds()*1000, "ms-to-connect")
	b.ReportMetric(float64(each), "B-kept/stream")
}

// awaitAll returns once all have reported a state in an epoch. It looks without a copy, which would be most of what is allocated.
func (w *world) awaitAll(epoch int64, state wire.State) {
	want := Report{Epoch: epoch, State: state}
	for {
		there := 0
		w.hub.mu.Lock()
		for _, m := range w.hub.gang(theJob).pods {
			if m.report != nil && m.report.equal(want) {
				there++
			}
		}
		w.hub.mu.Unlock()
		if there == gangSize {
			return
		}
		<-w.hub.Woken()
	}
}

// memory is what the heap and the stacks hold, in bytes.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}
