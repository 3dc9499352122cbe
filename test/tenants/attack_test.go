// The attack by the API: a user whose Role allows TrainingJobs and pods of one namespace.

package tenants

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// What there is of the attackers at a time.
const (
	// jobsOfNoQueue have a queue each that does not exist, jobsThatWait ask for more than there is, and holders run and hold nodes.
	jobsOfNoQueue, jobsThatWait, holders = 40, 30, 3
	// pretenders are pods that pass for ranks of a job.
	pretenders = 20
)

// The pauses of the attackers between two objects of a kind.
const (
	pauseOfNoQueue, pauseThatWait, pauseHolder, pausePretender, pauseRequest = 100 * time.Millisecond, 500 * time.Millisecond, 15 * time.Second, 500 * time.Millisecond, time.Second
)

// attacker does what its user may.
type attacker struct {
	client client.Client
	ports  addresses
	counts counts
}

// counts are what the attackers have done.
type counts struct {
	Jobs, Queues, Pods, Requests, Deletions, Refused       atomic.Int64
	MetricsConnections, AlertConnections, SupervisorStream atomic.Int64
}

// newUser makes the attackers' user, and returns its kubeconfig.
func newUser(t *testing.T) string {
	t.Helper()
	must(t, testCluster.Client().Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: attackers, Name: attackers},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"trainingjobs"}, Verbs: []string{rbacv1.VerbAll}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{rbacv1.VerbAll}},
		},
	}), "create the attackers' Role")
	must(t, testCluster.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: attackers, Name: attackers},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: attackers},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: attackers}},
	}), "bind it to their user")
	kubeconfig, err := testCluster.KubeconfigFor(attackers)
	must(t, err, "make their kubeconfig")
	a, err := newAttacker(kubeconfig, ports)
	must(t, err, "make their client")
	await(t, "the Role counts", func(ctx context.Context) error {
		return a.client.List(ctx, &v1alpha1.TrainingJobList{}, client.InNamespace(attackers))
	})
	for what, err := range map[string]error{
		"jobs of the other namespace": a.client.List(t.Context(), &v1alpha1.TrainingJobList{}, client.InNamespace(workers)),
		"nodes":                       a.client.List(t.Context(), &corev1.NodeList{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the attackers may list %s: %v", what, err)
		}
	}
	return kubeconfig
}

func newAttacker(kubeconfig string, ports addresses) (*attacker, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme := cluster.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	return &attacker{client: c, ports: ports}, err
}

// attack attacks until the context ends.
func (a *attacker) attack(ctx context.Context) {
	var group sync.WaitGroup
	for _, attack := range []func(context.Context){a.queues, a.waiting, a.holds, a.requests, a.pretend, a.crowd} {
		group.Go(func() { attack(ctx) })
	}
	group.Wait()
}

