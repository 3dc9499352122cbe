package check

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/supervisors"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestTheNamesAreTheManagers(t *testing.T) {
	check.Equal(t, "Service", supervisors.ServiceName, supervisorsService)
	check.Equal(t, "Secret", supervisors.SecretName, supervisorsAuthority)
}

const theLeader = "lockstep-manager-7d9f-abcde"

// served is what there is for supervisors in a manager's namespace.
type served struct {
	Backend
	NoAuthority bool
}

func TestSupervisors(t *testing.T) {
	// on is a cluster whose manager takes supervisors, but for one thing.
	on := func(change func(*Cluster, *served)) func(*Cluster) {
		return func(c *Cluster) {
			args := &c.Managers.Items[0].Spec.Template.Spec.Containers[0].Args
			*args = append(*args, "--supervisors-bind-address=:9444", "--supervisor-image=registry.example/lockstep-run:v1")
			c.TrainingJobs.Items[0].Spec.Supervisor = &v1alpha1.Supervisor{}
			c.Leases.Items[0].Spec.HolderIdentity = new(theLeader + "_1b2c")
			service := &corev1.Service{ObjectMeta: named("lockstep-system", supervisorsService), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
			s := served{Backend: Backend{Service: service, Ready: []string{theLeader}}}
			if change != nil {
				change(c, &s)
			}
			c.Backends[types.NamespacedName{Namespace: "lockstep-system", Name: supervisorsService}] = s.Backend
			c.NoAuthority = map[string]bool{"lockstep-system": s.NoAuthority}
		}
	}
	arg := func(c *Cluster, more ...string) {
		args := &c.Managers.Items[0].Spec.Template.Spec.Containers[0].Args
		*args = append(*args, more...)
	}
	const service, secret = " Service/lockstep-system/lockstep-supervisors: ", "Problem Secret/lockstep-system/lockstep-supervisor-ca: "
	expect(t, map[string]change{
		"on": {on(nil), nil},
		"off, and a job that asks for them": {func(c *Cluster) { c.TrainingJobs.Items[0].Spec.Supervisor = &v1alpha1.Supervisor{} }, []string{
			"Problem Deployment/lockstep-system/lockstep-manager: Its flag --supervisors-bind-address is not set, so that it takes no supervisors, and spec.supervisor is in 1 TrainingJob: research/llama. They do not start, or not again.",
		}},
		"off by its flag": {on(func(c *Cluster, _ *served) { arg(c, "--supervisors-bind-address=0") }), []string{
			"Problem Deployment/lockstep-system/lockstep-manager: Its flag --supervisors-bind-address is not set, so that it takes no supervisors, and spec.supervisor is in 1 TrainingJob: research/llama. They do not start, or not again.",
		}},
		"off, and a job that has ended": {func(c *Cluster) {
			c.TrainingJobs.Items[0].Spec.Supervisor = &v1alpha1.Supervisor{}
			c.TrainingJobs.Items[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
		}, nil},
		"a manager elsewhere": {on(func(c *Cluster, _ *served) { c.Managers.Items = nil }), nil},
		"no image": {on(func(c *Cluster, _ *served) {
			c.Managers.Items[0].Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--supervisors-bind-address=:9444", "--supervisor-image="}
		}), []string{"Problem Deployment/lockstep-system/lockstep-manager: It has the flag --supervisors-bind-address, and no image in --supervisor-image: the manager does not start."}},
		"no Service": {on(func(_ *Cluster, s *served) { s.Service, s.Ready = nil, nil }), []string{
			"Problem" + service + "It does not exist: no supervisor finds the manager.",
		}},
		"no Service, and another address": {on(func(c *Cluster, s *served) {
			s.Service, s.Ready = nil, nil
			arg(c, "--supervisors-address=training.example:443")
		}), nil},
		"no Service, and its own address": {on(func(c *Cluster, s *served) {
			s.Service, s.Ready = nil, nil
			arg(c, "--supervisors-address=lockstep-supervisors.lockstep-system.svc:9444")
		}), []string{"Problem" + service + "It does not exist: no supervisor finds the manager."}},
		"a virtual address": {on(func(c *Cluster, s *served) {
			s.Service.Spec.ClusterIP = "10.0.0.9"
			c.Managers.Items[0].Spec.Replicas, c.Managers.Items[0].Status.AvailableReplicas = ptr.To[int32](2), 2
		}), []string{"Warning" + service + "Its spec.clusterIP is 10.0.0.9. Only the leader listens, and a virtual address leads supervisors to any of 2 replicas."}},
		"a virtual address of one replica": {on(func(_ *Cluster, s *served) { s.Service.Spec.ClusterIP = "10.0.0.9" }), nil},
		"nothing is selected": {on(func(_ *Cluster, s *served) { s.Ready = nil }), []string{
			"Problem" + service + "No ready pod is behind it: no supervisor finds the manager.",
		}},
		"another pod is selected": {on(func(_ *Cluster, s *served) { s.Ready = []string{"web-0"} }), []string{
			"Problem" + service + "The leader lockstep-manager-7d9f-abcde is not among the ready pods behind it, and only the leader listens.",
		}},
		"a leader that is no pod of the Deployment": {on(func(c *Cluster, _ *served) { c.Leases.Items[0].Spec.HolderIdentity = new("workstation_1b2c") }), nil},
		"no authority": {on(func(_ *Cluster, s *served) { s.NoAuthority = true }), []string{secret + "It does not exist: the manager has no authority for its certificate, and the pods of new supervised jobs stay behind their gates."}},
		"no authority, of a new leader": {on(func(c *Cluster, s *served) {
			s.NoAuthority, c.Leases.Items[0].Spec.AcquireTime = true, new(metav1.NewMicroTime(now.Add(-time.Second)))
		}), nil},
	})
}
