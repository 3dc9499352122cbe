// Kueue, which decides when jobs run.

package operator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	// KueueNamespace is Kueue's own.
	KueueNamespace = "kueue-system"
	// QueuesByKueue has a manager ask Kueue when jobs run.
	QueuesByKueue = "--kueue"
	// kueueModule is the folder of the module that pins Kueue, and of the module that Kueue is.
	kueueModule, kueueSource = "kueue", "sigs.k8s.io/kueue"
)

// kueueConfig is Kueue's configuration: it manages TrainingJobs, here and in other clusters, and nothing else. Its webhooks are called by nobody. The placeholders are two ports
// and the folder of certificates.
const kueueConfig = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
waitForPodsReady: {timeout: 10m}
integrations:
  frameworks: [batch/job]
  externalFrameworks: [TrainingJob.v1alpha1.lockstep.dev, Job.v1alpha1.batch.volcano.sh]
multiKueue:
  gcInterval: 5s
  workerLostTimeout: 10s
  externalFrameworks: [{name: TrainingJob.v1alpha1.lockstep.dev}]
featureGates: {VisibilityOnDemand: false}
`

// underEtc runs a program with a folder of certificates where Kueue looks for that of its metrics, in an /etc of its own.
const underEtc = `mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && cp -r "$0" /etc/kueue/metrics/certs && exec "$@"`

// InstallKueue gives a cluster Kueue's CRDs and namespace, and the manager the rights that are shipped for it.
func InstallKueue(ctx context.Context, c *cluster.Cluster) error {
	source, err := cluster.ModuleDir(ctx, kueueModule, kueueSource)
	if err != nil {
		return err
	}
	// Without its patches no CRD asks a webhook to convert, so that only the version that is stored can be read.
	if err := c.InstallCRDs(filepath.Join(source, "config", "components", "crd", "bases")); err != nil {
		return err
	}
	if err := c.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: KueueNamespace}}); err != nil {
		return fmt.Errorf("create Kueue's namespace: %w", err)
	}
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	objects, err := cluster.Kustomize(ctx, filepath.Join(root, "config", "kueue"))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetName() != "lockstep-kueue" {
			continue
		}
		if err := client.IgnoreAlreadyExists(c.Client().Create(ctx, o)); err != nil {
			return fmt.Errorf("create the %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// RunKueue runs Kueue in a cluster that has its CRDs, with its files in a folder.
func RunKueue(ctx context.Context, c *cluster.Cluster, dir string) (*cluster.Process, error) {
	built, err := cluster.Build(ctx, os.Stderr, cluster.Kueue)
	if err != nil {
		return nil, err
	}
	certificates, err := c.CertificateDir()
	if err != nil {
		return nil, err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = c.Port(); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(dir, "kueue-"+filepath.Base(c.LogDir())+".yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kueueConfig, ports[0], ports[1], certificates), 0o600); err != nil {
		return nil, err
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return nil, fmt.Errorf("finding unshare, of Debian's package util-linux: %w", err)
	}
	return c.Run(ctx, cluster.Command{Name: "kueue", Path: unshare, Args: []string{
		"--mount", "--map-root-user", "sh", "-c", underEtc, certificates, built.Path(cluster.Kueue), "--config=" + config, "--kubeconfig=" + c.Kubeconfig(),
	}})
}
