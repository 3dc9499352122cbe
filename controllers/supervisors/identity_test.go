// Who may connect, as which pod, and of which job.

package supervisors

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

// claim changes one claim of a token.
func claim(name string, value any) func(map[string]any) {
	return func(all map[string]any) { all[name] = value }
}

func TestTokensThatDoNotHold(t *testing.T) {
	w := newWorld(t)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	payload := func(token string) []byte {
		parsed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
		must(t, err)
		return parsed.UnsafePayloadWithoutVerification()
	}
	good := w.token("llm-1-worker-0")
	public, err := json.Marshal(w.keys.public[0])
	must(t, err)
	symmetric, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public}, nil)
	must(t, err)
	signed, err := symmetric.Sign(payload(good))
	must(t, err)
	byPublicKey, err := signed.CompactSerialize()
	must(t, err)
	for name, tc := range map[string]struct{ token, says string }{
		"none":                           {"", "authorization: Bearer <token>"},
		"not a token":                    {"secret", "malformed jwt"},
		"of another key":                 {sign(t, stranger, payload(good)), "failed to verify signature"},
		"by the public key, as a secret": {byPublicKey, "unexpected signature algorithm"},
		"unsigned":                       {"eyJhbGciOiJub25lIn0.e30.", "malformed jwt"},
		"expired":                        {w.token("llm-1-worker-0", claim("exp", t0.Add(-time.Second).Unix())), "token is expired"},
		"not valid yet":                  {w.token("llm-1-worker-0", claim("nbf", t0.Add(time.Hour).Unix())), "not before"},
		"for the API server":             {w.token("llm-1-worker-0", claim("aud", []string{issuer})), `expected audience "lockstep-supervisor"`},
		"of another cluster":             {w.token("llm-1-worker-0", claim("iss", "https://example.org")), "issued by a different provider"},
		"bound to no pod":                {w.token("llm-1-worker-0", claim("kubernetes.io", map[string]any{"namespace": namespace})), "bound to no pod"},
		"of no service account":          {w.token("llm-1-worker-0", claim("kubernetes.io", nil)), "bound to no pod"},
		"bound to no UID": {w.token("llm-1-worker-0", claim("kubernetes.io", map[string]any{
			"namespace": namespace, "pod": map[string]any{"name": "llm-1-worker-0"},
		})), "bound to no pod"},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.connect(tc.token)
			p.t = t
			p.failsWith(codes.Unauthenticated, tc.says)
		})
	}
	check.Equal(t, "reports", nil, w.hub.Reports(theJob))
}

