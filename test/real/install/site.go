// Package install installs Lockstep on real kubelets as docs/operators.md says, by the commands of that page: from archives that make
// archives wrote, upgrades and downgrades it while jobs recover, and uninstalls it.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/images/debian"
	"github.com/lockstep-dev/lockstep/test/checkout"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
	"github.com/lockstep-dev/lockstep/test/readme"
	"github.com/lockstep-dev/lockstep/test/real"
)

// Previous is the commit that is upgraded from and downgraded to: the first that has a chart. The manager's role and
// the policy that narrows it have changed since.
const Previous = "7cefd9c0f143109f4044ba1d6afe14cef4e83449"

// silence is longer than programs being built beside keep a kubelet from its heartbeats.
const silence = 20 * time.Second

// libraryFolder is where real nodes have the library that plays DCGM.
var libraryFolder = filepath.Join(cluster.SharedPath, "dcgm-library")

// site is a cluster without Lockstep, and what an engineer has beside it: checkouts of two versions, kubectl and helm.
type site struct {
	*real.Ground
	dir, root, previous string
	page                string
	states              map[string]*dcgmsim.State
}

// start brings the cluster up, and builds both versions' images.
func start(ctx context.Context) (s *site, err error) {
	s = &site{}
	if s.dir, err = os.MkdirTemp("", "lockstep-install-"); err != nil {
		return nil, err
	}
	if s.root, err = cluster.RepositoryRoot(); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(s.root, "docs", "operators.md"))
	if err != nil {
		return nil, err
	}
	s.page = string(content)
	if err := s.checkOut(ctx); err != nil {
		return nil, err
	}
	if s.Ground, err = real.StartBare(ctx, 2, silence, os.Stderr); err != nil {
		return nil, err
	}
	if err := s.KeepPodLogs(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	for _, prepare := range []func(context.Context) error{s.simulateDCGM, s.linkPrograms, s.buildImages, s.buildPrevious} {
		if err := prepare(ctx); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	return s, nil
}

func (s *site) stop() error { return errors.Join(s.Stop(), os.RemoveAll(s.dir)) }

// checkOut takes the files of the previous version from Git.
func (s *site) checkOut(ctx context.Context) error {
	s.previous = filepath.Join(s.dir, "previous")
	if err := os.Mkdir(s.previous, 0o755); err != nil {
		return err
	}
	if err := checkout.Files(ctx, s.root, Previous, s.previous); err != nil {
		return fmt.Errorf("the previous version: %w\nthe commit %s has to be in the repository: git fetch --unshallow", err, Previous)
	}
	return nil
}

// simulateDCGM puts what plays DCGM onto the nodes.
func (s *site) simulateDCGM(context.Context) (err error) {
	if s.states, err = s.SimulateGPUs(); err != nil {
		return err
	}
	folder := filepath.Join(s.SharedFolder(), filepath.Base(libraryFolder))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	_, err = dcgmsim.Build(folder)
	return err
}

// linkPrograms makes a folder of what is in an engineer's PATH: kubectl, helm and the plugin.
func (s *site) linkPrograms(ctx context.Context) error {
	built, err := cluster.Build(ctx, io.Discard, cluster.Kubectl, cluster.Helm)
	if err != nil {
		return err
	}
	programs := s.programs()
	if err := os.Mkdir(programs, 0o755); err != nil {
		return err
	}
	for _, name := range []string{cluster.Kubectl, cluster.Helm} {
		if err := os.Symlink(built.Path(name), filepath.Join(programs, name)); err != nil {
			return err
		}
	}
	return images.Compile(ctx, s.root, "./cmd/kubectl-lockstep", "amd64", filepath.Join(programs, "kubectl-lockstep"))
}

func (s *site) programs() string { return filepath.Join(s.dir, "programs") }

// buildImages runs the page's commands, and imports the archives.
func (s *site) buildImages(ctx context.Context) error {
	if err := s.follow(ctx, s.root, "images"); err != nil {
		return err
	}
	return s.load(ctx, filepath.Join(s.root, "bin", "images"), "manager.tar", "health-agent.tar", "lockstep-run.tar")
}

func (s *site) load(ctx context.Context, dir string, archives ...string) error {
	for _, archive := range archives {
		if err := s.LoadImage(ctx, filepath.Join(dir, archive)); err != nil {
			return err
		}
	}
	return nil
}

// buildPrevious builds the previous version's images. Its chart mounts no library of a node, so that its agent has one in its image.
func (s *site) buildPrevious(ctx context.Context) error {
	dir := filepath.Join(s.dir, "images")
	packages := debian.Store{Dir: filepath.Join(s.root, ".cache", "debian"), Mirror: debian.DefaultMirror}
	agent := images.Agent(s.previous, packages, filepath.Join(s.SharedFolder(), filepath.Base(libraryFolder)))
	for ref, program := range map[string]images.Program{managerImage: images.Manager(s.previous), agentImage: agent} {
		if _, err := program.Write(ctx, dir, ref+":"+s.tag(s.previous), architecture); err != nil {
			return err
		}
	}
	return s.load(ctx, dir, "manager.tar", "health-agent.tar")
}

// Names of the images on the page.
const (
	managerImage = "registry.example/lockstep-manager"
	agentImage   = "registry.example/lockstep-health-agent"
	runImage     = "registry.example/lockstep-run"
)

// tag is that of the images of a checkout.
func (s *site) tag(checkout string) string {
	if checkout == s.previous {
		return "v0"
	}
	return "v1" // the page's
}

// commandTimeout bounds the commands of a part of the page: some build images, and some wait.
const commandTimeout = 10 * time.Minute

// architecture is that of the machine that tests with real nodes run on.
const architecture = "amd64"

// writeValues writes lockstep-values.yaml, the file of values on the page, into a checkout: what is the page's, what this site's nodes need, and, as
// the previous version has none, supervisors. Nothing enforces the NetworkPolicies here.
func (s *site) writeValues(checkout string) error {
	agent := map[string]any{
		"image":       map[string]any{"repository": agentImage, "tag": s.tag(checkout)},
		"dcgmAddress": "unix://" + real.DCGMFolder + "/hostengine.sock", "dcgmSocketDir": real.DCGMFolder,
		"extraArgs": []string{"--interval=1s"},
		"extraEnv":  []any{map[string]any{"name": dcgmsim.StateEnv, "value": real.DCGMFolder + "/$(NODE_NAME)"}},
	}
	values := map[string]any{
		"manager": map[string]any{"image": map[string]any{"repository": managerImage, "tag": s.tag(checkout)}},
		"agent":   agent,
	}
	if checkout == s.root {
		agent["dcgmLibraryDir"] = libraryFolder
		values["supervisors"] = map[string]any{"enabled": true, "image": map[string]any{"repository": runImage, "tag": s.tag(checkout)}}
		values["networkPolicy"] = map[string]any{"enabled": true}
	}
	content, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	return os.WriteFile(s.values(checkout), content, 0o644)
}

// values is the path of the file of values for a checkout.
func (s *site) values(checkout string) string {
	return filepath.Join(s.dir, filepath.Base(checkout)+".yaml")
}

// follow runs the commands of a part of the page in a checkout.
func (s *site) follow(ctx context.Context, checkout, part string) error {
	commands, err := readme.Commands(s.page, readme.Section("install:"+part))
	if err != nil {
		return err
	}
	// What a site has of its own is elsewhere than in its checkout here.
	commands = strings.NewReplacer("lockstep-values.yaml", s.values(checkout), "config/samples/dcgm-node-library", s.overlay(checkout)).Replace(commands)
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if out, err := s.command(ctx, checkout, commands).CombinedOutput(); err != nil {
		return fmt.Errorf("docs/operators.md, %s:\n%s%w\n%s", part, commands, err, out)
	}
	return nil
}

// command is a script with the programs of an engineer, who looks after the cluster.
func (s *site) command(ctx context.Context, dir, script string) *exec.Cmd {
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.WaitDelay = dir, time.Second
	command.Env = append(os.Environ(), "PATH="+s.programs()+":"+os.Getenv("PATH"), "ARCHITECTURES="+architecture,
		"IMG="+managerImage+":"+s.tag(dir), "AGENT_IMG="+agentImage+":"+s.tag(dir))
	if s.Ground != nil {
		command.Env = append(command.Env, "KUBECONFIG="+s.Kubeconfig())
	}
	return command
}
