// Kueue, which decides when jobs run.

package operator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// kueueConfig is Kueue's configuration: it manages TrainingJobs, here and in other clusters, beside Kubernetes' own Jobs. The placeholders are two ports and the folder of
// certificates.
const kueueConfig = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
leaderElection: {leaderElect: false}
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

// converted are the CRDs that Kueue gives the authority of its certificates, so that they need a webhook: no version but the stored one is read, and it is never called.
var converted = []string{"localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"}

const conversion = `{"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:9443/convert"}, "conversionReviewVersions": ["v1"]}}}}`

// IsForKueue reports whether the manager has a right only where Kueue decides when jobs run.
func IsForKueue(right string) bool {
	return strings.Contains(right, " kueue.x-k8s.io ") || right == Right("get", "scheduling.k8s.io", "priorityclasses")
}

// InstallKueue gives a cluster Kueue's CRDs and namespace, and the manager the rights that are shipped for it.
func InstallKueue(ctx context.Context, c *cluster.Cluster) error {
	source, err := cluster.ModuleDir(ctx, kueueModule, kueueSource)
	if err != nil {
		return err
	}
	if err := c.InstallCRDs(filepath.Join(source, "config", "components", "crd", "bases")); err != nil {
		return err
	}
	for _, name := range converted {
		crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name + ".kueue.x-k8s.io"}}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := c.Client().Patch(ctx, crd, client.RawPatch(types.MergePatchType, []byte(conversion))); err != nil {
			return fmt.Errorf("patch the CRD of %s: %w", name, err)
		}
	}
	if err := c.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: KueueNamespace}}); err != nil {
		return fmt.Errorf("create Kueue's namespace: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: KueueNamespace, Name: "kueue-webhook-server-cert"}} // Kueue fills it
	if err := c.Client().Create(ctx, secret); err != nil {
		return fmt.Errorf("create the Secret of Kueue's certificates: %w", err)
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
	config := filepath.Join(dir, "kueue-"+filepath.Base(filepath.Dir(c.LogDir()))+".yaml") // the folders of clusters have names of their own
	if err := os.WriteFile(config, fmt.Appendf(nil, kueueConfig, ports[0], ports[1], certificates), 0o600); err != nil {
		return nil, err
	}
	process, err := c.Run(ctx, cluster.Command{
		Name: cluster.Kueue, Path: built.Path(cluster.Kueue), Args: []string{"--config=" + config, "--kubeconfig=" + c.Kubeconfig()}, Ready: isReady(ports[0]),
	})
	if err != nil {
		return nil, err
	}
	return process, validateWorkloads(ctx, c, ports[1], filepath.Join(certificates, "ca.crt"))
}

func isReady(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("asking Kueue whether it is ready: %s", answer.Status)
		}
		return nil
	}
}

// validateWorkloads has the API server ask Kueue about each write of a Workload, as where it is installed.
func validateWorkloads(ctx context.Context, c *cluster.Cluster, port int, authority string) error {
	ca, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kueue"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "vworkload.kb.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			ClientConfig: admissionv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://127.0.0.1:%d/validate-kueue-x-k8s-io-v1beta2-workload", port)), CABundle: ca},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"kueue.x-k8s.io"}, APIVersions: []string{"v1beta2"}, Resources: []string{"workloads", "workloads/status"}},
			}},
		}},
	}
	if err := c.Client().Create(ctx, hook); err != nil {
		return fmt.Errorf("create the webhook of Kueue: %w", err)
	}
	return nil
}
