// Command demo shows Lockstep at work on a real control plane: a gang of real processes, in pods on simulated nodes,
// loses a process and restarts in place, loses a node and gets one rank back in the same rack, then loses every pod
// at once and comes back on the same nodes. It exits non-zero if anything else moved.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func main() {
	manager := flag.String("manager", "bin/manager", "the manager's binary")
	sample := flag.String("sample", "config/samples/quickstart.yaml", "the TrainingJob to run")
	crd := flag.String("crd", "config/crd", "the folder of the CRD")
	trainer := flag.String("trainer", "bin/trainer", "the training program's binary")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: there is no argument %q\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*manager, *sample, *crd, *trainer); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(manager, sample, crd, trainer string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	say("Starting a control plane: etcd, Kubernetes, Volcano, and KWOK for the nodes.")
	c, err := cluster.Start(ctx, cluster.Options{Name: "demo", Scheme: scheme, CRDs: []string{crd}, Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	d := &demo{ctx: ctx, Cluster: c}
	if err := d.play(manager, sample, trainer); err != nil {
		return fmt.Errorf("%w\nThe end of the manager's log:\n%s", err, c.Log("manager"))
	}
	if os.Getenv("KEEP") == "" {
		return nil
	}
	say("\nThe cluster stays until you press Ctrl-C in this terminal. In another one, with kubectl installed:")
	say("  export KUBECONFIG=%s", c.Kubeconfig())
	say("  kubectl get tj,vcjob,pods -o wide")
	say("  kubectl describe tj %s", d.job.Name)
	say("After make build, and with bin on the PATH, the kubectl plugin as well:")
	say("  kubectl lockstep map %[1]s; kubectl lockstep timeline %[1]s; kubectl lockstep why %[1]s", d.job.Name)
	say("Its check warns here that Volcano and the manager have no pods: in the demo they are processes. The kubelets are simulated, so")
	say("there are no logs: `kubectl lockstep logs` and `kubectl logs` fail.")
	<-ctx.Done()
	return nil
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
