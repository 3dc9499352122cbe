// The kubelets of a lane, as far as supervisors need them: each pod that runs has the real code of one, over a program that takes a
// moment to stop.

package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/stream"
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

// container has a supervisor, and another one after each restart.
type container struct {
	*simulated.Supervisor
	rank   string
	status simulated.Status
	// kept is the highest epoch that its supervisors have seen.
	kept int64
	// kill ends it with its program, and returns when nothing of them is left.
	kill func()
}

// exit is the end of a container by itself.
type exit struct {
	rank string
	code int
	at   time.Time
}

// supervised is for a lane of a job with supervisors.
func supervised(l *lane) {
	address := l.freeAddress()
	l.supervisors = supervisors.Options{BindAddress: address, Address: address, Namespace: l.pool.Name}
	l.kubelet = &kubelet{
		lane: l, dir: l.t.TempDir(), oracle: simulated.NewOracle(), containers: map[types.UID]*container{}, managerTimeout: managerTimeout,
		stopping: func(ctx context.Context, _ string) { sleep(ctx, stopTime) },
	}
	l.must(l.kubelet.start(l.ctx), "watch the pods")
	l.t.Cleanup(l.kubelet.end)
}

func (l *lane) freeAddress() string {
	l.t.Helper()
	port, err := testCluster.Port()
	l.must(err, "find a port")
	return fmt.Sprintf("%s:%d", localhost, port)
}

// supervise gives a job supervisors.
func supervise(j *v1alpha1.TrainingJob) {
	j.Spec.Supervisor = &v1alpha1.Supervisor{}
	j.Spec.Tasks[0].Template.Spec.Containers[0].Command = []string{"train"}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// judge says what the programs have done that they must not, and which of them do not run in the job's epoch.
func (l *lane) judge() {
	l.t.Helper()
	if l.kubelet == nil {
		return
	}
	for _, what := range l.kubelet.wrong() {
		l.t.Error(what)
	}
	if diff := cmp.Diff(l.epochs(), l.kubelet.oracle.Running()); diff != "" {
		l.t.Errorf("the epochs of the programs that run (-want +got):\n%s", diff)
	}
}

// epochs are those in which the programs of all ranks should run.
func (l *lane) epochs() map[string]int64 {
	out := map[string]int64{}
	for i := range l.job.Spec.Tasks[0].Replicas {
		out[fmt.Sprintf("worker-%d", i)] = l.job.Status.Epoch
	}
	return out
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

// run starts the supervisor of a pod.
func (k *kubelet) run(ctx context.Context, pod *corev1.Pod) error {
	first, err := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	if err != nil {
		return err
	}
	token, ca, err := k.identify(ctx, pod)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	c := &container{kept: first, rank: pod.Labels[v1alpha1.LabelTask] + pod.Name[strings.LastIndex(pod.Name, "-"):], kill: func() { cancel(); <-gone }}
	k.begin(c, token, ca, false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[pod.UID] = c
	go func() {
		defer close(gone)
		for {
			code, ended := c.Run(ctx)
			if !ended {
				return
			}
			k.exited(exit{c.rank, code, time.Now()})
			if !k.restarts {
				return
			}
			k.begin(c, token, ca, true)
		}
	}()
	return nil
}

// begin gives a container another supervisor.
func (k *kubelet) begin(c *container, token, ca string, restarted bool) {
	s := simulated.New(simulated.Options{
		Machine: epoch.Options{Epoch: c.kept, Restarted: restarted, ManagerTimeout: k.managerTimeout},
		Stream: stream.Options{
			Address: k.lane.supervisors.Address, ServerName: localhost, TokenFile: token, CAFile: ca,
			FirstDelay: firstDelay, MaxDelay: maxDelay, Log: slog.New(slog.DiscardHandler),
		},
		Stopping: func(ctx context.Context) { k.stopping(ctx, c.rank) },
		Seen:     func(e int64) { c.kept = e; k.oracle.Saw(c.rank, e) },
		Started:  func(e int64) { k.oracle.Started(c.rank, e) },
		Stopped:  func(e int64) { k.oracle.Stopped(c.rank, e) },
		Changed: func(s simulated.Status) {
			k.mu.Lock()
			defer k.mu.Unlock()
			c.status = s
		},
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	c.Supervisor, c.status = s, simulated.Status{}
}

// identify writes the files of a pod's volume: a token of its own, and the certificates that it is to trust.
func (k *kubelet) identify(ctx context.Context, pod *corev1.Pod) (token, ca string, err error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:      []string{supervisors.Audience},
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := testCluster.Client().SubResource("token").Create(ctx, account, request); err != nil {
		return "", "", err
	}
	token, ca = filepath.Join(k.dir, string(pod.UID)+".token"), filepath.Join(k.dir, string(pod.UID)+".crt")
	return token, ca, errors.Join(
		os.WriteFile(token, []byte(request.Status.Token), 0o600),
		os.WriteFile(ca, []byte(pod.Annotations[v1alpha1.AnnotationManagerCA]), 0o600),
	)
}

// kill ends the container of a pod, if it has one.
func (k *kubelet) kill(pod types.UID) {
	k.mu.Lock()
	c := k.containers[pod]
	k.containers[pod] = nil
	k.mu.Unlock()
	if c != nil {
		c.kill()
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
