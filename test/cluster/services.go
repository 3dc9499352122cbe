// What pods on real nodes expect of a cluster besides kubelets: the API server's Service, DNS, and the
// scheduler of pods that are not Volcano's.

package cluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/inetaf/tcpproxy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// PauseImage holds the namespaces of pods on real nodes.
	PauseImage = "lockstep-pause:dev"
	// APIServerPort is the API server's on the host's address in the machines' network.
	APIServerPort = 6443
	dnsPort       = 53
)

// apiServerForNodes is the API server's address in the machines' network.
func (c *Cluster) apiServerForNodes() string {
	return "https://" + net.JoinHostPort(c.fleet.network.Host().String(), strconv.Itoa(APIServerPort))
}

// HostAddress is the address by which pods on real nodes reach this host.
func (c *Cluster) HostAddress() string { return c.fleet.network.Host().String() }

// startClusterServices starts what runs once for all real nodes.
func (c *Cluster) startClusterServices(ctx context.Context, f *fleet) error {
	if err := c.forwardAPIServer(f); err != nil {
		return err
	}
	return together(ctx,
		func(ctx context.Context) error { return c.createServices(ctx, f) },
		func(ctx context.Context) error {
			return c.startCommand(ctx, func() (Command, error) { return c.kubeScheduler(f) })
		},
		func(ctx context.Context) error {
			return c.startCommand(ctx, func() (Command, error) { return c.coreDNS(f) })
		})
}

// forwardAPIServer lets the machines reach the API server, which listens on the loopback address.
func (c *Cluster) forwardAPIServer(f *fleet) error {
	server, err := url.Parse(c.config.Host)
	if err != nil {
		return err
	}
	proxy := &tcpproxy.Proxy{}
	proxy.AddRoute(net.JoinHostPort(f.network.Host().String(), strconv.Itoa(APIServerPort)), tcpproxy.To(server.Host))
	if err := proxy.Start(); err != nil {
		return fmt.Errorf("listening for the machines: %w", err)
	}
	c.releases = append(c.releases, func() { _ = proxy.Close() })
	return nil
}

// createServices makes the Service of DNS, and says where it and that of the API server lead.
func (c *Cluster) createServices(ctx context.Context, f *fleet) error {
	dns := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-dns"},
		Spec: corev1.ServiceSpec{ClusterIP: dnsClusterIP, Ports: []corev1.ServicePort{
			{Name: "dns", Protocol: corev1.ProtocolUDP, Port: dnsPort, TargetPort: intstr.FromInt32(dnsPort)},
			{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: dnsPort, TargetPort: intstr.FromInt32(dnsPort)},
		}},
	}
	if err := c.client.Create(ctx, dns); err != nil {
		return fmt.Errorf("creating the Service of DNS: %w", err)
	}
	for _, slice := range []*discoveryv1.EndpointSlice{
		hostEndpoints(f, dns.Namespace, dns.Name, endpointPort("dns", corev1.ProtocolUDP, dnsPort), endpointPort("dns-tcp", corev1.ProtocolTCP, dnsPort)),
		hostEndpoints(f, metav1.NamespaceDefault, "kubernetes", endpointPort("https", corev1.ProtocolTCP, APIServerPort)),
	} {
		if err := c.client.Create(ctx, slice); err != nil {
			return fmt.Errorf("creating the endpoints of Service %s: %w", slice.Name, err)
		}
	}
	return nil
}

func hostEndpoints(f *fleet, namespace, service string, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{f.network.Host().String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       ports,
	}
}

func endpointPort(name string, protocol corev1.Protocol, port int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &port}
}

// kubeScheduler places the pods of DaemonSets and Deployments, as it does beside Volcano elsewhere.
func (c *Cluster) kubeScheduler(f *fleet) (Command, error) {
	ports, release, err := claimPorts(1)
	if err != nil {
		return Command{}, err
	}
	c.releases = append(c.releases, release)
	kubeconfig, err := c.KubeconfigFor("system:"+KubeScheduler, adminGroup)
	return Command{
		Name: KubeScheduler, Path: f.binaries.Path(KubeScheduler),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[0]),
			"--tls-cert-file=" + c.authority.path(servingCert), "--tls-private-key-file=" + c.authority.path(servingKey),
			"--leader-elect=false",
		},
		Ready: newProber(c.authority).ok("https://" + loopback(ports[0]) + "/healthz"),
	}, err
}

func (c *Cluster) coreDNS(f *fleet) (Command, error) {
	ports, release, err := claimPorts(1)
	if err != nil {
		return Command{}, err
	}
	c.releases = append(c.releases, release)
	kubeconfig, err := c.KubeconfigFor(CoreDNS, adminGroup)
	if err != nil {
		return Command{}, err
	}
	health := loopback(ports[0])
	content, err := render("Corefile", map[string]any{"Host": f.network.Host(), "Health": health, "Kubeconfig": kubeconfig})
	if err != nil {
		return Command{}, err
	}
	corefile := filepath.Join(c.dir, "Corefile")
	if err := os.WriteFile(corefile, content, 0o600); err != nil {
		return Command{}, fmt.Errorf("writing the configuration of DNS: %w", err)
	}
	return Command{
		Name: CoreDNS, Path: f.binaries.Path(CoreDNS), Args: []string{"-conf", corefile},
		Ready: newProber(c.authority).ok("http://" + health + "/health"),
	}, nil
}
