// Each write of the authority of the supervisors' certificates goes wrong, once, in every way: the manager signs by what the Secret holds,
// and programs run on while the authority is renewed.

package chaos

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/controllers/supervisors"
)

func TestEveryWriteOfTheAuthorityGoesWrongOnce(t *testing.T) {
	l := newLane(t, "authority", 1, 3, supervised)
	for name, f := range faults {
		for _, f := range f.each() {
			l.isMade(f)
		}
		if t.Failed() {
			t.Fatalf("with fault %s, where the authority is made", name)
		}
	}
	old := oldAuthority(t)
	l.renews(old, fault{})
	l.run(l.trainingJob(2, supervise))
	for name, f := range faults {
		for _, f := range f.each() {
			l.renews(old, f)
		}
		if l.judge(); t.Failed() {
			t.Fatalf("with fault %s, where the authority is renewed", name)
		}
	}
	if s := l.job.Status; s.Epoch != 1 || len(s.Incidents) > 0 {
		t.Errorf("epoch %d, incidents %v: nothing happened to the job", s.Epoch, s.Incidents)
	}
}

// isMade has an operator begin where there is no Secret, and its write break.
func (l *lane) isMade(f fault) {
	l.t.Helper()
	l.must(l.life.end(), "stop the operator")
	l.must(client.IgnoreNotFound(testCluster.Client().Delete(l.ctx, l.secret(nil))), "delete the Secret")
	l.wire.arm(target{right: "create secrets"}, f)
	l.begin()
	l.signs(func(data map[string][]byte) bool { return len(data) == 2 })
}

// renews has an operator begin where the Secret holds an authority that is to be renewed, and its write break.
func (l *lane) renews(old map[string][]byte, f fault) {
	l.t.Helper()
	l.must(l.life.end(), "stop the operator")
	l.must(testCluster.Client().Update(l.ctx, l.secret(old)), "write an old authority")
	l.wire.arm(target{right: "update secrets"}, f)
	l.begin()
	l.signs(func(data map[string][]byte) bool {
		return cmp.Equal(old[corev1.TLSCertKey], data[corev1.TLSCertKey]) && len(data["next.crt"]) > 0
	})
	if l.job != nil {
		l.idle()
	}
}

// signs waits until the Secret is so, and the operator trusts what it holds.
func (l *lane) signs(holds func(data map[string][]byte) bool) {
	l.t.Helper()
	l.awaitAny("the operator has the authority of the Secret", func(ctx context.Context) (bool, error) {
		if l.life.over() {
			l.restart()
		}
		secret := l.secret(nil)
		if err := testCluster.Client().Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		bundle := slices.Concat(secret.Data[corev1.TLSCertKey], secret.Data["next.crt"])
		return holds(secret.Data) && cmp.Equal(bundle, l.life.jobs.Supervision.Authorities()), nil
	})
}

func (l *lane) secret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.pool.Name, Name: supervisors.SecretName}, Type: corev1.SecretTypeTLS, Data: data}
}

// oldAuthority is what a Secret holds of an authority that was made seven years ago, for ten.
func oldAuthority(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lockstep-supervisor-ca"},
		NotBefore: time.Now().AddDate(-7, 0, 0), NotAfter: time.Now().AddDate(3, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}
