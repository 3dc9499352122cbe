// Clients of the cluster.

package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	busv1alpha1 "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// NewScheme knows the types of Kubernetes and of Volcano.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		batchv1alpha1.AddToScheme,
		busv1alpha1.AddToScheme,
		schedulingv1beta1.AddToScheme,
		topologyv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// RESTConfig is the administrator's, without a limit on the rate of requests.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Client is the administrator's; it reads from the API server, never from a cache.
func (c *Cluster) Client() client.WithWatch { return c.client }

// KubeconfigFor writes a kubeconfig for another user, to whom RBAC applies, and returns its path.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	if c.authority == nil {
		return "", errNotOurs
	}
	path := c.authority.path(user + ".kubeconfig")
	return path, c.authority.kubeconfig(path, c.options.Name, c.config.Host, user, groups...)
}

// Connect returns a cluster that runs already, by its kubeconfig: every verb works, but its
// processes are not ours to stop.
func Connect(kubeconfig string, options Options) (*Cluster, error) {
	c := &Cluster{options: options.withDefaults(), kubeconfig: kubeconfig, fleet: newFleet()}
	return c, c.connect()
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", c.kubeconfig, err)
	}
	config.QPS = -1
	config.UserAgent = "test-cluster"
	c.config = config
	c.client, err = client.NewWithWatch(config, client.Options{Scheme: c.options.Scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}
