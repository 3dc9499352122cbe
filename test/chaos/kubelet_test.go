// The kubelets of a lane, as far as supervisors need them: each pod that runs has the real code of one, over a program that takes a
// moment to stop.

package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	protocol "github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/supervision/simulated"
)

const (
	localhost = "127.0.0.1"
	// stopTime is how long a program takes to stop: long enough that one which did not wait for the others would be seen.
	stopTime = 50 * time.Millisecond
	// Supervisors connect again sooner than real ones, so that a lane waits less.
	firstDelay, maxDelay = 20 * time.Millisecond, 200 * time.Millisecond
	// managerTimeout is longer than any operator is away here.
	managerTimeout = time.Hour
)

// kubelet runs the supervisors of a lane's pods.
type kubelet struct {
	lane *lane
	dir  string
	// oracle judges their programs.
	oracle *simulated.Oracle
	// stopping returns when the program of a rank has ended, and managerTimeout is that of the supervisors.
	stopping       func(ctx context.Context, rank string)
	managerTimeout time.Duration
	// restarts reports whether containers that have ended are started again.
	restarts bool
	stop     context.CancelFunc

	mu    sync.Mutex
	exits []exit
	// containers by their pods; nil for one that was killed.
	containers map[types.UID]*container
	defects    []string
}

// start watches the pods of the lane.
func (k *kubelet) start(ctx context.Context) error {
	ctx, k.stop = context.WithCancel(ctx)
	pods, err := cache.New(testCluster.RESTConfig(), cache.Options{
		Scheme: testCluster.Client().Scheme(), DefaultNamespaces: map[string]cache.Config{k.lane.pool.Name: {}},
	})
	if err != nil {
		return err
	}
	informer, err := pods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.see(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { k.see(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			k.kill(obj.(*corev1.Pod).UID)
		},
	})
	go func() { _ = pods.Start(ctx) }()
	return err
}

// see runs what a pod should run.
func (k *kubelet) see(ctx context.Context, pod *corev1.Pod) {
	_, isSupervised := pod.Annotations[v1alpha1.AnnotationEpoch]
	runs := isSupervised && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
	k.mu.Lock()
	_, known := k.containers[pod.UID]
	k.mu.Unlock()
	switch {
	case known && !runs:
		k.kill(pod.UID)
	case runs && !known:
		if err := k.run(ctx, pod); client.IgnoreNotFound(err) != nil {
			k.note("pod %s: %v", pod.Name, err)
		}
	}
}

// fail has the programs of pods, which run in an epoch, end with an error, the first one before the others.
func (k *kubelet) fail(epoch int64, pods ...corev1.Pod) {
	k.lane.t.Helper()
	for _, pod := range pods {
		k.mu.Lock()
		c := k.containers[pod.UID]
		if c == nil {
			k.mu.Unlock()
			k.lane.t.Fatalf("pod %s has no supervisor", pod.Name)
		}
		s := c.Supervisor
		k.mu.Unlock()
		s.Fail(epoch, 1, "failed by the test")
	}
}

// states are what the supervisors do, by rank.
func (k *kubelet) states() map[string]simulated.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]simulated.Status{}
	for _, c := range k.containers {
		if c != nil {
			out[c.rank] = c.status
		}
	}
	return out
}

// connected reports whether all programs run, and all supervisors are connected.
func (k *kubelet) connected() bool {
	for _, s := range k.states() {
		if !s.Connected || s.State != protocol.State_STATE_RUNNING {
			return false
		}
	}
	return true
}

func (k *kubelet) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.defects = append(k.defects, fmt.Sprintf(format, args...))
}

func (k *kubelet) exited(e exit) {
	if !k.restarts {
		k.note("the container of %s has ended with %d", e.rank, e.code)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.exits = append(k.exits, e)
}

// ended are the containers that have ended by themselves.
func (k *kubelet) ended() []exit {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.exits)
}

// wrong is what went wrong.
func (k *kubelet) wrong() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(k.oracle.Broken(), k.defects...)
}

// end kills every container.
func (k *kubelet) end() {
	k.stop()
	k.mu.Lock()
	pods := slices.Collect(maps.Keys(k.containers))
	k.mu.Unlock()
	for _, pod := range pods {
		k.kill(pod)
	}
}
