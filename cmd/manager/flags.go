// The manager's flags, and what is wrong with them before anything starts.

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/health/alerts"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/version"
)

// namespaceFile names the namespace of a pod in each of its containers.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// options are the manager's flags; `manager -h` documents them.
type options struct {
	metricsAddress, probeAddress string
	leaderElect                  bool
	leaderElectNamespace         string
	workers, writers             int
	qps                          float64
	burst                        int
	bindDirectly                 bool
	volcanoVersion               string
	holdResources                string
	standingHolds                bool
	maxHoldsPerQueue             int
	alerts                       alerts.Options
	supervisors                  supervisors.Options
	supervisorImage              string
	drainRequests                string
	drainer                      bool
	kueue                        bool
	tracing                      tracingOptions
	log                          zap.Options
}

func parseFlags() *options {
	o := &options{}
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint; 0 turns it off")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns them off")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "run one active manager among several replicas")
	flag.StringVar(&o.leaderElectNamespace, "leader-election-namespace", "", "namespace of the leader's lease; default: the manager's own")
	flag.IntVar(&o.workers, "workers", 8, "number of jobs that are looked at side by side")
	flag.IntVar(&o.writers, "writers", 16, "number of pods, or nodes, of one job that are written side by side")
	flag.Float64Var(&o.qps, "kube-api-qps", 500, "requests per second to the API server, sustained")
	flag.IntVar(&o.burst, "kube-api-burst", 1000, "requests to the API server in a burst")
	flag.BoolVar(&o.bindDirectly, "bind-directly", true, "bind a pod that returns to a node which its job has held without the scheduler; only with versions of Volcano that this was tested with")
	flag.StringVar(&o.volcanoVersion, "volcano-version", "", "version of the cluster's Volcano, such as v1.14.1; default: the image tag of the Deployment labelled app=volcano-scheduler")
	flag.StringVar(&o.holdResources, "hold-resources", "nvidia.com/gpu", "resources, separated by commas: a job holds a node only where it requests half of one of these, or of the node's cpu")
	flag.BoolVar(&o.standingHolds, "allow-standing-holds", true, "let jobs hold their nodes from placement to the end (hold.policy Always); else these hold them while they recover")
	flag.IntVar(&o.maxHoldsPerQueue, "max-holds-per-queue", 0, "number of nodes that the jobs of one queue may hold at a time; 0 for any number")
	flag.StringVar(&o.alerts.Address, "alerts-bind-address", alerts.Off, "address of the receiver of Alertmanager's webhook, such as :9443; 0 turns it off")
	flag.StringVar(&o.alerts.CertDir, "alerts-cert-dir", "", "folder of the receiver's tls.crt and tls.key; read again when they change")
	flag.StringVar(&o.supervisors.BindAddress, "supervisors-bind-address", supervisors.Off, "address of the stream of the supervisors in pods, such as :9444; 0 turns it off, and jobs with spec.supervisor are refused")
	flag.StringVar(&o.supervisors.Address, "supervisors-address", "", "host:port by which pods reach that stream of the leader; default: the Service lockstep-supervisors in the manager's namespace, and the port of the bind address")
	flag.StringVar(&o.supervisorImage, "supervisor-image", "", "image of lockstep-run, which pods of jobs with spec.supervisor copy it from")
	flag.StringVar(&o.drainRequests, "drain-requests-namespace", "", "namespace of NVSentinel's DrainRequests, which then say which ranks leave a node that NVSentinel has cordoned; default: all ranks are to leave each cordoned node")
	flag.BoolVar(&o.drainer, "drainer", false, "carry out the DrainRequests of --drain-requests-namespace, and run nothing else")
	flag.BoolVar(&o.kueue, "kueue", false, "have Kueue decide when the TrainingJobs run that have the label kueue.x-k8s.io/queue-name")
	o.tracing.bindFlags(flag.CommandLine)
	o.log.BindFlags(flag.CommandLine)
	version.AddFlag(flag.CommandLine)
	flag.Parse()
	return o
}

// validate says which flag is wrong, and what it should be. A pod finds the namespace of its lease in a file.
func (o *options) validate(namespaceFile string) error {
	switch {
	case o.workers < 1:
		return fmt.Errorf("--workers=%d: set 1 or more", o.workers)
	case o.writers < 1:
		return fmt.Errorf("--writers=%d: set 1 or more", o.writers)
	case o.qps <= 0:
		return fmt.Errorf("--kube-api-qps=%g: set more than 0", o.qps)
	case o.burst < 1:
		return fmt.Errorf("--kube-api-burst=%d: set 1 or more", o.burst)
	case o.maxHoldsPerQueue < 0:
		return fmt.Errorf("--max-holds-per-queue=%d: set 0 or more", o.maxHoldsPerQueue)
	}
	if o.drainer && o.drainRequests == "" {
		return errors.New("--drainer: set --drain-requests-namespace to the namespace of NVSentinel")
	}
	for _, name := range o.holdLimits().Resources {
		if wrong := validation.IsQualifiedName(string(name)); len(wrong) > 0 {
			return fmt.Errorf("--hold-resources=%s: %q is not the name of a resource: %s", o.holdResources, name, strings.Join(wrong, "; "))
		}
	}
	if o.leaderElect && o.leaderElectNamespace == "" {
		if _, err := os.Stat(namespaceFile); err != nil {
			return errors.New("--leader-elect outside a pod: set --leader-election-namespace to the namespace of the lease")
		}
	}
	if err := o.validateSupervisors(namespaceFile); err != nil {
		return err
	}
	return o.alerts.Validate()
}

// holdLimits are the limits on the nodes that jobs hold.
func (o *options) holdLimits() gang.HoldLimits {
	limits := gang.HoldLimits{NoStanding: !o.standingHolds, MaxPerQueue: o.maxHoldsPerQueue}
	if o.holdResources == "" {
		return limits
	}
	for name := range strings.SplitSeq(o.holdResources, ",") {
		limits.Resources = append(limits.Resources, corev1.ResourceName(name))
	}
	return limits
}
