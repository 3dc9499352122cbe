// The programs that are built: those of the control plane, those of real nodes, and tools.

package cluster

import (
	"fmt"
	"slices"
)

// A binary is one program of the control plane: which module pins it and which package it is.
type binary struct {
	name    string
	module  string // folder below test/cluster/binaries
	pkg     string
	stamped string // variable that holds the version, and the module whose version it is
	version string
	tags    string // build tags
}

// Programs that the control plane does without, and tests run: Build makes those that its caller names.
const (
	Kubectl      = "kubectl"
	Helm         = "helm"
	Alertmanager = "alertmanager"
	Prometheus   = "prometheus"
	Promtool     = "promtool"
	Collector    = "otelcol"
	Kueue        = "kueue"
)

const (
	kubernetes  = "k8s.io/kubernetes"
	kubeVersion = "k8s.io/component-base/version"
	volcano     = "volcano.sh/volcano"
	prometheus  = "github.com/prometheus/prometheus"

	prometheusVersion = "github.com/prometheus/common/version"
)

// kube is one of Kubernetes' own programs.
func kube(name string) binary {
	return binary{name: name, module: ".", pkg: kubernetes + "/cmd/" + name, stamped: kubeVersion + ".gitVersion", version: kubernetes}
}

// controlPlane are the programs of every cluster.
func controlPlane() []binary {
	vc := func(name, cmd string) binary {
		return binary{name: name, module: ".", pkg: volcano + "/cmd/" + cmd, stamped: volcano + "/pkg/version.Version", version: volcano}
	}
	return []binary{
		{name: Etcd, module: ".", pkg: "go.etcd.io/etcd/server/v3"},
		kube(APIServer), kube(ControllerManager),
		vc(VolcanoScheduler, "scheduler"), vc(VolcanoControllerManager, "controller-manager"), vc(VolcanoWebhookManager, "webhook-manager"),
		{name: KWOK, module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
	}
}

func tools() []binary {
	return []binary{
		kube(Kubectl),
		{name: Helm, module: "helm", pkg: "helm.sh/helm/v3/cmd/helm"},
		{name: Alertmanager, module: "alerting", pkg: "github.com/prometheus/alertmanager/cmd/alertmanager"},
		// Their targets are named in a file: what finds targets in two dozen clouds is left out.
		{name: Prometheus, module: "alerting", pkg: prometheus + "/cmd/prometheus", tags: "remove_all_sd", stamped: prometheusVersion + ".Version", version: prometheus},
		{name: Promtool, module: "alerting", pkg: prometheus + "/cmd/promtool", tags: "remove_all_sd"},
		{name: Collector, module: "tracing", pkg: "."},
		{name: Kueue, module: "kueue", pkg: "sigs.k8s.io/kueue/cmd/kueue"},
	}
}

// nodeBinaries are the programs that only real nodes need.
func nodeBinaries() []binary {
	return []binary{kube(kubeletProgram), kube(kubeProxyProgram), kube(KubeScheduler), {name: CoreDNS, module: "dns", pkg: "."}}
}

// programs are those of the control plane, and the tools of these names.
func programs(names []string) ([]binary, error) {
	wanted, known := controlPlane(), tools()
	for _, name := range names {
		i := slices.IndexFunc(known, func(b binary) bool { return b.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no tool %q", name)
		}
		wanted = append(wanted, known[i])
	}
	return wanted, nil
}
