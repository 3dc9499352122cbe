// Contenders: the two sides, which differ in the object that is made and in who mends it.

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// figure is what a time was taken of.
type figure string

// The figures. Those of restarts are by the action that they are the recovery by.
const (
	start       figure = "start"
	restartPod  figure = "RestartPod"
	restartTask figure = "RestartTask"
	restartJob  figure = "RestartJob"
	takeOver    figure = "takeOver"
)

// strike is one pod's failure, and what the sides' policies make of it.
type strike struct {
	figure   figure
	exitCode int32
}

var (
	strikePod  = strike{restartPod, exitPod}
	strikeTask = strike{restartTask, exitTask}
	strikeJob  = strike{restartJob, exitJob}
)

// contender is one of the two sides.
type contender struct {
	name string
	gang func(*gang) client.Object
	// whole are its ways to restart a whole gang.
	whole []strike
	// calm reports whether the side itself has nothing left to do.
	calm func(ctx context.Context, c client.Client, gang string) (bool, error)
	// story is what the side itself says of a gang, in a line.
	story func(ctx context.Context, c client.Client, gang string) string
}

var lockstep = contender{
	name: "Lockstep", gang: (*gang).trainingJob, whole: []strike{strikeJob},
	calm: func(ctx context.Context, c client.Client, gang string) (bool, error) {
		job := &v1alpha1.TrainingJob{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: gang}, job)
		open := slices.ContainsFunc(job.Status.Incidents, func(i v1alpha1.Incident) bool { return i.Outcome == "" })
		return !open && job.Status.State == v1alpha1.StateRunning, err
	},
	story: func(ctx context.Context, c client.Client, gang string) string {
		job := &v1alpha1.TrainingJob{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: gang}, job); err != nil {
			return err.Error()
		}
		text := []string{fmt.Sprintf("TrainingJob %s, attempt %d, ready %s, %d holds", job.Status.State, job.Status.Attempt, job.Status.Ready, len(job.Status.Holds))}
		for _, i := range job.Status.Incidents {
			if i.Outcome == "" {
				text = append(text, fmt.Sprintf("incident %d of rule %s with %d steps: %s", i.ID, i.Rule, len(i.Steps), i.Message))
			}
		}
		return strings.Join(text, ", ")
	},
}

var volcano = contender{
	name: "Volcano", gang: (*gang).volcanoJob, whole: []strike{strikeTask, strikeJob},
	calm: func(ctx context.Context, c client.Client, gang string) (bool, error) {
		job := &batch.Job{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: gang}, job)
		return job.Status.State.Phase == batch.Running, err
	},
	story: func(ctx context.Context, c client.Client, gang string) string {
		job := &batch.Job{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: gang}, job); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("Volcano Job %s, %d running, %d terminating", job.Status.State.Phase, job.Status.Running, job.Status.Terminating)
	},
}

// settle is how long everything is left alone after a recovery: more than a scheduling round, and
// enough for the last writes of the manager.
const settle = time.Second

// calm waits until a side has nothing left to do, and a little more.
func (b *bench) calm(ctx context.Context, who *contender, gang string) error {
	err := wait.PollUntilContextTimeout(ctx, 4*glance, timeoutOf(0), true, func(ctx context.Context) (bool, error) {
		return who.calm(ctx, b.cluster.Client(), gang)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = errLate
	}
	if err != nil {
		return fmt.Errorf("waiting until %s is through with %s: %w", who.name, gang, err)
	}
	return sleep(ctx, settle)
}

// timeoutOf bounds the wait for a gang; nothing is measured by it.
func timeoutOf(pods int) time.Duration { return time.Minute + time.Duration(pods)*200*time.Millisecond }

// sleep waits, unless the run is over.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// remove deletes a gang's job and waits until all that belonged to it is gone.
func (b *bench) remove(ctx context.Context, job client.Object) error {
	c, name := b.cluster.Client(), job.GetName()
	if err := c.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, 4*glance, timeoutOf(len(b.recorder.present(name))), true, func(ctx context.Context) (bool, error) {
		if len(b.recorder.present(name)) > 0 {
			return false, nil
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return false, err
		}
		groups := &scheduling.PodGroupList{}
		err := c.List(ctx, groups, client.InNamespace(namespace))
		left := slices.ContainsFunc(groups.Items, func(g scheduling.PodGroup) bool { return strings.HasPrefix(g.Name, name+"-") })
		return !left, err
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is gone: %w", name, err)
	}
	b.recorder.forget(name)
	return sleep(ctx, settle)
}
