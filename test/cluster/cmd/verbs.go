// What can be done by hand to the pods and nodes of a running cluster.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

func verbs() []subcommand {
	return []subcommand{
		{"map", "", "show racks, nodes and the pods on them", showMap},
		{"fail-pod", "[--exit-code N] POD...", "end pods with an exit code", podVerb(func(ctx context.Context, c *cluster.Cluster, pod client.ObjectKey, how cluster.Termination) error {
			return c.EndPod(ctx, pod, how)
		})},
		{"succeed-pod", "POD...", "end pods with success", podVerb(func(ctx context.Context, c *cluster.Cluster, pod client.ObjectKey, _ cluster.Termination) error {
			return c.SucceedPods(ctx, pod)
		})},
		{"restart-container", "[--exit-code N] POD...", "crash containers and restart them in place, not ready", podVerb(func(ctx context.Context, c *cluster.Cluster, pod client.ObjectKey, how cluster.Termination) error {
			return c.RestartContainers(ctx, pod, how)
		})},
		{"ready-pod", "POD...", "let restarted containers become ready", podVerb(func(ctx context.Context, c *cluster.Cluster, pod client.ObjectKey, _ cluster.Termination) error {
			return c.ContainersReady(ctx, pod)
		})},
		{"stop-heartbeat", "NODE...", "silence nodes, as a power failure does", nodeVerb((*cluster.Cluster).StopHeartbeat)},
		{"start-heartbeat", "NODE...", "bring silent nodes back", nodeVerb((*cluster.Cluster).StartHeartbeat)},
		{"delete-node", "NODE...", "delete nodes", nodeVerb((*cluster.Cluster).DeleteNode)},
		{"cordon", "NODE...", "keep new pods off nodes", nodeVerb((*cluster.Cluster).Cordon)},
		{"uncordon", "NODE...", "let pods on nodes again", nodeVerb((*cluster.Cluster).Uncordon)},
		{"fill-rack", "[--free N] RACK...", "occupy a rack's idle nodes with other work", fillRack},
		{"vacate", "[NODE...]", "take the other work away again", vacate},
	}
}

// connect parses a verb's flags and finds the cluster.
func connect(flags *flag.FlagSet, args []string) (*cluster.Cluster, error) {
	kubeconfig := flags.String("kubeconfig", "", "the cluster's kubeconfig (default that of the cluster that up started)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *kubeconfig == "" {
		dir, err := stateDir()
		if err != nil {
			return nil, err
		}
		s, err := readState(dir)
		if err != nil {
			return nil, fmt.Errorf("no cluster is running here: start one with up, or name one with --kubeconfig (%w)", err)
		}
		*kubeconfig = s.Kubeconfig
	}
	return cluster.Connect(filepath.Clean(*kubeconfig), cluster.Options{})
}

func nodeVerb(do func(*cluster.Cluster, context.Context, ...string) error) func(context.Context, *flag.FlagSet, []string) error {
	return func(ctx context.Context, flags *flag.FlagSet, args []string) error {
		c, err := connect(flags, args)
		if err != nil {
			return err
		}
		if flags.NArg() == 0 {
			return errors.New("name one node or more")
		}
		return do(c, ctx, flags.Args()...)
	}
}

type podAction func(context.Context, *cluster.Cluster, client.ObjectKey, cluster.Termination) error

func podVerb(do podAction) func(context.Context, *flag.FlagSet, []string) error {
	return func(ctx context.Context, flags *flag.FlagSet, args []string) error {
		exitCode := flags.Int("exit-code", 1, "the exit code, where one is needed")
		reason := flags.String("reason", "", "the container's reason, such as OOMKilled")
		namespace := flags.String("n", "default", "the namespace of pods named without one")
		c, err := connect(flags, args)
		if err != nil {
			return err
		}
		if flags.NArg() == 0 {
			return errors.New("name one pod or more")
		}
		how := cluster.Termination{ExitCode: int32(*exitCode), Reason: *reason}
		var errs []error
		for _, name := range flags.Args() {
			errs = append(errs, do(ctx, c, podKey(name, *namespace), how))
		}
		return errors.Join(errs...)
	}
}

func podKey(name, namespace string) client.ObjectKey {
	if before, after, found := strings.Cut(name, "/"); found {
		return client.ObjectKey{Namespace: before, Name: after}
	}
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func fillRack(ctx context.Context, flags *flag.FlagSet, args []string) error {
	free := flags.Int("free", 0, "how many idle nodes stay free")
	return nodeVerb(func(c *cluster.Cluster, ctx context.Context, racks ...string) error {
		var errs []error
		for _, rack := range racks {
			errs = append(errs, c.FillRack(ctx, rack, *free))
		}
		return errors.Join(errs...)
	})(ctx, flags, args)
}

func vacate(ctx context.Context, flags *flag.FlagSet, args []string) error {
	c, err := connect(flags, args)
	if err != nil {
		return err
	}
	return c.Vacate(ctx, flags.Args()...)
}

func showMap(ctx context.Context, flags *flag.FlagSet, args []string) error {
	c, err := connect(flags, args)
	if err != nil {
		return err
	}
	racks, err := c.Map(ctx)
	if err != nil {
		return err
	}
	for _, rack := range racks {
		fmt.Println(rack.Name)
		for _, node := range rack.Nodes {
			fmt.Printf("  %-20s %-22s %s\n", node.Name, nodeState(node), podList(node.Pods))
		}
	}
	return nil
}

func nodeState(node cluster.NodeView) string {
	words := []string{map[string]string{"True": "Ready", "False": "NotReady", "Unknown": "Silent"}[string(node.Ready)]}
	if node.Cordoned {
		words = append(words, "cordoned")
	}
	return strings.Join(append(words, strconv.Itoa(node.GPUsUsed())+"/"+strconv.Itoa(node.GPUs)), " ")
}

func podList(pods []cluster.PodView) string {
	words := make([]string, 0, len(pods))
	for _, pod := range pods {
		state := string(pod.Phase)
		switch {
		case pod.Terminating:
			state = "Terminating"
		case pod.Phase == "Running" && !pod.Ready:
			state = "Running, not ready"
		}
		if pod.Restarts > 0 {
			state += ", " + strconv.Itoa(int(pod.Restarts)) + " restarts"
		}
		words = append(words, fmt.Sprintf("%s (%s)", pod.Key.Name, state))
	}
	return strings.Join(words, "  ")
}
