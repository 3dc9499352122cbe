// Tokens of supervisors by a real API server that say something wrong.

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// claims are those of a token.
func (s *scenario) claims(token string) map[string]any {
	s.t.Helper()
	parsed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	s.must(err, "read a token")
	out := map[string]any{}
	s.must(json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &out), "read its claims")
	return out
}

// sign is a token with claims.
func (s *scenario) sign(key any, claims map[string]any) string {
	s.t.Helper()
	payload, err := json.Marshal(claims)
	s.must(err, "write claims")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	s.must(err, "make a signer")
	signed, err := signer.Sign(payload)
	s.must(err, "sign claims")
	token, err := signed.CompactSerialize()
	s.must(err, "write a token")
	return token
}

// serverKey is the key of the API server's tokens.
func (s *scenario) serverKey() any {
	s.t.Helper()
	text, err := testCluster.TokenKey()
	s.must(err, "read the key of tokens")
	block, _ := pem.Decode(text)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	s.must(err, "read the key of tokens")
	return key
}

// with changes one claim.
func with(claims map[string]any, name string, value any) map[string]any {
	out := map[string]any{name: value}
	for n, v := range claims {
		if n != name {
			out[n] = v
		}
	}
	return out
}

func TestTokensOfARealAPIServer(t *testing.T) {
	s := newScenario(t, "tokens", 1, 2)
	v := s.startSupervision()
	s.run(s.trainingJob(2))
	pod, peer := s.pod(0), s.pod(1)
	job := supervisors.JobOf(s.job)
	v.hub.Order(job, supervisors.Order{Epoch: 3}, nil)

	good := s.podToken(&pod, supervisors.Audience)
	all, key := s.claims(good), s.serverKey()
	forger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err, "make a key")
	parts, others := strings.Split(good, "."), strings.Split(s.podToken(&peer, supervisors.Audience), ".")
	for name, tc := range map[string]struct{ token, says string }{
		"expired":                          {s.sign(key, with(all, "exp", time.Now().Add(-time.Second).Unix())), "token is expired"},
		"forged":                           {s.sign(forger, all), "failed to verify signature"},
		"with the claims of another pod":   {strings.Join([]string{parts[0], others[1], parts[2]}, "."), "failed to verify signature"},
		"of a service account, and no pod": {s.podToken(&corev1.Pod{}, supervisors.Audience), "bound to no pod"},
	} {
		stream := s.supervise(v, tc.token)
		_ = stream.Send(&wire.Report{Epoch: 2, State: wire.State_STATE_FAILED}) // which may fail already
		_, err := stream.Recv()
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("a token %s: %v, want %s", name, err, tc.says)
		}
	}
	if got := v.hub.Reports(job); len(got) > 0 {
		t.Errorf("reports of pods whose tokens do not hold: %v", got)
	}

	// The same by the right key, so that it is the change which was refused.
	stream := s.supervise(v, s.sign(key, all))
	s.must(stream.Send(&wire.Report{Epoch: 2, State: wire.State_STATE_RUNNING}), "report")
	if order, err := stream.Recv(); order.GetEpoch() != 3 {
		t.Errorf("order %v and %v, want epoch 3", order, err)
	}
}

// A pod of another job hears and says nothing of this one's.
func TestATokenOfAnotherJob(t *testing.T) {
	s := newScenario(t, "token-one", 1, 1)
	other := newScenarioAlone(t, "token-two", 1, 1)
	v := s.startSupervision()
	s.run(s.trainingJob(1))
	other.run(other.trainingJob(1))
	v.hub.Order(supervisors.JobOf(s.job), supervisors.Order{Epoch: 3}, nil)
	v.hub.Order(supervisors.JobOf(other.job), supervisors.Order{Epoch: 5}, nil)

	pod := other.pod(0)
	stream := s.supervise(v, s.podToken(&pod, supervisors.Audience))
	s.must(stream.Send(&wire.Report{Epoch: 5, State: wire.State_STATE_FAILED}), "report")
	order, err := stream.Recv()
	s.must(err, "receive an order")
	if order.GetEpoch() != 5 {
		t.Errorf("order %v, want epoch 5 of its own job", order)
	}
	s.awaitAny("the report is there", func(ctxT) (bool, error) { return len(v.hub.Reports(supervisors.JobOf(other.job))) == 1, nil })
	if got := v.hub.Reports(supervisors.JobOf(s.job)); len(got) > 0 {
		t.Errorf("reports of the other job's pod: %v", got)
	}
}
