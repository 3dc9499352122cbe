// One real node: its folder on the host, its configuration files, its machine.

package cluster

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/test/machines"
	"github.com/lockstep-dev/lockstep/test/machines/boot"
)

const (
	kubeletProgram   = "kubelet"
	kubeProxyProgram = "kube-proxy"
	gpuPlugin        = "gpu-plugin"

	// SharedPath is a folder that all real nodes share, as a parallel filesystem is.
	SharedPath = "/shared"
	// LocalPath is a folder on a real node's own disk. It survives a reboot.
	LocalPath = "/var/local"

	configFolder   = "/etc/lockstep"
	programsFolder = "/opt/lockstep/bin"
)

//go:embed node
var nodeFiles embed.FS

// prepareNode makes the folder of a new machine and all files that its services read.
func (c *Cluster) prepareNode(t Topology, rack, name string) (*realNode, error) {
	n, err := c.fleet.register(name)
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"etc/cni", "log", "containerd", "kubelet", "local"} {
		if err := os.MkdirAll(filepath.Join(n.dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	if err := c.writeNodeFiles(n); err != nil {
		return nil, err
	}
	if err := n.cgroup.Make(); err != nil {
		return nil, err
	}
	config, err := c.bootConfig(n, t, rack)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(n.dir, "boot.json")
	if err := config.Write(file); err != nil {
		return nil, fmt.Errorf("writing the boot configuration: %w", err)
	}
	n.process, err = c.add(Command{Name: name, Path: c.fleet.init, Args: []string{"boot", file}, Namespaces: machines.Namespaces})
	return n, err
}

// register gives a node the lowest number that is free.
func (f *fleet) register(name string) (*realNode, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes[name] != nil {
		return nil, fmt.Errorf("there is a node %s already", name)
	}
	taken := map[int]bool{}
	for _, node := range f.nodes {
		taken[node.number] = true
	}
	for number := 1; number <= machines.MaxMachines; number++ {
		if !taken[number] {
			n := &realNode{name: name, number: number, dir: filepath.Join(f.dir, name), cgroup: f.cgroup.Child(name)}
			f.nodes[name] = n
			return n, nil
		}
	}
	return nil, fmt.Errorf("no more than %d real nodes fit in a cluster", machines.MaxMachines)
}

// writeNodeFiles writes the configuration files and kubeconfigs of a node.
func (c *Cluster) writeNodeFiles(n *realNode) error {
	network := c.fleet.network
	values := map[string]any{
		"PauseImage":   PauseImage,
		"CNIPlugins":   machines.CNIPlugins,
		"Pods":         network.Pods(n.number),
		"Network":      network.CIDR(),
		"ClusterDNS":   dnsClusterIP,
		"GraceSeconds": int(c.options.NodeMonitorGracePeriod.Seconds()),
	}
	for source, target := range map[string]string{
		"containerd.toml": "containerd.toml",
		"kubelet.yaml":    "kubelet.yaml",
		"kube-proxy.yaml": "kube-proxy.yaml",
		"bridge.conflist": cniConfig,
	} {
		content, err := render(source, values)
		if err != nil {
			return err
		}
		if err := os.WriteFile(n.etc(target), content, 0o600); err != nil {
			return err
		}
	}
	server := c.apiServerForNodes()
	if err := c.authority.kubeconfig(n.etc("kubelet.kubeconfig"), c.options.Name, server, "system:node:"+n.name, "system:nodes"); err != nil {
		return err
	}
	return c.authority.kubeconfig(n.etc("kube-proxy.kubeconfig"), c.options.Name, server, "system:kube-proxy")
}

// etc is the path, on the host, of one of the node's configuration files.
func (n *realNode) etc(name string) string { return filepath.Join(n.dir, "etc", name) }

// gpusLost is the file by which a node's GPUs are not there.
const gpusLost = "gpus-lost"

// cniConfig is where the configuration of pods' networks lies.
const cniConfig = "cni/10-bridge.conflist"

// render fills one of the templates.
func render(name string, values any) ([]byte, error) {
	parsed, err := template.New(name).Option("missingkey=error").ParseFS(nodeFiles, "node/"+name)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	if err := parsed.Execute(&out, values); err != nil {
		return nil, err
	}
	return []byte(out.String()), nil
}

func (c *Cluster) bootConfig(n *realNode, t Topology, rack string) (boot.Config, error) {
	cgroups, err := n.cgroup.Folders()
	if err != nil {
		return boot.Config{}, err
	}
	labels := []string{PoolLabel + "=" + t.Name, RackLabel + "=" + rack, corev1.LabelTopologyZone + "=" + t.Name}
	for key, value := range t.Labels {
		labels = append(labels, key+"="+value)
	}
	return boot.Config{
		Hostname: n.name,
		Cgroups:  cgroups,
		Binds: []boot.Bind{
			{Source: c.fleet.binaries.Dir, Target: programsFolder},
			{Source: filepath.Join(c.fleet.dir, gpuPlugin), Target: filepath.Join(configFolder+"-bin", gpuPlugin)},
			{Source: filepath.Join(n.dir, "etc"), Target: configFolder},
			{Source: filepath.Join(n.dir, "log"), Target: "/var/log"},
			{Source: filepath.Join(n.dir, "containerd"), Target: "/var/lib/containerd"},
			{Source: filepath.Join(n.dir, "kubelet"), Target: "/var/lib/kubelet"},
			{Source: filepath.Join(n.dir, "local"), Target: LocalPath},
			{Source: filepath.Join(c.fleet.dir, sharedFolder), Target: SharedPath},
		},
		Services: []boot.Service{
			{Name: "containerd", Path: "/usr/bin/containerd", Args: []string{"--config", configFolder + "/containerd.toml"}, Socket: "/run/containerd/containerd.sock"},
			{Name: kubeletProgram, Path: programsFolder + "/" + kubeletProgram, Args: []string{
				"--config=" + configFolder + "/kubelet.yaml",
				"--kubeconfig=" + configFolder + "/kubelet.kubeconfig",
				"--hostname-override=" + n.name,
				"--node-ip=" + c.fleet.network.Machine(n.number).String(),
				"--node-labels=" + strings.Join(labels, ","),
				"--v=2",
			}},
			{Name: kubeProxyProgram, Path: programsFolder + "/" + kubeProxyProgram, Args: []string{
				"--config=" + configFolder + "/kube-proxy.yaml", "--hostname-override=" + n.name,
			}},
			{Name: gpuPlugin, Path: configFolder + "-bin/" + gpuPlugin, Args: []string{
				"--node=" + n.name, "--gpus=" + strconv.Itoa(t.GPUsPerNode), "--lost=" + configFolder + "/" + gpusLost,
			}},
		},
	}, nil
}

// importImages loads the images that every real node has into one that has booted.
func (c *Cluster) importImages(ctx context.Context, n *realNode) error {
	c.fleet.mu.Lock()
	images := append([]string(nil), c.fleet.images...)
	c.fleet.mu.Unlock()
	for _, image := range images {
		if err := n.importImage(ctx, image); err != nil {
			return err
		}
	}
	return nil
}
