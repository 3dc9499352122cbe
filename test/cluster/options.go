// What can be asked of a cluster, and what it is when nothing is asked.

package cluster

import (
	_ "embed"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// SchedulerConfig is the configuration that the Volcano scheduler runs with by default.
//
//go:embed scheduler.yaml
var SchedulerConfig string

// defaultGracePeriod is a fifth of the node controller's own default: tests wait for it to pass.
const defaultGracePeriod = 8 * time.Second

// Options say how a cluster is started. The zero value is a good cluster for tests.
type Options struct {
	// Name is the kubeconfig's context; "lockstep" by default.
	Name string
	// Dir is where data, logs and kubeconfigs go; a new temporary folder by default.
	Dir string
	// Keep leaves Dir in place when the cluster stops.
	Keep bool

	// Scheme is the client's; by default it knows client-go's and Volcano's types.
	Scheme *runtime.Scheme
	// CRDs are files or folders of further CRDs to install at start.
	CRDs []string

	// NodeMonitorGracePeriod is how long a node may stay silent before it is NotReady: 8 s by
	// default. Every node renews its lease four times in it, so take 40 s (Kubernetes' own default
	// before 1.32) or more for a thousand nodes on a small machine.
	NodeMonitorGracePeriod time.Duration
	// SchedulerConfig replaces the constant of that name.
	SchedulerConfig string
	// AuditLog is a file to which the API server writes what AuditPolicy says; by default, one line
	// per request that changes something, without the bodies.
	AuditLog, AuditPolicy string
	// Args are further flags by component name; a flag given here wins over ours.
	Args map[string][]string

	// Progress is told what is built and started; standard error by default.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "lockstep"
	}
	if o.NodeMonitorGracePeriod == 0 {
		o.NodeMonitorGracePeriod = defaultGracePeriod
	}
	if o.SchedulerConfig == "" {
		o.SchedulerConfig = SchedulerConfig
	}
	if o.AuditPolicy == "" {
		o.AuditPolicy = auditPolicy
	}
	if o.Scheme == nil {
		o.Scheme = NewScheme()
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	return o
}
