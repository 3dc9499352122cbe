// Setup: the server, its hub and its certificates, in the manager.

package supervisors

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ServiceName is that of the Service by which supervisors reach the server, in the manager's namespace.
const ServiceName = "lockstep-supervisors"

// Off is the address of a server that does not run.
const Off = "0"

// The server's own share of the API server: pods that connect slow no recovery.
const qps, burst = 50, 200

// Options say where the server is.
type Options struct {
	// BindAddress as host:port or :port; "0" turns the server off.
	BindAddress string
	// Address is the host:port by which supervisors reach the server; empty for the Service lockstep-supervisors in Namespace, and the port
	// of BindAddress.
	Address string
	// Namespace is the manager's own, for the Secret of its authority.
	Namespace string
}

// SetupWithManager adds the server to a manager, whose leader runs it. The reconciler reads reports and gives orders by the hub that it
// returns, and gives pods the authorities of the certificates. Both are nil where the server is off.
func SetupWithManager(mgr manager.Manager, o Options) (*Hub, *Certificates, error) {
	if o.BindAddress == Off {
		return nil, nil, nil
	}
	names, err := o.names()
	if err != nil {
		return nil, nil, err
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst, config.RateLimiter = qps, burst, nil
	live, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, nil, fmt.Errorf("client of the supervisors' server: %w", err)
	}
	now := clock.RealClock{}
	tokens, err := newTokens(config, now)
	if err != nil {
		return nil, nil, err
	}
	hub := NewHub()
	certificates := newCertificates(live, o.Namespace, names, now, mgr.GetLogger().WithName("supervisors"), hub.Trust)
	server := newServer(o.BindAddress, hub, certificates, tokens, newMembers(sources{mgr.GetClient(), live}, now), now)
	for _, runnable := range []manager.Runnable{hub, certificates, server} {
		if err := mgr.Add(runnable); err != nil {
			return nil, nil, err
		}
	}
	return hub, certificates, nil
}

// Reachable is the address by which supervisors reach the server.
func (o Options) Reachable() string {
	if o.Address != "" {
		return o.Address
	}
	_, port, _ := net.SplitHostPort(o.BindAddress)
	return net.JoinHostPort(o.service(), port)
}

func (o Options) service() string { return ServiceName + "." + o.Namespace + ".svc" }

// names are those that the server's certificate is for.
func (o Options) names() ([]string, error) {
	if _, port, err := net.SplitHostPort(o.BindAddress); err != nil || !isPort(port) {
		return nil, fmt.Errorf("--supervisors-bind-address=%s: set host:port or :port, such as :9444, or 0 to turn the server off", o.BindAddress)
	}
	if o.Namespace == "" {
		return nil, errors.New("the manager's namespace is not known: set --leader-election-namespace where it does not run in a pod")
	}
	host, port, err := net.SplitHostPort(o.Reachable())
	if err != nil || host == "" || !isPort(port) {
		return nil, fmt.Errorf("--supervisors-address=%s: set the host:port by which pods reach the manager, such as %s:9444", o.Address, o.service())
	}
	if host == o.service() {
		return []string{host}, nil
	}
	return []string{o.service(), host}, nil
}

func isPort(port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}
