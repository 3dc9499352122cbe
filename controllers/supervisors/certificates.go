// The certificates of the server: its authority, which is kept in a Secret for the next leader and for the pods that trust it, and its
// own, which is not kept.

package supervisors

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is that of the Secret of the authority, in the manager's namespace.
const SecretName = "lockstep-supervisor-ca"

const (
	// lookEvery is how often the Secret is read, for authorities that are due, or that somebody has replaced.
	lookEvery = time.Hour
	// retryEvery is how often it is read after that has failed.
	retryEvery = 10 * time.Second
)

// Certificates are the server's.
type Certificates struct {
	// live reads from the API server: a cache of Secrets would have to list those of the whole cluster.
	live   client.Client
	secret types.NamespacedName
	names  []string
	clock  clock.WithTicker
	log    logr.Logger
	// told is called with the authorities that pods should trust, before the server uses them.
	told func(bundle []byte)

	ready chan struct{} // closed when there is an authority

	mu          sync.Mutex
	authorities authorities
	leaf        *tls.Certificate
}

func newCertificates(live client.Client, namespace string, names []string, clock clock.WithTicker, log logr.Logger, told func(bundle []byte)) *Certificates {
	return &Certificates{
		live: live, secret: types.NamespacedName{Namespace: namespace, Name: SecretName}, names: names, clock: clock, log: log, told: told,
		ready: make(chan struct{}),
	}
}

// Bundle is the authorities that pods should trust, in PEM; nil before the leader has read or made one. It changes years apart.
func (c *Certificates) Bundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.authorities.current == nil {
		return nil
	}
	return c.authorities.bundle()
}

// Start keeps the authority until the context ends. It is part of manager.Runnable.
func (c *Certificates) Start(ctx context.Context) error {
	for {
		after := lookEvery
		if err := c.refresh(ctx); err != nil && ctx.Err() == nil {
			after = retryEvery
			c.log.Error(err, "The authority of the supervisors' certificates cannot be kept; supervisors cannot connect before there is one", "retry", after)
		}
		timer := c.clock.NewTimer(after)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// await returns when there is an authority; false where the context ends before.
func (c *Certificates) await(ctx context.Context) bool {
	select {
	case <-c.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh reads the Secret, and writes it where an authority is due.
func (c *Certificates) refresh(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := c.live.Get(ctx, c.secret, secret); client.IgnoreNotFound(err) != nil {
		return err
	}
	kept, err := parse(secret.Data)
	if err != nil {
		return fmt.Errorf("the Secret %s: %w; delete it to have a new authority made: pods that trust an earlier one cannot connect from then on", c.secret, err)
	}
	due, err := kept.renewed(c.clock.Now())
	if err != nil {
		return err
	}
	if !due.equal(kept) {
		err := c.write(ctx, secret, due)
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			return c.refresh(ctx) // what another has written
		}
		if err != nil {
			return err
		}
	}
	c.use(due)
	return nil
}

// write creates or updates the Secret as it was read: another that was faster wins.
func (c *Certificates) write(ctx context.Context, secret *corev1.Secret, a authorities) (err error) {
	if secret.Data, err = a.data(); err != nil {
		return err
	}
	if secret.ResourceVersion != "" {
		return c.live.Update(ctx, secret)
	}
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: c.secret.Namespace, Name: c.secret.Name, Labels: map[string]string{"app.kubernetes.io/name": "lockstep"}}
	secret.Type = corev1.SecretTypeTLS
	return c.live.Create(ctx, secret)
}

// use has authorities sign from now on.
func (c *Certificates) use(a authorities) {
	c.told(a.bundle())
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.authorities.current.equal(a.current) {
		c.leaf = nil
	}
	if c.authorities.current == nil {
		close(c.ready)
	}
	c.authorities = a
}

// serverConfig is the server's side of TLS. Its clients authenticate by their tokens.
func (c *Certificates) serverConfig() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13, // both ends are Lockstep's
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.certificate() },
		SessionTicketsDisabled: true, // a connection lives long
	}
}

// certificate is the server's, made when the last one is due.
func (c *Certificates) certificate() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.authorities.current == nil {
		return nil, errors.New("there is no authority yet")
	}
	now := c.clock.Now()
	if c.leaf == nil || !now.Before(c.leaf.Leaf.NotAfter.Add(-leafLife/3)) {
		leaf, err := c.authorities.current.leaf(now, c.names)
		if err != nil {
			return nil, err
		}
		c.leaf = leaf
	}
	return c.leaf, nil
}
