// Command demo shows a real gang on real kubelets: a training program whose ranks all abort when one of
// them dies. A process is killed, then all of them, then a node; each time the gang trains on, and in
// the end its losses are those of a run that nothing disturbed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/real"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: demo\n\nAs root. It takes no arguments. With KEEP=1 in the environment the cluster stays until it is interrupted.")
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: there is no argument %q\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

const ranks, steps = 4, 400

func run(ctx context.Context) (err error) {
	say("Starting a control plane, and six nodes in two racks, each with a kubelet and containerd of its own.")
	ground, err := real.Start(ctx, 3, 0, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ground.Stop()) }()
	d := &demo{ctx: ctx, ground: ground, training: ground.NewTraining("llama", ranks, steps)}
	if err := d.training.Run(ctx); err != nil {
		return err
	}
	say("\nTrainingJob llama trains: %d ranks, one process each, gradients reduced over the network of pods.", ranks)
	if err := d.play(); err != nil {
		return err
	}
	say("\nWaiting for step %d.", steps)
	if err := d.training.Finish(ctx); err != nil {
		return err
	}
	say("Completed. All %d losses are those of a run that nothing disturbed, bit for bit.", steps)
	if os.Getenv("KEEP") != "" {
		keep(ctx, ground)
	}
	return nil
}

// keep leaves the cluster up until the demo is interrupted.
func keep(ctx context.Context, ground *real.Ground) {
	say("\nThe cluster stays until you press Ctrl-C in this terminal. In another one, as root, after `make build`:")
	say("  export KUBECONFIG=%s PATH=$PWD/bin:$PATH", ground.Kubeconfig())
	say("  kubectl get tj,pods -o wide")
	say("  kubectl lockstep timeline llama; kubectl lockstep logs llama")
	<-ctx.Done()
}

type demo struct {
	ctx      context.Context
	ground   *real.Ground
	training *real.Training
}

func (d *demo) play() error {
	if err := d.training.AwaitSteps(d.ctx, 25); err != nil {
		return err
	}
	if err := d.printRanks(); err != nil {
		return err
	}
	if err := d.disturb("The process of rank 2 is killed. Its peers lose it, and abort.", func(pods map[int]corev1.Pod) error {
		return d.ground.KillContainers(d.ctx, client.ObjectKeyFromObject(new(pods[2])))
	}); err != nil {
		return err
	}
	if err := d.disturb("The processes of all ranks are killed at once.", func(pods map[int]corev1.Pod) error {
		var keys []client.ObjectKey
		for _, pod := range pods {
			keys = append(keys, client.ObjectKeyFromObject(&pod))
		}
		return d.ground.KillContainers(d.ctx, keys...)
	}); err != nil {
		return err
	}
	return d.disturb("The node of rank 1 loses its power.", func(pods map[int]corev1.Pod) error {
		return d.ground.PowerOff(d.ctx, pods[1].Spec.NodeName)
	})
}

// disturb breaks something, and tells how long the gang needed and which pods are new.
func (d *demo) disturb(what string, how func(map[int]corev1.Pod) error) error {
	last := d.training.LastStep()
	if err := d.training.AwaitSteps(d.ctx, last+20); err != nil {
		return err
	}
	before, err := d.training.Pods(d.ctx)
	if err != nil {
		return err
	}
	say("\n%s", what)
	generation, began := d.training.Generation(), time.Now()
	if err := how(before); err != nil {
		return err
	}
	if err := d.training.AwaitNewGeneration(d.ctx, generation); err != nil {
		return err
	}
	say("  trains again after %.1f s, from step %d", time.Since(began).Seconds(), d.training.LastStep())
	after, err := d.training.Pods(d.ctx)
	if err != nil {
		return err
	}
	var kept, replaced []string
	for rank := range ranks {
		if after[rank].UID == before[rank].UID {
			kept = append(kept, fmt.Sprint(rank))
		} else {
			replaced = append(replaced, fmt.Sprintf("%d (%s → %s)", rank, before[rank].Spec.NodeName, after[rank].Spec.NodeName))
		}
	}
	say("  pods kept: ranks %s; new: %s", orNone(kept), orNone(replaced))
	return nil
}

func (d *demo) printRanks() error {
	pods, err := d.training.Pods(d.ctx)
	if err != nil {
		return err
	}
	for rank := range ranks {
		say("  rank %d  %-18s %-14s %s", rank, pods[rank].Name, pods[rank].Status.PodIP, pods[rank].Spec.NodeName)
	}
	return nil
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
