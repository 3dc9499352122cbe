// A process of the training, and what its pod's kubelet says of it.

package main

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// firstBackoff is how long a kubelet waits before it restarts a container the second time. The first time it does so at
// once, and each further time after twice as long.
const firstBackoff = 10 * time.Second

// process is that of one pod.
type process struct {
	pod      corev1.Pod
	command  *exec.Cmd
	running  bool
	restarts int
	startAt  time.Time // when it may be started
}

// start starts the process, and attends it until it ends. The kernel kills the process with the thread that started it,
// however this program ends.
func (t *training) start(ctx context.Context, group *sync.WaitGroup, p *process) {
	p.running = true
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	group.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer t.ended(p)
		if err := p.command.Start(); err != nil {
			say("  (%s does not start: %v)", t.program, err)
			return
		}
		t.report(ctx, &p.pod, func(key client.ObjectKey) error { return t.ContainersReady(ctx, key) })
		if p.command.Wait() != nil && ctx.Err() == nil {
			code := exitCode(p.command.ProcessState.Sys().(syscall.WaitStatus))
			t.report(ctx, &p.pod, func(key client.ObjectKey) error {
				return t.CrashLoop(ctx, key, cluster.Termination{ExitCode: code})
			})
		}
	})
}

// exitCode is the code that a kubelet reports: of a process that a signal killed, 128 and the signal's number.
func exitCode(status syscall.WaitStatus) int32 {
	if status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(status.ExitStatus())
}

// ended notes when the process may be started again.
func (t *training) ended(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.running = false
	if p.restarts > 0 {
		p.startAt = time.Now().Add(firstBackoff << (p.restarts - 1))
	}
	p.restarts++
}

// report writes the status of a pod, unless it is gone or its node does not answer.
func (t *training) report(ctx context.Context, of *corev1.Pod, write func(client.ObjectKey) error) {
	pod := &corev1.Pod{}
	key := client.ObjectKeyFromObject(of)
	err := t.Client().Get(ctx, key, pod)
	if err == nil && pod.UID == of.UID && pod.Status.Phase == corev1.PodRunning && !t.isFrozen(pod.Spec.NodeName) {
		err = write(key)
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		say("  (the status of %s could not be written: %v)", of.Name, err)
	}
}

// killOrphans kills the processes whose pods are gone, but those on nodes that do not answer.
func (t *training) killOrphans(pods []corev1.Pod) {
	exists := map[types.UID]bool{}
	for i := range pods {
		exists[pods[i].UID] = pods[i].DeletionTimestamp == nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, p := range t.ranks {
		if !exists[uid] && p.isAlive() && !t.frozen[p.pod.Spec.NodeName] {
			_ = p.command.Process.Kill() // it may have ended meanwhile
		}
	}
}

// kill ends the process of a pod, as a fault of its own would.
func (t *training) kill(pod *corev1.Pod) error { return t.signal(syscall.SIGKILL, pod.Spec.NodeName) }

// freeze stops everything on a node. Its processes close no connection, as on a machine that hangs.
func (t *training) freeze(node string) error {
	t.mu.Lock()
	t.frozen[node] = true
	t.mu.Unlock()
	return t.signal(syscall.SIGSTOP, node)
}

func (t *training) signal(s syscall.Signal, node string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.ranks {
		if p.isAlive() && p.pod.Spec.NodeName == node {
			if err := p.command.Process.Signal(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *training) isFrozen(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frozen[node]
}

// isAlive reports whether the process was started and has not ended, as far as is known.
func (p *process) isAlive() bool { return p.running && p.command.Process != nil }
