package supervisors

import (
	"context"
	"crypto/x509"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lockstep-dev/lockstep/test/check"
)

// managers share a Secret and a clock.
func newManagers(t *testing.T) (func() *Certificates, client.WithWatch, *clocktesting.FakeClock) {
	api := fake.NewClientBuilder().WithScheme(scheme(t)).Build()
	clock := clocktesting.NewFakeClock(t0)
	return func() *Certificates {
		return newCertificates(api, "lockstep-system", []string{"lockstep-supervisors.lockstep-system.svc", "10.0.0.1"}, clock, logr.Discard(), func([]byte) {})
	}, api, clock
}

func awaitTimer(clock *clocktesting.FakeClock) {
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
}

// trusts checks that a client with a bundle takes the server's certificate, by a name.
func trusts(bundle []byte, c *Certificates, name string) error {
	served, err := c.certificate()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = served.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: c.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestTheNextLeaderHasTheSameAuthority(t *testing.T) {
	manager, api, _ := newManagers(t)
	first, second := manager(), manager()
	check.Equal(t, "bundle, before", "", string(first.Bundle()))
	if _, err := first.certificate(); err == nil {
		t.Error("there is a certificate without an authority")
	}
	must(t, first.refresh(t.Context()))
	must(t, second.refresh(t.Context()))
	check.Equal(t, "bundle", string(first.Bundle()), string(second.Bundle()))
	for _, name := range []string{"lockstep-supervisors.lockstep-system.svc", "10.0.0.1"} {
		must(t, trusts(first.Bundle(), second, name))
	}
	if trusts(first.Bundle(), second, "example.org") == nil {
		t.Error("the certificate is for any name")
	}
	secret := &corev1.Secret{}
	must(t, api.Get(t.Context(), first.secret, secret))
	version := secret.ResourceVersion
	must(t, first.refresh(t.Context()))
	must(t, api.Get(t.Context(), first.secret, secret))
	check.Equal(t, "version, where nothing changes", version, secret.ResourceVersion)
}

// A pod whose last stream was a year ago at most trusts the manager, at any time in forty years.
func TestPodsTrustTheManagerWhileAuthoritiesChange(t *testing.T) {
	manager, _, clock := newManagers(t)
	c := manager()
	type known struct {
		since  time.Time
		bundle []byte
	}
	var pods []known
	bundles, leaves := map[string]bool{}, map[string]bool{}
	const step = 20 * day
	for range 40 * 365 * day / step {
		must(t, c.refresh(t.Context()))
		pods = append(pods, known{clock.Now(), c.Bundle()})
		for clock.Since(pods[0].since) > overlap {
			pods = pods[1:]
		}
		bundles[string(c.Bundle())] = true
		if err := errors.Join(trusts(pods[0].bundle, c, "10.0.0.1"), trusts(c.Bundle(), c, "10.0.0.1")); err != nil {
			t.Fatalf("%v: %v", clock.Now(), err)
		}
		served, err := c.certificate()
		must(t, err)
		leaves[served.Leaf.SerialNumber.String()] = true
		if left := served.Leaf.NotAfter.Sub(clock.Now()); left < leafLife/3 {
			t.Fatalf("%v: the certificate holds %v more", clock.Now(), left)
		}
		clock.Step(step)
	}
	// An authority is made each 6 years and 8 months, the sixth after 33 years. But for the first one, there is a bundle with it and the
	// one before it, and then one with it alone.
	check.Equal(t, "bundles", 11, len(bundles))
	// A certificate is used 60 days, and less where its authority stops to sign.
	if n, least := len(leaves), 40*365/60; n < least || n > least+len(bundles) {
		t.Errorf("%d certificates in 40 years of two months each", n)
	}
}

// A leader makes a certificate when it begins. A node whose clock is behind by hours trusts it, as it trusts the authority.
func TestACertificateIsAsOldAsItsAuthority(t *testing.T) {
	a, err := newAuthority(t0)
	must(t, err)
	leaf, err := a.leaf(t0.Add(day), []string{"manager"})
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	for name, at := range map[string]time.Time{"in time": t0.Add(day), "hours behind": t0.Add(day - 3*time.Hour), "at its end": t0.Add(day + leafLife)} {
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: "manager", Roots: roots, CurrentTime: at}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A manager that was away until its authority had expired makes another.
func TestAnExpiredAuthority(t *testing.T) {
	manager, _, clock := newManagers(t)
	must(t, manager().refresh(t.Context()))
	clock.Step(authorityLife + day)
	late := manager()
	must(t, late.refresh(t.Context()))
	must(t, trusts(late.Bundle(), late, "10.0.0.1"))
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	for name, change := range map[string]func(map[string][]byte){
		"no key":            func(data map[string][]byte) { delete(data, keyPrivate) },
		"not PEM":           func(data map[string][]byte) { data[keyCertificate] = []byte("x") },
		"not PEM, the next": func(data map[string][]byte) { data[keyNextCertificate] = []byte("x") },
		"not an authority": func(data map[string][]byte) {
			a, err := newAuthority(t0)
			must(t, err)
			leaf, err := a.leaf(t0, nil)
			must(t, err)
			data[keyCertificate] = encodeCertificate(leaf.Certificate[0])
			key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
			must(t, err)
			data[keyPrivate] = encodeKey(key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			manager, api, _ := newManagers(t)
			c := manager()
			must(t, c.refresh(t.Context()))
			secret := &corev1.Secret{}
			must(t, api.Get(t.Context(), c.secret, secret))
			change(secret.Data)
			must(t, api.Update(t.Context(), secret))
			err := manager().refresh(t.Context())
			if err == nil || !strings.Contains(err.Error(), "Secret lockstep-system/lockstep-supervisor-ca: ") || !strings.Contains(err.Error(), "delete it") {
				t.Errorf("error %v", err)
			}
			check.Equal(t, "authority of who has one", true, c.Bundle() != nil && c.refresh(t.Context()) != nil)
		})
	}
}

// Of two that make an authority at once, the one that was slower takes the other's.
func TestTwoMakeAnAuthority(t *testing.T) {
	manager, api, _ := newManagers(t)
	fast, slow := manager(), manager()
	slow.live = interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			must(t, fast.refresh(ctx))
			return c.Create(ctx, obj, opts...)
		},
	})
	must(t, slow.refresh(t.Context()))
	check.Equal(t, "bundle", string(fast.Bundle()), string(slow.Bundle()))
}

// The Secret is read again soon where that failed, and then each hour.
func TestTheSecretIsReadAgain(t *testing.T) {
	manager, api, clock := newManagers(t)
	c, looks, down := manager(), make(chan struct{}), true
	c.live = interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			<-looks
			if down {
				return errors.New("etcd is down")
			}
			return api.Get(ctx, key, obj, opts...)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	looks <- struct{}{}
	awaitTimer(clock)
	clock.Step(retryEvery)
	down = false
	looks <- struct{}{}
	if !c.await(ctx) {
		t.Error("there is no authority")
	}
	awaitTimer(clock)
	clock.Step(lookEvery)
	looks <- struct{}{}
	cancel()
	must(t, <-ended)
	if manager().await(ctx) {
		t.Error("who has stopped has an authority")
	}
}
