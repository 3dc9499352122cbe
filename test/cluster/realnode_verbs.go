// What can be done to real nodes.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/test/machines"
)

// PowerOff ends everything on real nodes at once, as a power failure does: kubelet, containerd, and
// the processes of every pod.
func (c *Cluster) PowerOff(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return n.powerOff() })
}

func (n *realNode) powerOff() error {
	// The kernel may still be taking a frozen process down.
	return errors.Join(n.cgroup.Thaw(), n.process.Kill())
}

// PowerOn boots real nodes that were powered off. They have kept their disks: images, the kubelet's
// files and LocalPath. Their nodes are Ready again when it returns.
func (c *Cluster) PowerOn(ctx context.Context, nodes ...string) error {
	err := c.eachRealNode(ctx, nodes, func(ctx context.Context, n *realNode) error {
		if err := n.clearCgroup(ctx); err != nil {
			return err
		}
		return c.bootNode(ctx, n)
	})
	if err != nil {
		return err
	}
	return c.AwaitNodes(ctx, corev1.ConditionTrue, nodes...)
}

// clearCgroup removes the cgroups of the pods that a node had before it lost its power. A machine that boots has none, and its kubelet would
// ask for the container of each for 3 s before it is ready. The kernel may still be taking processes down.
func (n *realNode) clearCgroup(ctx context.Context) error {
	err := eventually(ctx, "no process is left on "+n.name, func(context.Context) error { return n.cgroup.Remove() })
	return errors.Join(err, n.cgroup.Make())
}

// Freeze stops every process of real nodes where it is, as when a machine hangs. Connections stay
// open, and nobody is told.
func (c *Cluster) Freeze(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return n.cgroup.Freeze() })
}

// Thaw lets the processes of frozen nodes go on as if no time had passed.
func (c *Cluster) Thaw(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return n.cgroup.Thaw() })
}

// CutOff drops what real nodes and their pods send to the control plane, as when a network is
// partitioned. The pods run on and reach each other.
func (c *Cluster) CutOff(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return c.fleet.network.Cut(n.number) })
}

// Reconnect takes back what CutOff did.
func (c *Cluster) Reconnect(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return c.fleet.network.Mend(n.number) })
}

// Block drops what goes between real nodes, with their pods, and one port of the host, as a firewall or a NetworkPolicy does.
func (c *Cluster) Block(ctx context.Context, port uint16, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return c.fleet.network.CutPort(n.number, port) })
}

// Unblock takes back what Block did.
func (c *Cluster) Unblock(ctx context.Context, port uint16, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return c.fleet.network.MendPort(n.number, port) })
}

// SeparatePods drops what pods on real nodes send each other, as when the network of a training fails. All reach the host, and their own kubelets reach them.
func (c *Cluster) SeparatePods(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return c.fleet.network.CutPods(n.number) })
}

// JoinPods takes back what SeparatePods did.
func (c *Cluster) JoinPods(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return c.fleet.network.MendPods(n.number) })
}

// MountDevice mounts a block device of this host in a folder of real nodes. Pods that start from then on find it there.
func (c *Cluster) MountDevice(ctx context.Context, device, folder string, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(ctx context.Context, n *realNode) error {
		return n.enter(ctx, "mount", "--mkdir", device, folder)
	})
}

// UnmountDevice takes back what MountDevice did.
func (c *Cluster) UnmountDevice(ctx context.Context, folder string, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(ctx context.Context, n *realNode) error { return n.enter(ctx, "umount", folder) })
}

// enter runs a command among the files of a real node.
func (n *realNode) enter(ctx context.Context, command ...string) error {
	_, err := output(ctx, "nsenter", append([]string{"--mount=" + fmt.Sprintf("/proc/%d/ns/mnt", n.process.PID())}, command...)...)
	return err
}

