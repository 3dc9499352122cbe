// Real nodes: kubelets with containerd and runc on machines made of namespaces, in the same cluster as
// KWOK's nodes. The first one brings up what pods expect of a cluster: see services.go.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/test/machines"
)

// fleet is the real nodes of a cluster and what they share. It is empty until the first is added.
type fleet struct {
	// prepare runs startFleet once; err is its error.
	prepare sync.Once
	err     error

	binaries Binaries
	init     string
	dir      string
	cgroup   machines.Cgroup
	janitor  *machines.Janitor
	network  *machines.Network

	mu     sync.Mutex
	nodes  map[string]*realNode
	images []string
}

// realNode is one machine and what identifies it.
type realNode struct {
	name    string
	number  int
	dir     string
	cgroup  machines.Cgroup
	process *Process
}

func newFleet() *fleet { return &fleet{nodes: map[string]*realNode{}} }

// startFleet prepares the host and the cluster for real nodes.
func (c *Cluster) startFleet(ctx context.Context, f *fleet) error {
	if c.authority == nil {
		return errNotOurs
	}
	err := machines.Check()
	if err != nil {
		return err
	}
	if f.binaries, err = BuildNodes(ctx, c.options.Progress); err != nil {
		return err
	}
	root, err := RepositoryRoot()
	if err != nil {
		return err
	}
	f.dir = filepath.Join(c.dir, "machines")
	if err := os.MkdirAll(filepath.Join(f.dir, sharedFolder), 0o755); err != nil {
		return fmt.Errorf("making the folder of machines: %w", err)
	}
	if f.init, err = machines.Build(ctx, root, f.dir); err != nil {
		return err
	}
	if err := c.startJanitor(f); err != nil {
		return err
	}
	if err := c.startNetwork(ctx, f); err != nil {
		return err
	}
	if err := f.buildPrograms(ctx, root); err != nil {
		return err
	}
	return c.startClusterServices(ctx, f)
}

// buildPrograms builds what every machine needs besides its init.
func (f *fleet) buildPrograms(ctx context.Context, root string) error {
	pause, err := images.BuildProgram(ctx, root, f.dir, "./test/pause", PauseImage, images.Image{})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.images = append(f.images, pause)
	f.mu.Unlock()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(f.dir, gpuPlugin), "./test/gpuplugin")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	_, err = outputOf(build)
	return err
}

// sharedFolder is the storage that all real nodes mount, at SharedPath.
const sharedFolder = "shared"

func (c *Cluster) startJanitor(f *fleet) error {
	f.cgroup = machines.NewCgroup("lockstep-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(c.dir))
	if err := f.cgroup.Make(); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.dir, "logs", "janitor.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	f.janitor, err = machines.StartJanitor(f.init, f.cgroup, f.dir, log)
	return err
}

// thawFleet lets frozen machines go on: the kernel ends no process that is frozen.
func (c *Cluster) thawFleet() error {
	if c.fleet.janitor == nil {
		return nil
	}
	return c.fleet.cgroup.ThawChildren()
}

// stopFleet ends the machines at once, as Stop does with everything, and waits until nothing is left.
func (c *Cluster) stopFleet() error {
	if c.fleet.janitor == nil {
		return nil
	}
	return c.fleet.janitor.Finish()
}

// startNetwork makes the network of the machines, and the API server's address in it.
func (c *Cluster) startNetwork(ctx context.Context, f *fleet) error {
	second, release, err := claimNetwork()
	if err != nil {
		return err
	}
	c.releases = append(c.releases, release)
	router, err := c.Run(ctx, Command{Name: "router", Path: f.init, Args: []string{"router"}, Namespaces: machines.RouterNamespaces})
	if err != nil {
		return err
	}
	f.network = machines.NewNetwork(second, router.PID())
	return f.network.Connect()
}

// claimNetwork finds a /16 between 10.128 and 10.250 that the host does not use and no other cluster
// takes before release is called. KWOK's pods have the addresses below.
func claimNetwork() (second byte, release func(), err error) {
	dir, err := claimsFolder("networks")
	if err != nil {
		return 0, nil, err
	}
	for second := byte(128); second <= 250; second++ {
		unclaim, err := TryLock(filepath.Join(dir, strconv.Itoa(int(second))))
		if errors.Is(err, ErrLocked) || errors.Is(err, os.ErrPermission) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if free, err := machines.IsFree(second); err != nil || !free {
			unclaim()
			if err != nil {
				return 0, nil, err
			}
			continue
		}
		return second, unclaim, nil
	}
	return 0, nil, errors.New("no free network between 10.128.0.0/16 and 10.250.0.0/16")
}

// addRealNodes starts a machine for each node of a pool, and returns once all are ready for pods.
func (c *Cluster) addRealNodes(ctx context.Context, t Topology) error {
	c.fleet.prepare.Do(func() { c.fleet.err = c.startFleet(ctx, c.fleet) })
	if c.fleet.err != nil {
		return fmt.Errorf("preparing for real nodes: %w", c.fleet.err)
	}
	var nodes []*realNode
	for rack := range t.Racks {
		for index := range t.NodesPerRack {
			node, err := c.prepareNode(t, t.Rack(rack), t.Node(rack, index))
			if err != nil {
				return fmt.Errorf("preparing node %s: %w", t.Node(rack, index), err)
			}
			nodes = append(nodes, node)
		}
	}
	return each(ctx, nodes, c.bootNode)
}

// bootNode starts a machine, or starts it again after it was powered off.
func (c *Cluster) bootNode(ctx context.Context, n *realNode) error {
	if err := n.process.Start(ctx); err != nil {
		return err
	}
	if err := c.fleet.network.Attach(n.number, n.process.PID()); err != nil {
		return err
	}
	if err := n.awaitContainerd(ctx); err != nil {
		return err
	}
	return c.importImages(ctx, n)
}

func (n *realNode) awaitContainerd(ctx context.Context) error {
	return eventually(ctx, "containerd answers on "+n.name, func(ctx context.Context) error {
		_, err := n.ctr(ctx, "version")
		return err
	})
}

// ctr runs containerd's client against the machine's containerd.
func (n *realNode) ctr(ctx context.Context, args ...string) ([]byte, error) {
	socket := machines.Path(n.process.PID(), "/run/containerd/containerd.sock")
	return output(ctx, "ctr", append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
}

func (n *realNode) importImage(ctx context.Context, archive string) error {
	if _, err := n.ctr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("importing %s on %s: %w", archive, n.name, err)
	}
	return nil
}

// realNode returns a real node by its name.
func (c *Cluster) realNode(name string) (*realNode, error) {
	if n := c.machineOf(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("node %s is not a real one of this cluster", name)
}

// machineOf returns the machine of a real node, or nil.
func (c *Cluster) machineOf(node string) *realNode {
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	return c.fleet.nodes[node]
}

// removeMachine ends a node's machine and forgets it. It does nothing for nodes that are not real.
func (c *Cluster) removeMachine(name string) error {
	n := c.machineOf(name)
	if n == nil {
		return nil
	}
	if err := n.powerOff(); err != nil {
		return err
	}
	c.fleet.mu.Lock()
	delete(c.fleet.nodes, name)
	c.fleet.mu.Unlock()
	c.forget(n.process)
	return errors.Join(n.cgroup.Remove(), os.RemoveAll(n.dir))
}
