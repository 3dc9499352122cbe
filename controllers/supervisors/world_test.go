// A server over real TLS and gRPC, an API server's keys over real HTTP, and objects of a fake API server. The clock is a test's.

package supervisors

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

const (
	issuer    = "https://kubernetes.default.svc"
	namespace = "research"
	// patience is how long a test waits for what has to come.
	patience = 30 * time.Second
)

var (
	t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// theJob is that of the pods of a world.
	theJob = Job{types.NamespacedName{Namespace: namespace, Name: "llm"}, "job-uid"}
)

type world struct {
	t            testing.TB
	clock        *clocktesting.FakeClock
	keys         *issuerKeys
	live, cache  client.WithWatch
	hub          *Hub
	certificates *Certificates
	server       *Server
	address      string
	maxUnknown   int // 0 for the server's own
	stop         context.CancelFunc
}

func scheme(t testing.TB) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, batch.AddToScheme} {
		must(t, add(s))
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorld has a TrainingJob llm, its Volcano Job llm-1 and the pods llm-1-worker-0 and -1, of which the cache knows.
func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldAt(t, t0)
}

func newWorldAt(t testing.TB, now time.Time) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakeClock(now), keys: newIssuerKeys(t), hub: NewHub()}
	objects := []client.Object{trainingJob(), volcanoJob(), pod("llm-1-worker-0"), pod("llm-1-worker-1")}
	w.live = fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build()
	w.cache = fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build()
	w.certificates = newCertificates(w.live, "lockstep-system", []string{"127.0.0.1"}, w.clock, logr.Discard(), func(bundle []byte) { w.hub.Trust(bundle) })
	must(t, w.certificates.refresh(t.Context()))
	w.start()
	return w
}

// start starts a server, as the next leader does at the address of the last one, of whose streams it knows nothing.
func (w *world) start() {
	w.t.Helper()
	w.hub = NewHub()
	w.hub.Trust(w.certificates.Bundle())
	tokens, err := newTokens(&rest.Config{Host: w.keys.server.URL}, w.clock)
	must(w.t, err)
	w.server = newServer("", w.hub, w.certificates, tokens, newMembers(sources{w.cache, w.live}, w.clock), w.clock)
	w.server.maxUnknown = cmp.Or(w.maxUnknown, w.server.maxUnknown)
	listener, err := net.Listen("tcp", cmp.Or(w.address, "127.0.0.1:0"))
	must(w.t, err)
	w.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, start := range []func(context.Context) error{w.hub.Start, func(ctx context.Context) error { return w.server.serve(ctx, listener) }} {
		running.Go(func() {
			if err := start(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	w.stop = func() { cancel(); running.Wait() }
	w.t.Cleanup(w.stop)
}

func trainingJob() *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "llm", UID: "job-uid"}}
}

func volcanoJob() *batch.Job {
	return &batch.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "llm-1", UID: "llm-1-uid",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(trainingJob(), v1alpha1.GroupVersion.WithKind("TrainingJob"))},
	}}
}

// pod is one of the Volcano Job, whose UID is its name and "-uid".
func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{v1alpha1.LabelJob: "llm", v1alpha1.LabelUID: "job-uid"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(volcanoJob(), batch.SchemeGroupVersion.WithKind("Job"))},
	}}
}

// issuerKeys are an API server's, which signs tokens and publishes its keys.
type issuerKeys struct {
	t       testing.TB
	server  *httptest.Server
	fetches atomic.Int32
	down    atomic.Bool

	mu     sync.Mutex
	signer any
	public []jose.JSONWebKey
}

// rsaKey is made once: that takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newIssuerKeys(t testing.TB) *issuerKeys {
	k := &issuerKeys{t: t}
	first := rsaKey()
	k.rotate(first, first.Public(), jose.RS256)
	k.server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.server.Close)
	return k
}

// rotate has tokens signed with another key, and publishes only that.
func (k *issuerKeys) rotate(private, public any, algorithm jose.SignatureAlgorithm) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.signer = private
	k.public = []jose.JSONWebKey{{Key: public, Algorithm: string(algorithm), Use: "sig"}}
}

