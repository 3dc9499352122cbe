// The training: a process of the training program for each pod that runs, started again in place as a kubelet does. The
// nodes of this cluster are simulated, the program is not: when a rank is lost, all others abort.

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/workloads/trainer/losses"
)

// training runs the processes of the demo's job.
type training struct {
	*cluster.Cluster
	job     *v1alpha1.TrainingJob // as it was applied
	program string
	dir     string
	root    string // rank 0's address
	stop    context.CancelFunc
	done    chan error

	mu    sync.Mutex
	ranks map[types.UID]*process
	// frozen are the nodes that do not answer, and whose processes hang.
	frozen map[string]bool
}

// train starts the training, which ends with stop.
func (d *demo) train(program string) (*training, error) {
	port, err := d.Port() // which no rank is given for its HTTP
	if err != nil {
		return nil, err
	}
	root := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dir, err := os.MkdirTemp("", "lockstep-demo-")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(d.ctx)
	t := &training{
		Cluster: d.Cluster, job: d.job.DeepCopy(), program: program, dir: dir, root: root, stop: stop, done: make(chan error, 1),
		ranks: map[types.UID]*process{}, frozen: map[string]bool{},
	}
	go func() { t.done <- t.run(ctx) }()
	return t, nil
}

// end stops every process, and removes their files.
func (t *training) end() error {
	t.stop()
	err := <-t.done
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

// run keeps a process for each pod until the context ends.
func (t *training) run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		pods := &corev1.PodList{}
		err := t.Client().List(ctx, pods, client.InNamespace(t.job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: t.job.Name})
		if err != nil {
			return err
		}
		t.startProcesses(ctx, &group, pods.Items)
		t.killOrphans(pods.Items)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(glance):
		}
	}
}

func (t *training) startProcesses(ctx context.Context, group *sync.WaitGroup, pods []corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pod := range pods {
		p := t.ranks[pod.UID]
		if p == nil {
			p = &process{pod: pod}
			t.ranks[pod.UID] = p
		}
		if p.running || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || t.frozen[pod.Spec.NodeName] || time.Now().Before(p.startAt) {
			continue
		}
		p.pod, p.command = pod, t.command(ctx, &pod)
		t.start(ctx, group, p)
	}
}

// command is what the pod's container would run, with the contract in its environment.
func (t *training) command(ctx context.Context, pod *corev1.Pod) *exec.Cmd {
	index := pod.Name[strings.LastIndex(pod.Name, "-")+1:]
	world := int(t.job.Spec.Tasks[0].Replicas)
	c := exec.CommandContext(ctx, t.program,
		"-rank="+index, "-peers="+strings.TrimSuffix(strings.Repeat(t.root+",", world), ","), "-http=127.0.0.1:0",
		"-run="+t.job.Name, "-steps=1000000", "-step-time=50ms", "-checkpoint-every=10", "-peer-timeout=2s",
		"-local="+filepath.Join(t.dir, pod.Spec.NodeName), "-shared="+filepath.Join(t.dir, "shared"))
	c.Env = append(os.Environ(),
		"LOCKSTEP_JOB="+t.job.Name, "LOCKSTEP_TASK_INDEX="+index,
		"LOCKSTEP_INCARNATION="+pod.Annotations[v1alpha1.AnnotationIncarnation], "LOCKSTEP_RESUME="+pod.Annotations[v1alpha1.AnnotationResume])
	return c
}

// steps are the last step that was completed, and the number of the collective that did it.
func (t *training) steps() (step int, generation uint64) {
	log, err := losses.Read(filepath.Join(t.dir, "shared", "loss"))
	if err != nil || len(log) == 0 {
		return 0, 0 // nothing has been written yet
	}
	last := log[len(log)-1]
	return last.Step, last.Generation
}

// awaitSteps waits until the gang has done so many more steps.
func (d *demo) awaitSteps(n int) error {
	began, _ := d.training.steps()
	return d.await("the gang to train", func() (bool, error) {
		step, _ := d.training.steps()
		return step >= began+n, nil
	})
}

// awaitCollective waits until the ranks train in another collective, and says since when they did not.
func (d *demo) awaitCollective(before uint64, failed time.Time) error {
	from := 0
	err := d.await("the gang to train again", func() (bool, error) {
		step, generation := d.training.steps()
		from = step
		return generation != before, nil
	})
	if err == nil {
		say("  %+8.3fs  %-16s from step %d", time.Since(failed).Seconds(), "trains again", from)
	}
	return err
}