func TestMetadata(t *testing.T) {
	for header, says := range map[string]string{"Basic abc": "is not: Bearer", "Bearer ": "is not: Bearer", "Bearer": "is not: Bearer"} {
		_, err := bearer(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", header)))
		if r, ok := errors.AsType[*refusal](err); !ok || r.reason != reasonToken {
			t.Errorf("%q: %v, want %s", header, err, says)
		}
	}
	_, err := bearer(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer a", "authorization", "Bearer b")))
	if err == nil {
		t.Error("two tokens: none is refused")
	}
}

// pods whose owners are not those of the world.
func TestOwners(t *testing.T) {
	controlledBy := func(owner client.Object, gvk string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			ref := metav1.NewControllerRef(owner, batch.SchemeGroupVersion.WithKind("Job"))
			if gvk != "" {
				ref.APIVersion = gvk
			}
			p.OwnerReferences = []metav1.OwnerReference{*ref}
		}
	}
	plain := volcanoJob()
	plain.Name, plain.UID, plain.OwnerReferences = "plain", "plain-uid", nil
	orphan := volcanoJob()
	orphan.Name, orphan.UID, orphan.OwnerReferences[0].UID = "orphan", "orphan-uid", "an-earlier-job"
	earlier := volcanoJob()
	earlier.UID = "an-earlier-volcano-job"
	gone := volcanoJob()
	gone.Name = "gone"
	managed, elsewhere := trainingJob(), volcanoJob()
	managed.Name, managed.UID, managed.Spec.ManagedBy = "managed", "managed-uid", "kueue.x-k8s.io/multikueue"
	elsewhere.Name, elsewhere.UID, elsewhere.OwnerReferences[0].Name, elsewhere.OwnerReferences[0].UID = "elsewhere", "elsewhere-uid", managed.Name, managed.UID
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		refused string // by an order
		says    string // an error
	}{
		"none, but the labels":               {change: func(p *corev1.Pod) { p.OwnerReferences = nil }, says: "no controller of kind Job.batch.volcano.sh"},
		"one that is not the controller":     {change: func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, says: "no controller"},
		"a Job of Kubernetes, of that name":  {change: controlledBy(volcanoJob(), batchv1.SchemeGroupVersion.String()), says: "no controller"},
		"an API version that is none":        {change: controlledBy(volcanoJob(), "a/b/c"), says: "no controller"},
		"a Volcano Job of nobody":            {change: controlledBy(plain, ""), says: "plain has no controller of kind TrainingJob.lockstep.dev"},
		"a Volcano Job that is gone":         {change: controlledBy(gone, ""), refused: "Job.batch.volcano.sh research/gone"},
		"an earlier Volcano Job of the name": {change: controlledBy(earlier, ""), refused: "(UID an-earlier-volcano-job)"},
		"an earlier TrainingJob of the name": {change: controlledBy(orphan, ""), refused: "TrainingJob.lockstep.dev research/llm (UID an-earlier-job)"},
		"a TrainingJob of another manager":   {change: controlledBy(elsewhere, ""), says: "kueue.x-k8s.io/multikueue manages TrainingJob research/managed"},
		"the job's, without a label":         {change: func(p *corev1.Pod) { p.Labels = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			changed := pod("x")
			tc.change(changed)
			must(t, w.live.Create(t.Context(), changed))
			must(t, w.live.Create(t.Context(), plain.DeepCopy()))
			must(t, w.live.Create(t.Context(), orphan.DeepCopy()))
			must(t, w.live.Create(t.Context(), managed.DeepCopy()))
			must(t, w.live.Create(t.Context(), elsewhere.DeepCopy()))
			p := w.connect(w.token("x"))
			switch {
			case tc.says != "":
				p.failsWith(codes.PermissionDenied, tc.says)
			case tc.refused != "":
				p.isRefused(tc.refused)
			default:
				p.reports(0, wire.State_STATE_RUNNING)
				w.awaitState("x-uid", wire.State_STATE_RUNNING)
			}
			if _, reported := w.hub.Reports(theJob)["x-uid"]; reported != (tc.says+tc.refused == "") {
				t.Errorf("reports of the job: %v", w.hub.Reports(theJob))
			}
		})
	}
}

// A pod of another job, whose labels say that it is of this one, hears and says nothing of this one's.
func TestAPodOfAnotherJob(t *testing.T) {
	w := newWorld(t)
	other, volcano, liar := trainingJob(), volcanoJob(), pod("liar")
	other.Name, other.UID = "other", "other-uid"
	volcano.Name, volcano.UID = "other-1", "other-1-uid"
	volcano.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("TrainingJob"))}
	liar.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(volcano, batch.SchemeGroupVersion.WithKind("Job"))}
	for _, obj := range []client.Object{other, volcano, liar} {
		must(t, w.live.Create(t.Context(), obj))
	}
	w.hub.Order(theJob, Order{Epoch: 3}, nil)
	w.hub.Order(JobOf(other), Order{Epoch: 5}, nil)
	p := w.connect(w.token("liar"))
	p.reports(5, wire.State_STATE_RUNNING)
	check.Equal(t, "epoch", int64(5), p.ordered().GetEpoch())
	for len(w.hub.Reports(JobOf(other))) == 0 {
		<-w.hub.Woken()
	}
	check.Equal(t, "reports of the job that it lies about", 0, len(w.hub.Reports(theJob)))
}

