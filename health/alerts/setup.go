// Setup: the receiver's server and its acknowledgements, in the manager.

package alerts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Off is the address of a receiver that does not run.
const Off = "0"

// The receiver's own share of the API server: no flood of alerts, nor of tokens, slows a recovery.
// In maxTime it suffices to read again and go on writing what a payload of maxAlerts nodes left.
const qps, burst = 200, 500

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
	_, err := o.server()
	return err
}

// SetupWithManager adds the receiver to a manager. It serves on every replica.
func SetupWithManager(mgr manager.Manager, o Options) error {
	if o.Address == Off {
		return nil
	}
	options, err := o.server()
	if err != nil {
		return err
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst, config.RateLimiter = qps, burst, nil
	own, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("client of the alert receiver: %w", err)
	}
	store := &Store{Client: own}
	server := webhook.NewServer(options)
	server.Register(Path, NewHandler(&Authorizer{Client: own}, &Receiver{Cluster: mgr.GetClient(), Store: store}, mgr.GetLogger().WithName("alerts")))
	if err := mgr.Add(server); err != nil {
		return err
	}
	return (&Acknowledger{Store: store}).SetupWithManager(mgr)
}

func (o Options) server() (webhook.Options, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return webhook.Options{}, fmt.Errorf("--alerts-bind-address %q is not host:port or :port: %w", o.Address, err)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		return webhook.Options{}, fmt.Errorf("--alerts-bind-address %q: the port has to be a number from 1 to 65535", o.Address)
	}
	if o.CertDir == "" {
		return webhook.Options{}, errors.New("--alerts-cert-dir is missing: it has to hold tls.crt and tls.key, for alerts are received over TLS only")
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(o.CertDir, name)); err != nil {
			return webhook.Options{}, fmt.Errorf("--alerts-cert-dir %s: %w", o.CertDir, err)
		}
	}
	return webhook.Options{Host: host, Port: number, CertDir: o.CertDir, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.NextProtos = tls.VersionTLS12, []string{"http/1.1"} // one stream, one slot
	}}}, nil
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