// RestartKubelet kills a real node's kubelet. The machine starts it again after a second.
func (c *Cluster) RestartKubelet(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error {
		pid, err := machines.Service(n.process.PID(), kubeletProgram)
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	})
}

// FailSandboxes makes a real node unable to start pods: none gets a network. Its kubelet stays Ready,
// and pods that run are left alone.
func (c *Cluster) FailSandboxes(ctx context.Context, nodes ...string) error {
	return c.replaceCNI(ctx, nodes, `"bridge",`, brokenPlugin)
}

// MendSandboxes takes back what FailSandboxes did.
func (c *Cluster) MendSandboxes(ctx context.Context, nodes ...string) error {
	return c.replaceCNI(ctx, nodes, brokenPlugin, `"bridge",`)
}

// brokenPlugin names a CNI plugin that no node has.
const brokenPlugin = `"not-installed",`

func (c *Cluster) replaceCNI(ctx context.Context, nodes []string, before, after string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error {
		content, err := os.ReadFile(n.etc(cniConfig))
		if err != nil {
			return err
		}
		return os.WriteFile(n.etc(cniConfig), bytes.Replace(content, []byte(`"type": `+before), []byte(`"type": `+after), 1), 0o600)
	})
}

// LoseGPUs makes real nodes boot without their GPUs, as when a driver does not load. They have them until then.
func (c *Cluster) LoseGPUs(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return os.WriteFile(n.etc(gpusLost), nil, 0o600) })
}

// FindGPUs takes back what LoseGPUs did.
func (c *Cluster) FindGPUs(ctx context.Context, nodes ...string) error {
	return c.eachRealNode(ctx, nodes, func(_ context.Context, n *realNode) error { return os.Remove(n.etc(gpusLost)) })
}

// LoadImage imports an image's archive on all real nodes, those that come later among them.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	c.fleet.mu.Lock()
	c.fleet.images = append(c.fleet.images, archive)
	var names []string
	for name := range c.fleet.nodes {
		names = append(names, name)
	}
	c.fleet.mu.Unlock()
	return c.eachRealNode(ctx, names, func(ctx context.Context, n *realNode) error { return n.importImage(ctx, archive) })
}

// RemoveImage takes an image from a real node, where no pod can pull it again: there is no registry.
func (c *Cluster) RemoveImage(ctx context.Context, node, image string) error {
	n, err := c.realNode(node)
	if err != nil {
		return err
	}
	_, err = n.ctr(ctx, "images", "rm", "--sync", "docker.io/library/"+image)
	return err
}

// ImportImage puts an image on one real node, such as one that RemoveImage took.
func (c *Cluster) ImportImage(ctx context.Context, node, archive string) error {
	n, err := c.realNode(node)
	if err != nil {
		return err
	}
	return n.importImage(ctx, archive)
}

// NodeLogs is a folder with the logs of a real node's kubelet, containerd and kube-proxy.
func (c *Cluster) NodeLogs(node string) (string, error) {
	n, err := c.realNode(node)
	if err != nil {
		return "", err
	}
	return filepath.Join(n.dir, "log"), nil
}

// PodLogs is the folder with the logs of a pod's containers on a real node: what a kubelet that cannot be asked has of them.
func (c *Cluster) PodLogs(pod *corev1.Pod) (string, error) {
	n, err := c.realNode(pod.Spec.NodeName)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/root/var/log/pods/%s_%s_%s", n.process.PID(), pod.Namespace, pod.Name, pod.UID), nil
}

// SharedFolder is the host's own path of what real nodes see at SharedPath.
func (c *Cluster) SharedFolder() string { return filepath.Join(c.fleet.dir, sharedFolder) }

func (c *Cluster) eachRealNode(ctx context.Context, names []string, do func(context.Context, *realNode) error) error {
	return each(ctx, names, func(ctx context.Context, name string) error {
		n, err := c.realNode(name)
		if err != nil {
			return err
		}
		if err := do(ctx, n); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		return nil
	})
}
