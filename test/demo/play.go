// The play: what breaks, and what has to be true after.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	awaitTimeout = 2 * time.Minute
	glance       = 20 * time.Millisecond
)

// demo is a cluster of three racks and the job in it.
type demo struct {
	*cluster.Cluster
	ctx      context.Context
	manager  *cluster.Process
	job      *v1alpha1.TrainingJob
	training *training
}

func (d *demo) play(manager, sample, trainer string) (err error) {
	racks := cluster.Topology{Name: "demo", Racks: 3, NodesPerRack: 6, GPUsPerNode: 8, Tiers: []int{3}}
	if err := d.AddTopology(d.ctx, racks); err != nil {
		return err
	}
	args := []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}
	if d.manager, err = d.Run(d.ctx, cluster.Command{Name: "manager", Path: manager, Args: args}); err != nil {
		return err
	}
	if err := d.apply(sample); err != nil {
		return err
	}
	if d.training, err = d.train(trainer); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.training.end()) }()
	if err := d.awaitSteps(25); err != nil {
		return err
	}
	say("\nThe gang trains in HyperNode %s, whole nodes, no other rack touched:", d.job.Status.Placement.HyperNode)
	if err := d.printMap(); err != nil {
		return err
	}
	for _, act := range []func() error{d.loseProcess, d.loseNode, d.loseGang} {
		if err := act(); err != nil {
			return err
		}
		if err := d.awaitSteps(stepsBetween); err != nil {
			return err
		}
	}
	return nil
}

// stepsBetween are the steps between two faults, of 50 ms each: 12 s. An exit within 10 s of a process's start counts as the wake of the
// fault before (gang.Wake), and so tells nothing of the next one.
const stepsBetween = 240

func (d *demo) apply(sample string) error {
	raw, err := os.ReadFile(sample)
	if err != nil {
		return err
	}
	d.job = &v1alpha1.TrainingJob{}
	if err := yaml.UnmarshalStrict(raw, d.job); err != nil {
		return fmt.Errorf("%s: %w", sample, err)
	}
	d.job.Namespace = "default"
	// The trainer fences its checkpoints by LOCKSTEP_INCARNATION. The default of a program that may not do so is a minute.
	d.job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{UnreachableNode: &v1alpha1.UnreachableNode{GangDownAfterSeconds: new(int32(5))}}
	say("\nApplying %s: TrainingJob %s, with gangDownAfterSeconds: 5, since its program fences its checkpoints.", sample, d.job.Name)
	if err := d.Client().Create(d.ctx, d.job); err != nil {
		return err
	}
	return d.await("the gang to run", func() (bool, error) { return d.job.Status.State == v1alpha1.StateRunning, nil })
}

// loseProcess kills the process of one rank and checks that every pod stays.
func (d *demo) loseProcess() error {
	before, err := d.pods()
	if err != nil {
		return err
	}
	say("\nThe process of %s is killed. Its peers lose it, and abort.", before[1].Name)
	t := d.timeline(before[1])
	_, collective := d.training.steps()
	if err := d.training.kill(&before[1]); err != nil {
		return err
	}
	if err := errors.Join(d.follow(t), d.awaitCollective(collective, t.failed)); err != nil {
		return err
	}
	if culprit := d.job.Status.Incidents[0].Cause.Pod; culprit != before[1].Name {
		return fmt.Errorf("the incident names %s", culprit)
	}
	after, err := d.pods()
	if err != nil {
		return err
	}
	for i := range before {
		if after[i].UID != before[i].UID {
			return fmt.Errorf("pod %s was replaced", before[i].Name)
		}
	}
	say("Kept: %d of %d pods. Their kubelets restarted every process in place.", len(after), len(before))
	return nil
}

