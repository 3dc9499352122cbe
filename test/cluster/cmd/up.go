// Starting a cluster, in the foreground or on its own, and stopping it.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// state is what a running up leaves for down and the verbs; it holds good while the lock is held.
type state struct {
	PID        int    `json:"pid"`
	Kubeconfig string `json:"kubeconfig"`
	Logs       string `json:"logs"`
}

const (
	stateFile = "state.json"
	lockFile  = "owner"
	logFile   = "cluster.log"
)

// gpuLabel is what GPU feature discovery says of a node with GPUs. The health agents run where it is.
const gpuLabel = "nvidia.com/gpu.present"

// upFlags are the flags of up.
type upFlags struct {
	detach     bool
	kubeconfig string
	preset     string
	tiers      list
	members    string
	crds       list
	options    cluster.Options
	topology   cluster.Topology
}

func (f *upFlags) parse(flags *flag.FlagSet, args []string) error {
	flags.BoolVar(&f.detach, "detach", false, "return when the cluster is ready and leave it running")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "where to write the kubeconfig (default .cache/cluster/run/kubeconfig)")
	flags.StringVar(&f.topology.Name, "pool", "gpu", "the pool's name, which begins its nodes' names")
	flags.IntVar(&f.topology.Racks, "racks", 3, "racks, each a HyperNode of tier 1; 0 for no nodes at all")
	flags.IntVar(&f.topology.NodesPerRack, "nodes-per-rack", 6, "nodes in each rack")
	flags.IntVar(&f.topology.GPUsPerNode, "gpus", 8, "GPUs of each node")
	flags.Var(&f.tiers, "tiers", "tiers above the racks: how many of the tier below each HyperNode groups, such as 4,2")
	flags.StringVar(&f.members, "members", "exact", "how racks select their nodes: exact, regex or label")
	flags.BoolVar(&f.topology.Real, "real", false, "nodes with a kubelet and containerd of their own, in place of KWOK's; needs root")
	flags.StringVar(&f.preset, "preset", "", "gb300-nvl72: racks of 18 nodes with 4 GPUs each")
	flags.Var(&f.crds, "crd", "a file or folder of CRDs to install; may be repeated")
	flags.DurationVar(&f.options.NodeMonitorGracePeriod, "node-monitor-grace-period", 0, "how long a silent node stays Ready (default 8s)")
	flags.StringVar(&f.options.AuditLog, "audit-log", "", "a file for one line per changing request, or for what --audit-policy asks for")
	flags.Func("audit-policy", "a `file` with the policy of the audit log, such as config/audit/policy.yaml", func(file string) error {
		policy, err := os.ReadFile(file)
		f.options.AuditPolicy = string(policy)
		return err
	})
	flags.BoolVar(&f.options.Keep, "keep", false, "keep data and logs when the cluster stops")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("up takes no argument %q", flags.Arg(0))
	}
	f.options.CRDs = f.crds
	return f.shape()
}

func (f *upFlags) shape() error {
	switch f.preset {
	case "":
	case "gb300-nvl72":
		f.topology = cluster.GB300NVL72(f.topology.Name, f.topology.Racks)
	default:
		return fmt.Errorf("there is no preset %q: take gb300-nvl72", f.preset)
	}
	f.topology.Members = cluster.MemberKind(f.members)
	if f.topology.GPUsPerNode > 0 {
		f.topology.Labels = map[string]string{gpuLabel: "true"}
	}
	for _, tier := range f.tiers {
		size, err := strconv.Atoi(tier)
		if err != nil {
			return fmt.Errorf("--tiers takes numbers such as 4,2: %w", err)
		}
		f.topology.Tiers = append(f.topology.Tiers, size)
	}
	return nil
}

func up(ctx context.Context, flags *flag.FlagSet, args []string) error {
	f := &upFlags{}
	if err := f.parse(flags, args); err != nil {
		return err
	}
	dir, err := stateDir()
	if err != nil {
		return err
	}
	if f.kubeconfig == "" {
		f.kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	unlock, err := cluster.TryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, cluster.ErrLocked) {
		return errors.New("a cluster is running already: stop it with down, or with an interrupt where it was started")
	}
	if err != nil {
		return err
	}
	if f.detach {
		unlock() // The process in the background takes it.
		return detach(ctx, dir, args)
	}
	defer unlock()
	return serve(ctx, dir, f)
}

// serve starts the cluster and stays until it is told to go or a component dies.
func serve(ctx context.Context, dir string, f *upFlags) (err error) {
	c, err := cluster.Start(ctx, f.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if f.topology.Racks > 0 {
		if err := c.AddTopology(ctx, f.topology); err != nil {
			return err
		}
	}
	if err := announce(dir, f.kubeconfig, c); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, stateFile))
	defer os.Remove(f.kubeconfig) // it names a server that is gone
	select {
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "cluster: stopping")
	case <-c.Dead():
		fmt.Fprintln(os.Stderr, "cluster: a component ended by itself, stopping")
	}
	return nil
}

func announce(dir, kubeconfig string, c *cluster.Cluster) error {
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	encoded, err := json.Marshal(state{PID: os.Getpid(), Kubeconfig: path, Logs: c.LogDir()})
	if err != nil {
		return err
	}
	partial := filepath.Join(dir, stateFile+".partial")
	if err := os.WriteFile(partial, encoded, 0o600); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	fmt.Printf("export KUBECONFIG=%s\nlogs: %s\n", path, c.LogDir())
	return os.Rename(partial, filepath.Join(dir, stateFile))
}

// detach starts up in the background and waits until that is ready. Binaries are built before,
// so that the progress is seen.
func detach(ctx context.Context, dir string, args []string) error {
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, logFile))
	if err != nil {
		return err
	}
	defer log.Close()
	without := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--detach" || a == "-detach" })
	child := exec.Command(self, append([]string{"up"}, without...)...)
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting the cluster's process: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- child.Wait() }()
	return awaitAnnouncement(ctx, dir, child.Process.Pid, exited)
}

func awaitAnnouncement(ctx context.Context, dir string, pid int, exited <-chan error) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		select {
		case err := <-exited:
			output, _ := os.ReadFile(filepath.Join(dir, logFile))
			return false, fmt.Errorf("the cluster did not start (%w):\n%s", err, output)
		default:
		}
		s, err := readState(dir)
		if errors.Is(err, os.ErrNotExist) || err == nil && s.PID != pid {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading what was started: %w", err)
		}
		fmt.Printf("The cluster runs. Use it with\n  export KUBECONFIG=%s\nIts logs are in %s.\n", s.Kubeconfig, s.Logs)
		return true, nil
	})
}

func readState(dir string) (state, error) {
	var s state
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, &s)
}

func down(ctx context.Context, flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := stateDir()
	if err != nil {
		return err
	}
	asked := false
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		// The lock is the proof that the process of the state file is still that one.
		unlock, err := cluster.TryLock(filepath.Join(dir, lockFile))
		if err == nil {
			unlock()
			if !asked {
				fmt.Println("No cluster is running.")
			}
			return true, nil
		}
		if !errors.Is(err, cluster.ErrLocked) {
			return false, err
		}
		if asked {
			return false, nil
		}
		s, err := readState(dir)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil // It is starting: it can be told to stop once it has said who it is.
		}
		if err != nil {
			return false, fmt.Errorf("reading what runs: %w", err)
		}
		asked = true
		return false, syscall.Kill(s.PID, syscall.SIGTERM)
	})
}
