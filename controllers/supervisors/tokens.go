// Tokens, verified with the API server's public keys: no request per pod, so that a gang of ten thousand pods can connect at once.

package supervisors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Audience of the tokens of supervisors: that of the projected volume's serviceAccountToken. The API server takes no such token, and this
// server takes no other.
const Audience = "lockstep-supervisor"

const (
	// maxKeyAge is how long the API server's keys are used before they are read again, so that a withdrawn key does not stay valid.
	maxKeyAge = 10 * time.Minute
	// minKeyAge is how old keys are at least before a token that they do not verify has them read again: forged tokens must not become
	// requests to the API server.
	minKeyAge = 10 * time.Second
	// fetchTimeout is how long the API server has to answer. A leader that does not reach it soon loses its lease.
	fetchTimeout = 5 * time.Second
)

// algorithms are those that the API server signs with: RS256 with an RSA key, the others with ECDSA keys, by their curve.
var algorithms = []string{oidc.RS256, oidc.ES256, oidc.ES384, oidc.ES512}

// identity is the pod that a token is bound to.
type identity struct {
	types.NamespacedName
	pod    types.UID
	expiry time.Time
}

// claims are those of a bound token, by the API server's documentation of service account tokens.
type claims struct {
	Kubernetes struct {
		Namespace string `json:"namespace"`
		Pod       struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// tokens verifies tokens.
type tokens struct {
	clock  clock.PassiveClock
	server rest.Interface

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil before keys were read
	read     time.Time             // when they were
	tried    time.Time             // when they were last asked for
	err      error                 // why that failed
}

func newTokens(config *rest.Config, clock clock.PassiveClock) (*tokens, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server's token keys: %w", err)
	}
	return &tokens{clock: clock, server: client.RESTClient()}, nil
}

// bearer is the token of a stream's metadata.
func bearer(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return "", badToken("the stream needs its pod's token in its metadata: authorization: Bearer <token>")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", badToken("the metadata authorization of the stream is not: Bearer <token>")
	}
	return token, nil
}

// verify returns whom a token is bound to. A token that the keys do not verify may be signed with a newer one.
func (t *tokens) verify(ctx context.Context, raw string) (identity, error) {
	verifier, read, err := t.current(ctx, maxKeyAge)
	if err != nil {
		return identity{}, err
	}
	token, err := verifier.Verify(ctx, raw)
	if err != nil && !isExpired(err) {
		newer, again, readErr := t.current(ctx, minKeyAge)
		switch {
		case readErr != nil:
			return identity{}, readErr
		case again.After(read):
			token, err = newer.Verify(ctx, raw)
		}
	}
	if err != nil {
		return identity{}, badToken("the token does not hold: %v; it has to be one of this cluster's, projected into the pod by a serviceAccountToken volume with the audience %s", err, Audience)
	}
	return identityOf(token)
}

func isExpired(err error) bool {
	_, is := errors.AsType[*oidc.TokenExpiredError](err)
	return is
}

func identityOf(token *oidc.IDToken) (identity, error) {
	var c claims
	if err := token.Claims(&c); err != nil {
		return identity{}, badToken("the token's claims cannot be read: %v", err)
	}
	bound := c.Kubernetes
	if bound.Namespace == "" || bound.Pod.Name == "" || bound.Pod.UID == "" {
		return identity{}, badToken("the token is bound to no pod: project it by a serviceAccountToken volume of the pod")
	}
	return identity{
		NamespacedName: types.NamespacedName{Namespace: bound.Namespace, Name: bound.Pod.Name}, pod: bound.Pod.UID, expiry: token.Expiry,
	}, nil
}

// current returns a verifier whose keys are no older than the given age, and when they were read. Where the API server does not answer, older
// keys stay in use; a caller that needs newer ones than those gets the error.
func (t *tokens) current(ctx context.Context, age time.Duration) (*oidc.IDTokenVerifier, time.Time, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.clock.Now(); now.Sub(t.read) >= age && now.Sub(t.tried) >= minKeyAge {
		t.tried = now
		t.refresh(ctx)
	}
	if t.err != nil && (t.verifier == nil || age == minKeyAge) {
		return nil, time.Time{}, fmt.Errorf("the API server's token keys cannot be read now: %w", t.err)
	}
	return t.verifier, t.read, nil
}

// refresh reads the keys, for all who wait, whether the first of them waits on or not.
func (t *tokens) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	var verifier *oidc.IDTokenVerifier
	if verifier, t.err = t.fetch(ctx); t.err == nil {
		t.verifier, t.read = verifier, t.tried
	}
}

// +kubebuilder:rbac:urls=/.well-known/openid-configuration;/openid/v1/jwks,verbs=get

// fetch reads the issuer and the keys. Where these are elsewhere for outsiders, the API server still serves them at its own path.
func (t *tokens) fetch(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	var provider struct {
		Issuer string `json:"issuer"`
	}
	if err := t.get(ctx, "/.well-known/openid-configuration", &provider); err != nil {
		return nil, err
	}
	var published jose.JSONWebKeySet
	if err := t.get(ctx, "/openid/v1/jwks", &published); err != nil {
		return nil, err
	}
	keys := &oidc.StaticKeySet{}
	for _, key := range published.Keys {
		keys.PublicKeys = append(keys.PublicKeys, key.Key)
	}
	return oidc.NewVerifier(provider.Issuer, keys, &oidc.Config{ClientID: Audience, SupportedSigningAlgs: algorithms, Now: t.clock.Now}), nil
}

func (t *tokens) get(ctx context.Context, path string, into any) error {
	raw, err := t.server.Get().AbsPath(path).SetHeader("Accept", "application/json, application/jwk-set+json").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
