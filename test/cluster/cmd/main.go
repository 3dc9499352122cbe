// Command cluster starts a test cluster, and does to its pods and nodes what failures do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// subcommand is one word of the command line and what it does.
type subcommand struct {
	name, args, help string
	run              func(ctx context.Context, flags *flag.FlagSet, args []string) error
}

func subcommands() []subcommand {
	return slices.Concat([]subcommand{
		{"up", "[flags]", "start a cluster with one pool of nodes, until interrupted or, with --detach, until down", up},
		{"down", "", "stop the detached cluster", down},
		{"build", "[--real]", "build the control plane's binaries and those that tests run, or those of real nodes", build},
	}, verbs())
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := dispatch(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage()
		return nil
	}
	for _, s := range subcommands() {
		if s.name == args[0] {
			flags := flag.NewFlagSet(s.name, flag.ContinueOnError)
			flags.Usage = func() {
				fmt.Fprintf(flags.Output(), "%s %s\n  %s\n", s.name, s.args, s.help)
				flags.PrintDefaults()
			}
			return s.run(ctx, flags, args[1:])
		}
	}
	return fmt.Errorf("there is no %q: run it without arguments for a list", args[0])
}

func usage() {
	fmt.Println("A Kubernetes control plane with Volcano and played nodes, for tests and demonstrations.")
	fmt.Println()
	for _, s := range subcommands() {
		fmt.Printf("  %-18s %-26s %s\n", s.name, s.args, s.help)
	}
	fmt.Println("\nVerbs find the cluster by --kubeconfig, by default that of the one that up started.")
}

func build(ctx context.Context, flags *flag.FlagSet, args []string) error {
	nodes := flags.Bool("real", false, "build what real nodes need besides the control plane")
	if err := flags.Parse(args); err != nil {
		return err
	}
	build := cluster.BuildAll
	if *nodes {
		build = cluster.BuildNodes
	}
	built, err := build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(built.Dir)
	return nil
}

// stateDir is where up says what it started.
func stateDir() (string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "cluster", "run")
	return dir, os.MkdirAll(dir, 0o700)
}

// list is a flag with several values.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, strings.Split(v, ",")...); return nil }
