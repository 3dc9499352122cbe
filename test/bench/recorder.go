// Recorder: what became of every pod, and when, as a watch tells it. Both sides' times are taken
// here, when the event arrives.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// glance is how often a condition on what was recorded is looked at; no time is measured by it.
const glance = 50 * time.Millisecond

// life is one pod from its first event to its last.
type life struct {
	name, node string
	uid        types.UID
	rank       int
	order      int // of appearance
	phase      corev1.PodPhase
	// When the pod was first seen at all, ungated, bound, running, failed, and deleted.
	made, open, bound, running, failed, gone time.Time
}

// lives are the present pods of a gang by rank.
type lives map[int]life

// recorder keeps all lives by gang.
type recorder struct {
	mu    sync.Mutex
	gangs map[string]map[types.UID]*life
	seen  int
}

// newRecorder watches until the context ends.
func newRecorder(ctx context.Context, config *rest.Config) (*recorder, error) {
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the watch: %w", err)
	}
	r := &recorder{gangs: map[string]map[types.UID]*life{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(r.handler()); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, errors.New("the watch of pods did not begin")
	}
	return r, nil
}

func (r *recorder) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.note(obj, false, time.Now()) },
		UpdateFunc: func(_, obj any) { r.note(obj, false, time.Now()) },
		DeleteFunc: func(obj any) {
			if last, missed := obj.(cache.DeletedFinalStateUnknown); missed {
				obj = last.Obj
			}
			r.note(obj, true, time.Now())
		},
	}
}

// note takes one event down.
func (r *recorder) note(obj any, gone bool, now time.Time) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lifeOf(pod)
	l.node, l.phase = pod.Spec.NodeName, pod.Status.Phase
	first(&l.made, now, true)
	first(&l.open, now, len(pod.Spec.SchedulingGates) == 0)
	first(&l.bound, now, l.node != "")
	first(&l.running, now, l.phase == corev1.PodRunning)
	first(&l.failed, now, l.phase == corev1.PodFailed)
	first(&l.gone, now, gone)
}

func first(at *time.Time, now time.Time, is bool) {
	if is && at.IsZero() {
		*at = now
	}
}

func (r *recorder) lifeOf(pod *corev1.Pod) *life {
	name := gangOf(pod)
	if r.gangs[name] == nil {
		r.gangs[name] = map[types.UID]*life{}
	}
	l := r.gangs[name][pod.UID]
	if l == nil {
		r.seen++
		l = &life{name: pod.Name, uid: pod.UID, rank: rankOf(pod.Name), order: r.seen}
		r.gangs[name][pod.UID] = l
	}
	return l
}

// gangOf is the name of the job that a pod belongs to, or its own where it is alone.
func gangOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Labels[v1alpha1.LabelJob], pod.Labels[batch.JobNameKey], pod.Name)
}

// rankOf is the number at the end of a pod's name.
func rankOf(pod string) int {
	rank, err := strconv.Atoi(pod[strings.LastIndex(pod, "-")+1:])
	if err != nil {
		return -1
	}
	return rank
}

// present are the pods of a gang that exist, the latest of each rank.
func (r *recorder) present(gang string) lives {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := lives{}
	for _, l := range r.gangs[gang] {
		if other, ok := out[l.rank]; l.gone.IsZero() && (!ok || other.order < l.order) {
			out[l.rank] = *l
		}
	}
	return out
}

// life is one pod of a gang, also when it is gone.
func (r *recorder) life(gang string, uid types.UID) life {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.gangs[gang][uid]; l != nil {
		return *l
	}
	return life{}
}

// forget drops what was recorded of a gang.
func (r *recorder) forget(gang string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gangs, gang)
}

// errLate is what await returns where a condition does not come to hold.
var errLate = errors.New("not in time")

// await returns a gang's pods once they satisfy a condition, or errLate.
func (r *recorder) await(ctx context.Context, gang string, timeout time.Duration, holds func(lives) bool) (lives, error) {
	var now lives
	err := wait.PollUntilContextTimeout(ctx, glance, timeout, true, func(context.Context) (bool, error) {
		now = r.present(gang)
		return holds(now), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = errLate
	}
	return now, err
}

// run reports whether so many ranks run.
func (l lives) run(pods int) bool {
	n := 0
	for _, p := range l {
		if p.phase == corev1.PodRunning {
			n++
		}
	}
	return n == pods
}

// replaced are those of the ranks that have another pod now.
func (l lives) replaced(now lives) lives {
	out := lives{}
	for rank := range l {
		if p, ok := now[rank]; ok && p.uid != l[rank].uid {
			out[rank] = p
		}
	}
	return out
}

// last is when the last of the pods came to a point of its life.
func (l lives) last(point func(life) time.Time) time.Time {
	var last time.Time
	for _, p := range l {
		if at := point(p); at.After(last) {
			last = at
		}
	}
	return last
}

// The points of a life.
func made(p life) time.Time    { return p.made }
func ungated(p life) time.Time { return p.open }
func bound(p life) time.Time   { return p.bound }
func running(p life) time.Time { return p.running }