func (k *issuerKeys) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/.well-known/openid-configuration" {
		k.fetches.Add(1)
	}
	if k.down.Load() {
		http.Error(w, "etcd is down", http.StatusInternalServerError)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "jwks_uri": "https://elsewhere.example/openid/v1/jwks"})
	case "/openid/v1/jwks":
		if !strings.Contains(r.Header.Get("Accept"), "application/jwk-set+json") { // as the API server does
			http.Error(w, "no content type that the client supports", http.StatusNotAcceptable)
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: k.public})
	default:
		http.NotFound(w, r)
	}
}

// token is one as the API server makes it, with some claims changed.
func (w *world) token(name string, change ...func(map[string]any)) string {
	w.t.Helper()
	now := w.clock.Now()
	all := map[string]any{
		"iss": issuer, "aud": []string{Audience}, "sub": "system:serviceaccount:research:default",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": namespace, "pod": map[string]any{"name": name, "uid": name + "-uid"}, "serviceaccount": map[string]any{"name": "default", "uid": "u"},
		},
	}
	for _, f := range change {
		f(all)
	}
	payload, err := json.Marshal(all)
	must(w.t, err)
	w.keys.mu.Lock()
	defer w.keys.mu.Unlock()
	return sign(w.t, w.keys.signer, payload)
}

func sign(t testing.TB, key any, payload []byte) string {
	t.Helper()
	algorithm := jose.RS256
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		algorithm = jose.ES256
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	must(t, err)
	signed, err := signer.Sign(payload)
	must(t, err)
	token, err := signed.CompactSerialize()
	must(t, err)
	return token
}

func ecdsaKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

// peer is a supervisor.
type peer struct {
	grpc.BidiStreamingClient[wire.Report, wire.Order]
	t      testing.TB
	hangUp func()
}

// connect opens a stream with a token, over a connection of its own.
func (w *world) connect(token string) *peer {
	w.t.Helper()
	return w.connectFrom("127.0.0.1", token)
}

// connectFrom connects from an address of this machine.
func (w *world) connectFrom(from, token string) *peer {
	w.t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(w.certificates.Bundle()) {
		w.t.Fatal("no bundle")
	}
	connection, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, Time: w.clock.Now})),
		grpc.WithContextDialer(func(_ context.Context, to string) (net.Conn, error) { return dial(from, to) }))
	must(w.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	hangUp := func() { cancel(); connection.Close() }
	w.t.Cleanup(hangUp)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	s, err := wire.NewSupervisionClient(connection).Supervise(ctx)
	must(w.t, err)
	return &peer{s, w.t, hangUp}
}

func dial(from, to string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", to)
}

// reports sends a report of a state in an epoch.
func (p *peer) reports(epoch int64, state wire.State) {
	p.t.Helper()
	must(p.t, p.Send(&wire.Report{Epoch: epoch, State: state}))
}

// ends is how the stream ends, after what orders there still are.
func (p *peer) ends() error {
	for {
		if _, err := p.Recv(); err != nil {
			return err
		}
	}
}

// failsWith checks that a stream ends with an error that says this.
func (p *peer) failsWith(code codes.Code, says string) {
	p.t.Helper()
	err := p.ends()
	if status.Code(err) != code || !strings.Contains(err.Error(), says) {
		p.t.Errorf("the stream ends with %v, want %v: %s", err, code, says)
	}
}

// isRefused checks that a stream ends after a refusal that says this.
func (p *peer) isRefused(says string) {
	p.t.Helper()
	if order := p.ordered(); !strings.Contains(order.GetRefused(), says) {
		p.t.Errorf("order %v, want a refusal: %s", order, says)
	}
	if err := p.ends(); !errors.Is(err, io.EOF) {
		p.t.Errorf("after its refusal the stream ends with %v", err)
	}
}

// ordered is the next order.
func (p *peer) ordered() *wire.Order {
	p.t.Helper()
	order, err := p.Recv()
	must(p.t, err)
	return order
}

// await returns once the reports of the job satisfy a condition. Each change of them is told by an event.
func (w *world) await(what string, is func(map[types.UID]Report) bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for !is(w.hub.Reports(theJob)) {
		select {
		case <-w.hub.Woken():
		case <-deadline:
			w.t.Fatalf("%s: never; reports: %+v", what, w.hub.Reports(theJob))
		}
	}
}

func (w *world) awaitState(pod types.UID, state wire.State) {
	w.t.Helper()
	w.await(state.String()+" of "+string(pod), func(r map[types.UID]Report) bool { return r[pod].State == state && !r[pod].HeardSince.IsZero() })
}
