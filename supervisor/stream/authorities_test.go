package stream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor/stream"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
)

// pod is one whose supervisor keeps the authorities that a manager sends.
type pod struct {
	*supervisor
	kept string
}

func newRenewedPod(t *testing.T) *pod {
	return &pod{newSupervisor(t), filepath.Join(t.TempDir(), "manager-ca.crt")}
}

func (p *pod) begin() {
	p.run(func(o *stream.Options) { o.RenewedCAFile = p.kept })
}

// given are the authorities that the pod was made with.
func (p *pod) given() string { return p.text(p.manager.CAFile) }

func (p *pod) text(file string) string {
	p.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// connects waits for the next stream, on which the manager sends an order with authorities.
func (p *pod) connects(authorities string) {
	p.t.Helper()
	p.manager.Next().Order(&wire.Order{Epoch: 1, Authorities: []byte(authorities)})
	p.expects("connected", int64(1))
}

// restartManager has a manager with its newest certificate take the place of the last one.
func (p *pod) restartManager() {
	p.t.Helper()
	p.manager.Stop()
	p.expects("disconnected")
	p.manager.Listen(p.manager.Address)
}

func (p *pod) keeps(want string) {
	p.t.Helper()
	if got := p.text(p.kept); got != want {
		p.t.Errorf("the authorities that are kept are\n%s\nwant\n%s", got, want)
	}
}

func (p *pod) keepsNothing() {
	p.t.Helper()
	if _, err := os.Stat(p.kept); !os.IsNotExist(err) {
		p.t.Error("authorities are kept:", err)
	}
}

// A pod outlives its first authority, and so does a container that starts in it later.
func TestAuthoritiesAreRenewed(t *testing.T) {
	p := newRenewedPod(t)
	first, both := p.given(), p.given()+p.manager.NewCertificate(time.Now())
	next := strings.TrimPrefix(both, first)
	p.begin()
	one := p.manager.Next()
	one.Order(&wire.Order{Epoch: 1, Authorities: []byte(first)})
	p.expects("connected", int64(1))
	p.keepsNothing()

	one.Order(&wire.Order{Epoch: 1, Authorities: []byte(both)}) // the next authority does not sign yet
	one.Order(&wire.Order{Epoch: 2})
	p.expects(int64(1), int64(2))
	p.keeps(both)

	p.restartManager() // it signs
	p.connects(next)
	p.keeps(next)

	later := &pod{newSupervisor(t), p.kept}
	later.manager.Stop()
	later.manager = p.manager
	later.begin()
	later.connects(next)
	p.restartManager()
	p.manager.Next()
	p.manager.Next()
}

func TestAuthoritiesThatCannotBeUsed(t *testing.T) {
	for name, test := range map[string]struct {
		sent func(p *pod) string
		says string
	}{
		"none":                {func(*pod) string { return "x" }, "no certificate in PEM"},
		"no certificate":      {func(*pod) string { return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" }, "malformed certificate"},
		"one that is cut":     {func(p *pod) string { return p.given() + p.given()[:200] }, "cannot be read"},
		"expired":             {func(p *pod) string { return p.manager.NewCertificate(time.Now().Add(-2 * time.Hour)) }, "has expired"},
		"more than there are": {func(p *pod) string { return strings.Repeat(p.given(), 200) }, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRenewedPod(t)
			sent := test.sent(p)
			p.manager.NewCA()
			p.begin()
			p.manager.Stop()
			p.manager.Listen(p.manager.Address)
			p.connects(sent)
			p.complains(test.says)
			p.keepsNothing()
			p.restartManager()
			p.connects("")
		})
	}
}

// A manager of an earlier version sends none.
func TestNoAuthoritiesAreSent(t *testing.T) {
	p := newRenewedPod(t)
	p.manager.Write(p.kept, p.given())
	want := p.text(p.kept)
	p.begin()
	p.connects("")
	p.restartManager()
	p.connects("")
	p.keeps(want)
}

// What is wrong with the kept file or its volume does not keep a pod from the manager.
func TestAuthoritiesThatCannotBeKept(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		p := newRenewedPod(t)
		p.manager.Write(p.kept, "x")
		p.begin()
		p.complains("those of the pod are used")
		p.connects("")
	})
	t.Run("write", func(t *testing.T) {
		p := newRenewedPod(t)
		p.kept = filepath.Join(p.kept, "missing")
		p.begin()
		p.connects(p.given() + p.manager.NewCertificate(time.Now()))
		p.complains("Cannot keep")
		p.restartManager()
		p.connects("")
	})
}

// Somebody may give a pod newer authorities, where its manager's were lost.
func TestThePodIsGivenNewerAuthorities(t *testing.T) {
	p := newRenewedPod(t)
	p.manager.Write(p.kept, p.manager.NewCertificate(time.Now().Add(-time.Minute)))
	p.manager.NewCA()
	p.begin()
	p.manager.Stop()
	p.manager.Listen(p.manager.Address)
	p.connects("")
}

// The pod's own authorities are void once a manager has sent others: they may have been withdrawn.
func TestAWithdrawnAuthority(t *testing.T) {
	p := newRenewedPod(t)
	p.manager.Write(p.kept, (&pod{supervisor: newSupervisor(t)}).given())
	p.begin()
	p.complains("certificate")
}
