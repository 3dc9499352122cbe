// The control plane's components: their names, flags and signs of readiness.

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The components' names, as Component and Log take them.
const (
	Etcd                     = "etcd"
	APIServer                = "kube-apiserver"
	ControllerManager        = "kube-controller-manager"
	VolcanoScheduler         = "volcano-scheduler"
	VolcanoControllerManager = "volcano-controller-manager"
	VolcanoWebhookManager    = "volcano-webhook-manager"
	KWOK                     = "kwok"
	// What runs only where there are real nodes.
	KubeScheduler = "kube-scheduler"
	CoreDNS       = "coredns"
)

// Addresses of Services, in the range of the API server's flag; the first one is its own.
const (
	apiServerClusterIP = "10.0.0.1"
	dnsClusterIP       = "10.0.0.10"
)

// auditPolicy logs who changed what, once per request, without the bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

// auditInOneFile is for no new file before so many MB.
const auditInOneFile = "--audit-log-maxsize=100000"

// ports of the components, all on the loopback address.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager       int
	scheduler, schedulerHealth, volcano, volcanoHealth int
	webhook, kwok                                      int
}

const portCount = 10

func (p *ports) set(free []int) {
	for i, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler,
		&p.schedulerHealth, &p.volcano, &p.volcanoHealth, &p.webhook, &p.kwok} {
		*port = free[i]
	}
}

// plan is all that the components' flags depend on.
type plan struct {
	options  Options
	binaries Binaries
	dir      string
	ports    ports
	pki      *authority
	probe    prober
}

func (p *plan) path(elements ...string) string {
	return filepath.Join(append([]string{p.dir}, elements...)...)
}

func (p *plan) command(name string, ready readiness, args ...string) Command {
	return Command{
		Name:  name,
		Path:  p.binaries.Path(name),
		Args:  append(args, p.options.Args[name]...),
		Env:   []string{"HOME=" + p.dir},
		Dir:   p.dir,
		Ready: ready,
	}
}

func (p *plan) serverURL() string { return "https://" + loopback(p.ports.apiServer) }

func (p *plan) etcd() Command {
	client, peer := "http://"+loopback(p.ports.etcd), "http://"+loopback(p.ports.etcdPeer)
	return p.command(Etcd, p.probe.ok(client+"/health"),
		"--name=default",
		"--data-dir="+p.path("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer,
		// Nothing here has to survive the machine.
		"--unsafe-no-fsync",
		"--log-level=warn")
}

func (p *plan) apiServer() (Command, error) {
	args := []string{
		"--etcd-servers=http://" + loopback(p.ports.etcd),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(p.ports.apiServer),
		// The loopback address cannot be an endpoint of the kubernetes Service.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + p.path("apiserver"),
		"--tls-cert-file=" + p.pki.path(servingCert), "--tls-private-key-file=" + p.pki.path(servingKey),
		"--client-ca-file=" + p.pki.path(caFile),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.pki.path(serviceAccountCert),
		"--service-account-signing-key-file=" + p.pki.path(serviceAccountKey),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--kubelet-preferred-address-types=InternalIP",
		"--allow-privileged",
		"--delete-collection-workers=16",
	}
	if p.options.AuditLog != "" {
		policy := p.path("audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(p.options.AuditPolicy), 0o600); err != nil {
			return Command{}, fmt.Errorf("writing the audit policy: %w", err)
		}
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+p.options.AuditLog, auditInOneFile)
	}
	return p.command(APIServer, p.probe.ok(p.serverURL()+"/readyz"), args...), nil
}