func TestWhatTheCacheDoesNotKnow(t *testing.T) {
	replacement := func() *corev1.Pod {
		p := pod("llm-1-worker-0")
		p.UID = "new"
		return p
	}
	remove := func(t *testing.T, readers ...client.WithWatch) {
		for _, r := range readers {
			must(t, r.Delete(t.Context(), pod("llm-1-worker-0")))
		}
	}
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *world)
		refused string
	}{
		"a new pod":          {prepare: func(t *testing.T, w *world) { remove(t, w.cache) }},
		"a pod that is gone": {func(t *testing.T, w *world) { remove(t, w.cache, w.live) }, "is gone"},
		"a replacement": {func(t *testing.T, w *world) {
			remove(t, w.cache, w.live)
			must(t, w.cache.Create(t.Context(), replacement()))
			must(t, w.live.Create(t.Context(), replacement()))
		}, "was replaced: UID new"},
		"an earlier pod of the name is in the cache": {prepare: func(t *testing.T, w *world) {
			remove(t, w.cache)
			must(t, w.cache.Create(t.Context(), replacement()))
		}},
		"the Volcano Job": {prepare: func(t *testing.T, w *world) { must(t, w.cache.Delete(t.Context(), volcanoJob())) }},
		"the TrainingJob": {prepare: func(t *testing.T, w *world) { must(t, w.cache.Delete(t.Context(), trainingJob())) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(t, w)
			p := w.connect(w.token("llm-1-worker-0"))
			if tc.refused != "" {
				p.isRefused(tc.refused)
				return
			}
			p.reports(0, wire.State_STATE_RUNNING)
			w.awaitState(rank0, wire.State_STATE_RUNNING)
		})
	}
}

// Nobody is refused for good because the API server does not answer.
func TestTheAPIServerDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	must(t, w.cache.Delete(t.Context(), pod("llm-1-worker-0")))
	w.server.members.live = interceptor.NewClient(w.live, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("etcd is down")
		},
	})
	w.connect(w.token("llm-1-worker-0")).failsWith(codes.Unavailable, "etcd is down")
	w.connect(w.token("llm-1-worker-1")).reports(0, wire.State_STATE_RUNNING) // whom the cache knows
	w.awaitState(rank1, wire.State_STATE_RUNNING)
}

func TestKeysAreReadAgain(t *testing.T) {
	w := newWorld(t)
	verify := func(token string) codes.Code {
		_, err := w.server.tokens.verify(t.Context(), token)
		if err == nil {
			return codes.OK
		}
		return refuse(err).code
	}
	w.keys.down.Store(true)
	early := w.token("llm-1-worker-0")
	for range 100 {
		check.Equal(t, "before the keys can be read", codes.Unavailable, verify(early))
	}
	check.Equal(t, "attempts to read them", 1, w.keys.fetches.Load())
	w.keys.down.Store(false)
	w.clock.Step(minKeyAge)
	check.Equal(t, "then", codes.OK, verify(early))

	newKey := ecdsaKey(t)
	w.keys.rotate(newKey, newKey.Public(), jose.ES256)
	late := w.token("llm-1-worker-0")
	w.clock.Step(minKeyAge - time.Second)
	check.Equal(t, "a newer key, before it may be asked for", codes.Unauthenticated, verify(late))
	w.clock.Step(time.Second)
	check.Equal(t, "a newer key", codes.OK, verify(late))
	check.Equal(t, "an earlier key, which is not published any more", codes.Unauthenticated, verify(early))

	before := w.keys.fetches.Load()
	for range 100 {
		verify(w.token("llm-1-worker-0", claim("iss", "https://example.org")))
	}
	check.Equal(t, "reads of the keys for a hundred forged tokens", before, w.keys.fetches.Load())

	last := ecdsaKey(t)
	w.keys.rotate(last, last.Public(), jose.ES256)
	w.clock.Step(maxKeyAge)
	check.Equal(t, "a key that was withdrawn, in time", codes.Unauthenticated, verify(late))
}

// Keys that are known go on where the API server does not answer, and a token that they do not verify may be a good one.
func TestKeysWhileTheAPIServerIsDown(t *testing.T) {
	w := newWorld(t)
	token := w.token("llm-1-worker-0", claim("exp", t0.Add(24*time.Hour).Unix()))
	_, err := w.server.tokens.verify(t.Context(), token)
	must(t, err)
	w.keys.down.Store(true)
	w.clock.Step(maxKeyAge)
	_, err = w.server.tokens.verify(t.Context(), token)
	must(t, err)
	newer := ecdsaKey(t)
	w.keys.rotate(newer, newer.Public(), jose.ES256)
	_, err = w.server.tokens.verify(t.Context(), w.token("llm-1-worker-0"))
	check.Equal(t, "code", codes.Unavailable, refuse(err).code)
}
