// Starting and stopping a whole cluster.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNotOurs is what a cluster that was only connected to says of its processes.
var errNotOurs = errors.New("this cluster was started by another process: only that one can do this")

// Cluster is a control plane that runs, or one that was connected to.
type Cluster struct {
	options    Options
	dir        string
	kubeconfig string
	authority  *authority
	config     *rest.Config
	client     client.WithWatch
	plan       *plan // nil for one that was connected to

	fleet *fleet

	releases     []func()
	stopPodEnder context.CancelFunc

	mu        sync.Mutex
	processes []*Process
	deaths    []error
	dead      chan struct{}
}

// Start builds what is missing, starts a cluster and returns once it takes work. The cluster ends
// with Stop, or with this process, whichever comes first.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{options: options.withDefaults(), fleet: newFleet(), dead: make(chan struct{})}
	built, err := Build(ctx, c.options.Progress)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.start(ctx, built); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the cluster: %w", err), c.Stop())
	}
	c.settleAfterRestarts()
	fmt.Fprintf(c.options.Progress, "cluster: ready in %s, kubeconfig %s\n", time.Since(began).Round(100*time.Millisecond), c.kubeconfig)
	return c, nil
}

func (c *Cluster) start(ctx context.Context, built Binaries) error {
	if err := c.makeDir(ctx); err != nil {
		return err
	}
	plan, err := c.newPlan(built)
	if err != nil {
		return err
	}
	c.plan = plan
	c.kubeconfig = plan.path("kubeconfig")
	if err := c.authority.kubeconfig(c.kubeconfig, c.options.Name, plan.serverURL(), "admin", adminGroup); err != nil {
		return err
	}
	if err := c.startStorage(ctx, plan); err != nil {
		return err
	}
	if err := c.startPodEnder(); err != nil {
		return err
	}
	return together(ctx,
		func(ctx context.Context) error { return c.startCommand(ctx, plan.kwok) },
		func(ctx context.Context) error { return c.startControllers(ctx, plan) },
		c.AwaitUsable)
}

func (c *Cluster) newPlan(built Binaries) (*plan, error) {
	pki := filepath.Join(c.dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	var err error
	if c.authority, err = newAuthority(pki); err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	free, release, err := claimPorts(portCount)
	if err != nil {
		return nil, err
	}
	c.releases = append(c.releases, release)
	p := &plan{options: c.options, binaries: built, dir: c.dir, pki: c.authority, probe: newProber(c.authority)}
	p.ports.set(free)
	return p, nil
}

// startStorage starts what everything else talks to.
func (c *Cluster) startStorage(ctx context.Context, p *plan) error {
	if _, err := c.Run(ctx, p.etcd()); err != nil {
		return err
	}
	if err := c.startCommand(ctx, p.apiServer); err != nil {
		return err
	}
	return c.connect()
}

// startControllers starts all that works on Volcano's types. The controller manager is among it: its
// garbage collector looks for new types only every 30 s, and till then would leave the PodGroups of
// deleted jobs behind, which hold their place in the queue.
func (c *Cluster) startControllers(ctx context.Context, p *plan) error {
	if err := c.InstallCRDs(append([]string{filepath.Join(p.binaries.Assets, crdFolder)}, c.options.CRDs...)...); err != nil {
		return err
	}
	hooks, err := readWebhooks(p.binaries.Assets, p.webhookURL(), c.authority.pem)
	if err != nil {
		return err
	}
	return together(ctx,
		func(ctx context.Context) error { return c.startCommand(ctx, p.controllerManager) },
		func(ctx context.Context) error { return c.startCommand(ctx, p.scheduler) },
		func(ctx context.Context) error { return c.startCommand(ctx, p.volcanoControllerManager) },
		func(ctx context.Context) error { return c.installWebhooks(ctx, hooks) },
		func(ctx context.Context) error { return c.announceVolcano(ctx, p.binaries) },
		func(ctx context.Context) error {
			return c.startCommand(ctx, func() (Command, error) { return p.webhookManager(hooks.admissions) })
		})
}

func (c *Cluster) startCommand(ctx context.Context, command func() (Command, error)) error {
	cmd, err := command()
	if err != nil {
		return fmt.Errorf("preparing a component: %w", err)
	}
	_, err = c.Run(ctx, cmd)
	return err
}

// Stop ends every process and removes the data. Its error names each component that had ended by
// itself, with the end of its log.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	processes := c.processes
	c.processes = nil
	c.mu.Unlock()

	thawed := c.thawFleet()
	// What was run beside the control plane may have something to finish; the control plane has not.
	ours, theirs := split(processes)
	err := errors.Join(thawed, each(context.Background(), theirs, func(_ context.Context, p *Process) error { return p.Stop() }))
	if c.stopPodEnder != nil {
		c.stopPodEnder()
	}
	err = errors.Join(err, each(context.Background(), ours, func(_ context.Context, p *Process) error { return p.Kill() }), c.stopFleet(), c.Err())
	if !c.options.Keep && c.dir != "" {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	for _, release := range c.releases {
		release()
	}
	c.releases = nil
	return err
}

// Err says which components have ended by themselves so far; nil when all is well.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.deaths...)
}

// Dead is closed when the first component ends by itself.
func (c *Cluster) Dead() <-chan struct{} { return c.dead }

func (c *Cluster) died(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.deaths) == 0 {
		close(c.dead)
	}
	c.deaths = append(c.deaths, err)
}