func (p *plan) controllerManager() (Command, error) {
	kubeconfig, err := p.kubeconfigFor("system:" + ControllerManager)
	return p.command(ControllerManager, p.probe.ok("https://"+loopback(p.ports.controllerManager)+"/healthz"),
		"--kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(p.ports.controllerManager),
		"--tls-cert-file="+p.pki.path(servingCert), "--tls-private-key-file="+p.pki.path(servingKey),
		"--service-account-private-key-file="+p.pki.path(serviceAccountKey),
		"--root-ca-file="+p.pki.path(caFile),
		"--node-monitor-period=1s",
		"--node-monitor-grace-period="+p.options.NodeMonitorGracePeriod.String(),
		// It writes to every node each time their number passes 100, 500 or 1,000, for the sake of
		// kubelets that are not here.
		"--controllers=*,-ttl-controller",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--leader-elect=false"), err
}

func (p *plan) scheduler() (Command, error) {
	config := p.path("volcano-scheduler.yaml")
	if err := os.WriteFile(config, []byte(p.options.SchedulerConfig), 0o600); err != nil {
		return Command{}, fmt.Errorf("writing the scheduler's configuration: %w", err)
	}
	kubeconfig, err := p.kubeconfigFor(VolcanoScheduler)
	return p.command(VolcanoScheduler, p.probe.ok("http://"+loopback(p.ports.schedulerHealth)+"/healthz"),
		"--kubeconfig="+kubeconfig,
		"--scheduler-conf="+config,
		"--listen-address="+loopback(p.ports.scheduler), "--enable-metrics",
		"--healthz-address="+loopback(p.ports.schedulerHealth), "--enable-healthz",
		"--cache-dump-dir="+p.dir,
		"--leader-elect=false",
		"--logtostderr", "-v=2"), err
}

func (p *plan) volcanoControllerManager() (Command, error) {
	kubeconfig, err := p.kubeconfigFor(VolcanoControllerManager)
	return p.command(VolcanoControllerManager, p.probe.ok("http://"+loopback(p.ports.volcanoHealth)+"/healthz"),
		"--kubeconfig="+kubeconfig,
		"--listen-address="+loopback(p.ports.volcano), "--enable-metrics",
		"--healthz-address="+loopback(p.ports.volcanoHealth), "--enable-healthz",
		"--leader-elect=false",
		"--logtostderr", "-v=2"), err
}

func (p *plan) webhookURL() string { return "https://" + loopback(p.ports.webhook) }

func (p *plan) webhookManager(admissions []string) (Command, error) {
	kubeconfig, err := p.kubeconfigFor(VolcanoWebhookManager)
	return p.command(VolcanoWebhookManager, p.probe.answers(p.webhookURL()),
		"--kubeconfig="+kubeconfig,
		"--webhook-url="+p.webhookURL(),
		"--listen-address=127.0.0.1", "--port="+strconv.Itoa(p.ports.webhook),
		"--tls-cert-file="+p.pki.path(servingCert), "--tls-private-key-file="+p.pki.path(servingKey),
		"--ca-cert-file="+p.pki.path(caFile),
		"--admission-conf="+filepath.Join(p.binaries.Assets, admissionFile),
		"--enabled-admission="+strings.Join(admissions, ","),
		"--logtostderr", "-v=2"), err
}

// heartbeatLabel is on every node whose kubelet KWOK plays. Where it is taken away KWOK lets go of
// the node: no lease is renewed and no pod there changes, as when a machine loses its power.
const heartbeatLabel = "kwok.x-k8s.io/heartbeat"

func (p *plan) kwok() (Command, error) {
	config := p.path("kwok.yaml")
	stages, err := os.ReadFile(filepath.Join(p.binaries.Assets, stagesFile))
	if err != nil {
		return Command{}, fmt.Errorf("reading KWOK's stages: %w", err)
	}
	if err := os.WriteFile(config, append([]byte(kwokOptions), stages...), 0o600); err != nil {
		return Command{}, fmt.Errorf("writing KWOK's configuration: %w", err)
	}
	kubeconfig, err := p.kubeconfigFor(KWOK)
	return p.command(KWOK, p.probe.ok("http://"+loopback(p.ports.kwok)+"/healthz"),
		"--kubeconfig="+kubeconfig,
		"--config="+config,
		"--manage-nodes-with-label-selector="+heartbeatLabel,
		fmt.Sprintf("--node-lease-duration-seconds=%d", int(p.options.NodeMonitorGracePeriod.Seconds())),
		"--node-ip=127.0.0.1",
		"--cidr=10.64.0.1/10",
		"--server-address="+loopback(p.ports.kwok)), err
}

// kwokOptions let KWOK keep up with a thousand nodes.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodeLeaseParallelism: 16
  nodePlayStageParallelism: 16
  podPlayStageParallelism: 16
`

func (p *plan) kubeconfigFor(user string) (string, error) {
	path := p.path(strings.ReplaceAll(user, ":", "-") + ".kubeconfig")
	return path, p.pki.kubeconfig(path, p.options.Name, p.serverURL(), user, adminGroup)
}
