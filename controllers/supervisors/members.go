// Which TrainingJob a pod belongs to: by owner references with UIDs, which only those who may create pods can choose, and never by
// labels, which whoever may edit one can.

package supervisors

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	// askTimeout is how long the API server has to answer all that is asked about a pod.
	askTimeout = 10 * time.Second
	// refusedFor is how long a pod stays refused without another question, and refusedPods how many pods do.
	refusedFor, refusedPods = 10 * time.Minute, 10_000
)

// members looks pods up.
type members struct {
	sources
	asking  singleflight.Group    // by the pod's UID
	refused *cache.LRUExpireCache // *refusal by the pod's UID
}

func newMembers(s sources, clock clock.PassiveClock) *members {
	return &members{sources: s, refused: cache.NewLRUExpireCacheWithClock(refusedPods, clock)}
}

// jobOf is the job of a pod.
func (m *members) jobOf(ctx context.Context, who identity) (Job, error) {
	if job, err := m.cached(ctx, who); err == nil {
		return job, nil
	}
	return m.asked(ctx, who)
}

// cached is the job of a pod by the cache alone; an error where the cache does not show it.
func (m *members) cached(ctx context.Context, who identity) (Job, error) {
	return sources{m.cache, m.cache}.find(ctx, who)
}

// asked is the job of a pod by the API server. Streams of the pod share a question. A pod that was refused stays so for a while, so that one of
// no job costs no question each time it connects.
func (m *members) asked(ctx context.Context, who identity) (Job, error) {
	if why, ok := m.refused.Get(who.pod); ok {
		return Job{}, why.(*refusal)
	}
	if err := ctx.Err(); err != nil {
		return Job{}, err
	}
	answer := m.asking.DoChan(string(who.pod), func() (any, error) { return m.ask(context.WithoutCancel(ctx), who) })
	select {
	case a := <-answer:
		return a.Val.(Job), a.Err
	case <-ctx.Done():
		return Job{}, ctx.Err()
	}
}

// ask asks the API server about a pod, and remembers that it is refused.
func (m *members) ask(ctx context.Context, who identity) (Job, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	job, err := m.find(ctx, who)
	if why, ok := errors.AsType[*refusal](err); ok {
		m.refused.Add(who.pod, why, refusedFor)
	}
	return job, err
}

// sources are where objects are read.
type sources struct {
	// cache answers first, and may lag.
	cache client.Reader
	// live is the API server, which decides that something is gone.
	live client.Reader
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.volcano.sh,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=lockstep.dev,resources=trainingjobs,verbs=get;list;watch

// find follows the owners of a pod to its job.
func (s sources) find(ctx context.Context, who identity) (Job, error) {
	pod, err := read[corev1.Pod](ctx, s, who.NamespacedName, who.pod)
	switch {
	case err != nil:
		return Job{}, err
	case pod == nil:
		return Job{}, gone(reasonPodGone, "pod %s (UID %s) is gone", who, who.pod)
	case pod.UID != who.pod:
		return Job{}, gone(reasonPodReplaced, "pod %s (UID %s) was replaced: UID %s has its name", who, who.pod, pod.UID)
	}
	volcano, err := owner[batch.Job](ctx, s, pod, batch.SchemeGroupVersion.WithKind("Job"))
	if err != nil {
		return Job{}, err
	}
	job, err := owner[v1alpha1.TrainingJob](ctx, s, volcano, v1alpha1.GroupVersion.WithKind("TrainingJob"))
	if err != nil {
		return Job{}, err
	}
	if by := job.Spec.ManagedBy; by != "" {
		return Job{}, stranger("%s manages TrainingJob %s/%s: Lockstep supervises none of its pods", by, job.Namespace, job.Name)
	}
	return JobOf(job), nil
}

// object is a pointer to a kind of object.
type object[T any] interface {
	*T
	client.Object
}

// owner reads the object that controls another, which has to be of this kind.
func owner[T any, P object[T]](ctx context.Context, s sources, owned client.Object, kind schema.GroupVersionKind) (P, error) {
	ref := metav1.GetControllerOf(owned)
	if ref == nil || ref.Kind != kind.Kind || groupOf(ref) != kind.Group {
		return nil, stranger("%s/%s has no controller of kind %s: only pods that Lockstep has had made for a TrainingJob are supervised",
			owned.GetNamespace(), owned.GetName(), kind.GroupKind())
	}
	found, err := read[T, P](ctx, s, types.NamespacedName{Namespace: owned.GetNamespace(), Name: ref.Name}, ref.UID)
	if err != nil {
		return nil, err
	}
	if found == nil || found.GetUID() != ref.UID {
		return nil, gone(reasonJobGone, "%s %s/%s (UID %s), which the pod was of, is gone", kind.GroupKind(), owned.GetNamespace(), ref.Name, ref.UID)
	}
	return found, nil
}

// read is the object with a name and a UID, which must not be changed. Where the cache does not have that one, it is what the API server has by
// the name: another, or nil.
func read[T any, P object[T]](ctx context.Context, s sources, name types.NamespacedName, uid types.UID) (P, error) {
	cached, live := P(new(T)), P(new(T))
	if s.cache.Get(ctx, name, cached, client.UnsafeDisableDeepCopy) == nil && cached.GetUID() == uid {
		return cached, nil
	}
	if err := s.live.Get(ctx, name, live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return live, nil
}

func groupOf(ref *metav1.OwnerReference) string {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return ""
	}
	return version.Group
}
