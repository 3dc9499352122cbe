// Command recording starts a control plane, runs the commands of a new user in a shell, and writes them with what they print into a
// page: a job runs, loses a node, is explained, and gets a better policy. It fails where a command does.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
	"github.com/lockstep-dev/lockstep/test/readme"
)

// section is the part of the page that is written.
const section readme.Section = "recording"

// counted are failures that a user has counted.
const counted = `source: our own log of last quarter
nodes: 18
days: 90
causes:
- {name: node hangs, failures: 20, effect: NodeLoss, repair: 4h}
- {name: GPU falls off the bus, failures: 5, effect: DeviceFailure, repair: 24h}
`

// session is what the user types. Commands after a # are run and not shown.
var session = []string{
	"sed '/^  restartPolicy:/,$d' config/samples/quickstart.yaml > job.yaml # with the default restart policy",
	"kubectl apply -f job.yaml",
	"kubectl wait tj/llama --for=condition=Running --timeout=2m",
	"kubectl get tj",
	"kubectl lockstep map llama",
	"kubectl lockstep why llama worker-1",
	"# sleep 30",
	"kubectl delete node $(kubectl get pod llama-1-worker-1 -o jsonpath={.spec.nodeName})",
	"# kubectl wait tj/llama --for=jsonpath={.status.incidents[0].outcome}=Recovered --timeout=2m",
	"kubectl lockstep timeline llama",
	"kubectl lockstep why llama worker-1",
	"kubectl get tj llama -o yaml > llama.yaml",
	"cat counted.yaml",
	"kubectl lockstep simulate -f llama.yaml --failures counted.yaml --for 365d --sweep unreachableNode.gangDownAfterSeconds=5s..60s",
	`kubectl patch tj llama --type merge -p '{"spec": {"restartPolicy": {"unreachableNode": {"gangDownAfterSeconds": 5}}}}'`,
}

func main() {
	page := flag.String("readme", "", "file into which the recording is written, between its marks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *page)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, page string) (err error) {
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "recording", Scheme: scheme, CRDs: []string{"config/crd"}, Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	racks := cluster.Topology{Name: "demo", Racks: 3, NodesPerRack: 6, GPUsPerNode: 8, Tiers: []int{3}}
	if err := c.AddTopology(ctx, racks); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockstep-recording-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := startManager(ctx, c, dir); err != nil {
		return err
	}
	s := shell{dir: dir, kubeconfig: c.Kubeconfig()}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	text, err := s.record(ctx)
	if err != nil {
		return fmt.Errorf("%w\nthe end of the manager's log:\n%s", err, c.Log(operator.Name))
	}
	if page == "" {
		return nil
	}
	return readme.Write(page, map[readme.Section]string{section: text})
}

func startManager(ctx context.Context, c *cluster.Cluster, dir string) error {
	binary, err := operator.Build(ctx, dir)
	if err != nil {
		return err
	}
	kubeconfig, err := operator.Kubeconfig(ctx, c)
	if err != nil {
		return err
	}
	_, err = c.Run(ctx, cluster.Command{Name: operator.Name, Path: binary, Args: []string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0",
	}})
	return err
}

// shell runs the commands of a session in a folder with the samples, and with kubectl and its plugin on the PATH.
type shell struct{ dir, kubeconfig string }

func (s *shell) prepare(ctx context.Context) error {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(s.dir, "kubectl-lockstep"), "./cmd/kubectl-lockstep")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	built, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	return errors.Join(
		os.Symlink(built.Path("kubectl"), filepath.Join(s.dir, "kubectl")),
		os.Symlink(filepath.Join(root, "config"), filepath.Join(s.dir, "config")),
		os.WriteFile(filepath.Join(s.dir, "counted.yaml"), []byte(counted), 0o600),
	)
}

func (s *shell) record(ctx context.Context) (string, error) {
	var page bytes.Buffer
	page.WriteString("```console\n")
	for _, command := range session {
		hidden, shown := strings.CutPrefix(command, "# ")
		out, err := s.run(ctx, hidden)
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", hidden, err, out)
		}
		if !shown {
			fmt.Fprintf(&page, "$ %s\n%s\n", command, out)
			fmt.Printf("$ %s\n%s", command, out)
		}
	}
	page.WriteString("```\n")
	return page.String(), nil
}

func (s *shell) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", command)
	sh.Dir = s.dir
	sh.Env = append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig)
	out, err := sh.CombinedOutput()
	return string(out), err
}
