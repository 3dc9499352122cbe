// Setup: the receiver's server and its acknowledgements, in the manager.

package alerts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/serving"
)

// Off is the address of a receiver that does not run.
const Off = "0"

// The receiver's own share of the API server: no flood of alerts, nor of tokens, slows a recovery.
// In maxTime it suffices to read again and go on writing what a payload of maxAlerts nodes left.
const qps, burst = 200, 500

// maxConnections is how many clients may send their requests at once, and how many may have theirs worked on or wait for a turn.
const maxConnections = 128

// The files of CertDir.
const certFile, keyFile = "tls.crt", "tls.key"

// Options say where the receiver listens.
type Options struct {
	// Address as host:port or :port; "0" turns the receiver off.
	Address string
	// CertDir holds tls.crt and tls.key; they are read again when they change.
	CertDir string
}

// Validate says which flag is wrong, before anything starts.
func (o Options) Validate() error {
	if o.Address == Off {
		return nil
	}
	_, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("--alerts-bind-address %q is not host:port or :port: %w", o.Address, err)
	}
	if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("--alerts-bind-address %q: the port has to be a number from 1 to 65535", o.Address)
	}
	if o.CertDir == "" {
		return errors.New("--alerts-cert-dir is missing: it has to hold tls.crt and tls.key, for alerts are received over TLS only")
	}
	for _, name := range []string{certFile, keyFile} {
		if _, err := os.Stat(filepath.Join(o.CertDir, name)); err != nil {
			return fmt.Errorf("--alerts-cert-dir %s: %w", o.CertDir, err)
		}
	}
	return nil
}

// SetupWithManager adds the receiver to a manager. It serves on every replica.
func SetupWithManager(ctx context.Context, mgr manager.Manager, o Options) error {
	if o.Address == Off {
		return nil
	}
	if err := o.Validate(); err != nil {
		return err
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst, config.RateLimiter = qps, burst, nil
	own, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("client of the alert receiver: %w", err)
	}
	store := &Store{Client: own}
	mux := http.NewServeMux()
	mux.Handle(Path, NewHandler(&Authorizer{Client: own}, &Receiver{Cluster: mgr.GetClient(), Store: store}, mgr.GetLogger().WithName("alerts")))
	if err := o.serve(ctx, mgr, mux); err != nil {
		return err
	}
	return (&Acknowledger{Store: store}).SetupWithManager(mgr)
}

// serve has a manager serve a handler on every replica.
func (o Options) serve(ctx context.Context, mgr manager.Manager, handler http.Handler) error {
	watcher, err := certwatcher.New(filepath.Join(o.CertDir, certFile), filepath.Join(o.CertDir, keyFile))
	if err != nil {
		return fmt.Errorf("--alerts-cert-dir %s: %w", o.CertDir, err)
	}
	if err := mgr.Add(&certificates{watcher, mgr.GetLogger().WithName("alerts")}); err != nil {
		return err
	}
	listener, err := serving.Listen(ctx, o.Address, maxConnections)
	if err != nil {
		return fmt.Errorf("--alerts-bind-address %s: %w", o.Address, err)
	}
	listener = tls.NewListener(listener, &tls.Config{
		GetCertificate: watcher.GetCertificate,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // one stream, one slot
	})
	return mgr.Add(serving.Runnable("alerts", listener, serving.HTTP(handler)))
}

// certificates reads the receiver's certificate again when it changes. Where it cannot, the last one is served: no recovery depends on it.
type certificates struct {
	*certwatcher.CertWatcher
	log logr.Logger
}

// Start is part of manager.Runnable.
func (c *certificates) Start(ctx context.Context) error {
	if err := c.CertWatcher.Start(ctx); err != nil {
		c.log.Error(err, "the receiver's certificate is not read again when it changes")
	}
	return nil
}

// Acknowledger drops entries that somebody has acknowledged.
type Acknowledger struct {
	Store *Store
}

// SetupWithManager adds it to a manager; the leader runs it.
func (a *Acknowledger) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("alert-acknowledgements").
		For(&v1alpha1.NodeHealth{}, builder.WithPredicates(predicate.NewPredicateFuncs(acknowledged))).
		Complete(a)
}

// acknowledged is true of a NodeHealth with entries of alerts to drop.
func acknowledged(obj client.Object) bool {
	health, ok := obj.(*v1alpha1.NodeHealth)
	return ok && slices.ContainsFunc(health.Status.Reports, func(r v1alpha1.HealthReport) bool {
		return r.Source == Source && seen(r, health.Spec.AcknowledgedTime)
	})
}

// Reconcile drops what a node's acknowledgement covers.
func (a *Acknowledger) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	_, err := a.Store.Update(ctx, request.Name, nil)
	return ctrl.Result{}, err
}