// loseNode freezes the node under one rank and checks that its rack gives it another.
func (d *demo) loseNode() error {
	before, err := d.pods()
	if err != nil {
		return err
	}
	home, victim := d.job.Status.Placement.HyperNode, before[2]
	say("\nNode %s, under %s, hangs. Its peers lose the rank, and abort.", victim.Spec.NodeName, victim.Name)
	t := d.timeline(victim)
	_, collective := d.training.steps()
	if err := errors.Join(d.training.freeze(victim.Spec.NodeName), d.StopHeartbeat(d.ctx, victim.Spec.NodeName)); err != nil {
		return err
	}
	if err := errors.Join(d.follow(t), d.awaitCollective(collective, t.failed)); err != nil {
		return err
	}
	if err := d.printMap(); err != nil {
		return err
	}
	after, err := d.pods()
	if err != nil {
		return err
	}
	for i := range before {
		if moved := after[i].UID != before[i].UID; moved != (before[i].Name == victim.Name) {
			return fmt.Errorf("pod %s: replaced is %t, and only %s should be", before[i].Name, moved, victim.Name)
		}
	}
	replacement := after[2]
	if rackOf(replacement) != home || replacement.Spec.NodeName == victim.Spec.NodeName {
		return fmt.Errorf("the replacement is on %s, which is not a healthy node of home %s", replacement.Spec.NodeName, home)
	}
	say("Kept: %d of %d pods untouched, home %s. Moved: %s, from %s to %s.",
		len(before)-1, len(before), home, victim.Name, victim.Spec.NodeName, replacement.Spec.NodeName)
	return nil
}

// loseGang fails every rank at once and checks that each comes back where it was,
// in a new attempt. The manager is paused meanwhile: awake, it would replace the
// first ranks before Volcano has seen the last one fall.
func (d *demo) loseGang() error {
	before, err := d.pods()
	if err != nil {
		return err
	}
	say("\nEvery pod fails at once, and Volcano gives its Job up for good (the manager is paused for that moment).")
	t := d.timeline(before[0])
	if err := d.manager.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	_, collective := d.training.steps()
	if err := errors.Join(d.failAll(before), d.manager.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	if err := errors.Join(d.follow(t), d.awaitCollective(collective, t.failed)); err != nil {
		return err
	}
	if err := d.printMap(); err != nil {
		return err
	}
	after, err := d.pods()
	if err != nil {
		return err
	}
	for i := range before {
		if after[i].Spec.NodeName != before[i].Spec.NodeName {
			return fmt.Errorf("%s went from %s to %s", after[i].Name, before[i].Spec.NodeName, after[i].Spec.NodeName)
		}
	}
	say("Kept: %d of %d ranks back on their own nodes, in attempt %d. Moved: none.", len(after), len(before), d.job.Status.Attempt)
	return nil
}

// failAll fails pods and waits until their Volcano Job has ended.
func (d *demo) failAll(pods []corev1.Pod) error {
	keys := make([]client.ObjectKey, len(pods))
	for i := range pods {
		keys[i] = client.ObjectKeyFromObject(&pods[i])
	}
	if err := d.FailPods(d.ctx, 1, keys...); err != nil {
		return err
	}
	ended := &batch.Job{}
	key := client.ObjectKey{Namespace: d.job.Namespace, Name: gang.VolcanoJobName(d.job, d.job.Status.Attempt)}
	return d.await("the Volcano Job to end", func() (bool, error) {
		err := d.Client().Get(d.ctx, key, ended)
		return ended.Status.State.Phase == batch.Failed, err
	})
}

// pods are the pods of the present attempt, in the order of their ranks.
func (d *demo) pods() ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	labels := client.MatchingLabels{
		v1alpha1.LabelJob: d.job.Name, v1alpha1.LabelAttempt: fmt.Sprint(d.job.Status.Attempt),
	}
	if err := d.Client().List(d.ctx, list, client.InNamespace(d.job.Namespace), labels); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return compareNames(a.Name, b.Name) })
	return list.Items, nil
}

// await refreshes the job until a condition holds.
func (d *demo) await(what string, holds func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(d.ctx, glance, awaitTimeout, true, func(ctx context.Context) (bool, error) {
		if err := d.Client().Get(ctx, client.ObjectKeyFromObject(d.job), d.job); err != nil {
			return false, err
		}
		return holds()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}
