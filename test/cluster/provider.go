// The cluster as a provider of sigs.k8s.io/e2e-framework, so that its tests can run on it.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/klient"
	"sigs.k8s.io/e2e-framework/support"
)

// Provider makes clusters for e2e-framework: envfuncs.CreateCluster(cluster.NewProvider(options), name).
type Provider struct {
	options Options
	cluster *Cluster
}

var _ support.E2EClusterProvider = (*Provider)(nil)

// NewProvider is a provider whose clusters are started with these options.
func NewProvider(options Options) *Provider { return &Provider{options: options} }

// Cluster is the running cluster, with all its verbs; nil before Create.
func (p *Provider) Cluster() *Cluster { return p.cluster }

// SetDefaults has nothing to set: Start does.
func (p *Provider) SetDefaults() support.E2EClusterProvider { return p }

// WithName names the cluster.
func (p *Provider) WithName(name string) support.E2EClusterProvider {
	p.options.Name = name
	return p
}

// WithVersion changes nothing: the versions are pinned in the binaries' go.mod.
func (p *Provider) WithVersion(string) support.E2EClusterProvider { return p }

// WithPath changes nothing: the environment variable BinariesVariable names a folder of binaries.
func (p *Provider) WithPath(string) support.E2EClusterProvider { return p }

// WithOpts applies options of the framework's kind.
func (p *Provider) WithOpts(opts ...support.ClusterOpts) support.E2EClusterProvider {
	for _, apply := range opts {
		apply(p)
	}
	return p
}

// Create starts the cluster and returns the path of its kubeconfig.
func (p *Provider) Create(ctx context.Context, args ...string) (string, error) {
	if len(args) > 0 {
		return "", fmt.Errorf("arguments %q are not understood: give Options to NewProvider", args)
	}
	if p.cluster != nil {
		return "", errors.New("this provider's cluster runs already")
	}
	c, err := Start(ctx, p.options)
	if err != nil {
		return "", err
	}
	p.cluster = c
	return c.Kubeconfig(), nil
}

// CreateWithConfig takes the file as the Volcano scheduler's configuration.
func (p *Provider) CreateWithConfig(ctx context.Context, configFile string) (string, error) {
	content, err := os.ReadFile(configFile)
	if err != nil {
		return "", fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	p.options.SchedulerConfig = string(content)
	return p.Create(ctx)
}

// GetKubeconfig is the path of the administrator's kubeconfig.
func (p *Provider) GetKubeconfig() string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.Kubeconfig()
}

// GenerateKubeconfig is the same: it does not change while the cluster runs.
func (p *Provider) GenerateKubeconfig(...string) (string, error) { return p.GetKubeconfig(), nil }

// GetKubectlContext is the kubeconfig's only context.
func (p *Provider) GetKubectlContext() string { return p.options.withDefaults().Name }

// ExportLogs copies the components' logs.
func (p *Provider) ExportLogs(_ context.Context, dest string) error {
	if p.cluster == nil {
		return errors.New("there is no cluster yet: call Create first")
	}
	if err := os.MkdirAll(dest, 0o755); err != nil {
		return fmt.Errorf("making the folder for logs: %w", err)
	}
	return copyFiles(p.cluster.LogDir(), filepath.Clean(dest))
}

// Destroy stops the cluster.
func (p *Provider) Destroy(context.Context) error {
	if p.cluster == nil {
		return nil
	}
	c := p.cluster
	p.cluster = nil
	return c.Stop()
}

// WaitForControlPlane has nothing to wait for: Create returns a cluster that takes work.
func (p *Provider) WaitForControlPlane(context.Context, klient.Client) error { return nil }

// KubernetesRestConfig is the administrator's.
func (p *Provider) KubernetesRestConfig() *rest.Config {
	if p.cluster == nil {
		return nil
	}
	return p.cluster.RESTConfig()
}