// every calls do with a growing number until the context ends.
func every(ctx context.Context, pause time.Duration, do func(n int)) {
	for n := 0; ctx.Err() == nil; n++ {
		do(n)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// create counts what is created, and what is refused.
func (a *attacker) create(ctx context.Context, obj client.Object, created *atomic.Int64) {
	a.count(ctx, a.client.Create(ctx, obj), created)
}

func (a *attacker) remove(ctx context.Context, obj client.Object) {
	a.count(ctx, client.IgnoreNotFound(a.client.Delete(ctx, obj, client.GracePeriodSeconds(0))), &a.counts.Deletions)
}

func (a *attacker) count(ctx context.Context, err error, done *atomic.Int64) {
	switch {
	case err == nil:
		done.Add(1)
	case ctx.Err() == nil:
		a.counts.Refused.Add(1)
	}
}

// queues creates jobs of ever new queues, and deletes them again.
func (a *attacker) queues(ctx context.Context) {
	named := func(n int) *v1alpha1.TrainingJob {
		job := hostile(fmt.Sprintf("queue-%d", n), 1)
		job.Spec.Queue = job.Name
		return job
	}
	every(ctx, pauseOfNoQueue, func(n int) {
		a.create(ctx, named(n), &a.counts.Jobs)
		a.counts.Queues.Add(1)
		if n >= jobsOfNoQueue {
			a.remove(ctx, named(n-jobsOfNoQueue))
		}
	})
}

// waiting creates jobs for which there is no room, and deletes them again.
func (a *attacker) waiting(ctx context.Context) {
	named := func(n int) *v1alpha1.TrainingJob {
		job := hostile(fmt.Sprintf("wait-%d", n), 100)
		job.Spec.Tasks[0].Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse(fmt.Sprint(gpus))}
		return job
	}
	every(ctx, pauseThatWait, func(n int) {
		a.create(ctx, named(n), &a.counts.Jobs)
		if n >= jobsThatWait {
			a.remove(ctx, named(n-jobsThatWait))
		}
	})
}

// holder is a job with small pods that asks for a standing hold of every node that one of them is on.
func holder(n int) *v1alpha1.TrainingJob {
	job := hostile(fmt.Sprintf("hold-%d", n), 3)
	job.Spec.Hold = &v1alpha1.Hold{Policy: v1alpha1.HoldAlways}
	return job
}

// holds creates holders, and one more in place of the oldest now and then.
func (a *attacker) holds(ctx context.Context) {
	for n := range holders {
		a.create(ctx, holder(n), &a.counts.Jobs)
	}
	every(ctx, pauseHolder, func(n int) {
		if n > 0 {
			a.remove(ctx, holder(n-1))
			a.create(ctx, holder(n-1+holders), &a.counts.Jobs)
		}
	})
}

// requests asks for restarts of all that runs.
func (a *attacker) requests(ctx context.Context) {
	actions := []string{string(v1alpha1.RestartPod), string(v1alpha1.RestartJob), string(v1alpha1.MigratePod), string(v1alpha1.RelocateJob)}
	every(ctx, pauseRequest, func(n int) {
		jobs := &v1alpha1.TrainingJobList{}
		if err := a.client.List(ctx, jobs, client.InNamespace(attackers)); err != nil {
			return
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			if job.Status.State != v1alpha1.StateRunning && job.Status.State != v1alpha1.StateRecovering {
				continue
			}
			patch := client.MergeFrom(job.DeepCopy())
			job.Spec.RestartRequest = &v1alpha1.RestartRequest{ID: fmt.Sprint(n), Action: v1alpha1.RequestedAction(actions[n%len(actions)]), Reason: "because"}
			if n%2 == 0 { // the actions that are about pods
				job.Spec.RestartRequest.Pods = []v1alpha1.RequestedPod{{Task: "worker", Index: int32(n/2) % 3}}
			}
			a.count(ctx, a.client.Patch(ctx, job, patch), &a.counts.Requests)
		}
	})
}

// pretend creates pods with the labels of a job's, and deletes them again.
func (a *attacker) pretend(ctx context.Context) {
	named := func(n int) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: attackers, Name: fmt.Sprintf("pretend-%d", n), Labels: map[string]string{
				v1alpha1.LabelJob: fmt.Sprintf("hold-%d", n%holders), v1alpha1.LabelUID: fmt.Sprintf("uid-%d", n),
			}},
			Spec: small(),
		}
	}
	every(ctx, pausePretender, func(n int) {
		a.create(ctx, named(n), &a.counts.Pods)
		if n >= pretenders {
			a.remove(ctx, named(n-pretenders))
		}
	})
}

// hostile is a job of small pods that go wherever they like.
func hostile(name string, replicas int32) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: attackers, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Tasks: []v1alpha1.Task{{Name: "worker", Replicas: replicas, Template: corev1.PodTemplateSpec{Spec: small()}}},
		},
	}
}

// small is a pod of 1m of CPU that tolerates everything.
func small() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector:                  pool.NodeSelector(),
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{
			Name: "main", Image: "trainer",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
		}},
	}
}

// leave deletes all that the attackers have, and waits until it is gone.
func leave(t *testing.T) {
	t.Helper()
	for _, kind := range []client.Object{&v1alpha1.TrainingJob{}, &corev1.Pod{}} {
		must(t, testCluster.Client().DeleteAllOf(t.Context(), kind, client.InNamespace(attackers), client.GracePeriodSeconds(0)), "delete what the attackers left")
	}
	await(t, "nothing of the attackers is left", func(ctx context.Context) error {
		for _, kind := range []client.ObjectList{&v1alpha1.TrainingJobList{}, &corev1.PodList{}} {
			if err := testCluster.Client().List(ctx, kind, client.InNamespace(attackers), client.Limit(1)); err != nil {
				return err
			}
			if n := lenOf(kind); n > 0 {
				return fmt.Errorf("there are %T", kind)
			}
		}
		return nil
	})
}

func lenOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *v1alpha1.TrainingJobList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	default:
		return 0
	}
}
