package check

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTheManager(t *testing.T) {
	lease := func(change func(*coordinationv1.Lease)) func(*Cluster) {
		return func(c *Cluster) { change(&c.Leases.Items[0]) }
	}
	deployment := func(change func(*appsv1.Deployment)) func(*Cluster) {
		return func(c *Cluster) { change(&c.Managers.Items[0]) }
	}
	const nobody = "Problem Lease/lockstep-system/manager.lockstep.dev: Nobody has renewed it in time, although the Deployment lockstep-system/lockstep-manager has replicas: no manager leads, and nothing is recovered."
	expect(t, map[string]change{
		"a lease that was not renewed": {lease(func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NewMicroTime(now.Add(-16 * time.Second))) }), []string{nobody}},
		"a lease that was given up":    {lease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }), []string{nobody}},
		"no lease":                     {func(c *Cluster) { c.Leases.Items = nil }, []string{nobody}},
		"a lease elsewhere, as a flag says": {func(c *Cluster) {
			lease(func(l *coordinationv1.Lease) { l.Namespace = "leases" })(c)
			deployment(func(d *appsv1.Deployment) {
				args := &d.Spec.Template.Spec.Containers[0].Args
				*args = append(*args, "--leader-election-namespace=leases")
			})(c)
		}, nil},
		"outside the cluster, with a lease": {func(c *Cluster) { c.Managers.Items = nil }, nil},
		"outside the cluster, without": {func(c *Cluster) { c.Managers.Items, c.Leases.Items = nil, nil }, []string{
			"Warning Manager: Whether a manager runs cannot be seen: there is no Deployment of it, and nobody leads. One that runs elsewhere without --leader-elect leaves no trace.",
		}},
		"never installed": {func(c *Cluster) { c.Managers.Items, c.Leases.Items, c.HealthPolicies.Items = nil, nil, nil }, []string{
			"Problem Manager: No manager has ever run here: there is no Deployment of it, no lease and no HealthPolicy.",
		}},
		"pods that do not start": {func(c *Cluster) {
			deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })(c)
			c.Leases.Items = nil
		}, []string{"Problem Deployment/lockstep-system/lockstep-manager: None of its 1 replica is available: nothing is recovered."}},
		"pods that do not start, and a manager elsewhere": {func(c *Cluster) {
			deployment(func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.AvailableReplicas = ptr.To[int32](2), 0 })(c)
			lease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("workstation_1b2c") })(c)
		}, []string{"Problem Deployment/lockstep-system/lockstep-manager: None of its 2 replicas is available: recoveries are done by workstation, outside this Deployment."}},
		"none is asked for, and a manager elsewhere": {func(c *Cluster) {
			deployment(func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.AvailableReplicas = ptr.To[int32](0), 0 })(c)
			lease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("workstation_1b2c") })(c)
		}, nil},
		"pods that have just stopped": {func(c *Cluster) {
			deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })(c)
			lease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("lockstep-manager-7d9f-abcde_1b2c") })(c)
		}, []string{"Problem Deployment/lockstep-system/lockstep-manager: None of its 1 replica is available: nothing is recovered."}},
		"none is asked for, and one of a Deployment whose name begins alike": {func(c *Cluster) {
			deployment(func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.AvailableReplicas = ptr.To[int32](0), 0 })(c)
			lease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("lockstep-manager-blue-7d9f-abcde_1b2c") })(c)
		}, nil},
		"one of two": {deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) }), []string{
			"Warning Deployment/lockstep-system/lockstep-manager: 1 of its 2 replicas are available.",
		}},
		"two without an election": {deployment(func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status.AvailableReplicas, d.Spec.Template.Spec.Containers[0].Args = ptr.To[int32](2), 2, nil
		}), []string{"Problem Deployment/lockstep-system/lockstep-manager: It has several replicas and no flag --leader-elect: all of them act on every job."}},
		"one without an election": {func(c *Cluster) {
			deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect=false"} })(c)
			c.Leases.Items = nil
		}, nil},
		"two installations": {func(c *Cluster) {
			other := c.Leases.Items[0].DeepCopy()
			other.Namespace = "default"
			c.Leases.Items = append(c.Leases.Items, *other)
		}, []string{"Problem Lease/default/manager.lockstep.dev: Managers lead in 2 namespaces: default, lockstep-system. All of them act on every job."}},
	})
}

func TestTheManagersRights(t *testing.T) {
	without := func(resource string) func(*Cluster) {
		return func(c *Cluster) {
			rules := c.ClusterRoles.Items[0].Rules
			for i := range rules {
				if slices.Contains(rules[i].Resources, resource) {
					rules[i].Verbs = []string{"get"}
				}
			}
		}
	}
	const subject = "Problem ServiceAccount/lockstep-system/lockstep-manager: The manager lacks the right to "
	expect(t, map[string]change{
		"one missing":    {without("hypernodes/status"), []string{subject + "patch hypernodes/status.topology.volcano.sh."}},
		"of an old role": {without("pods"), []string{subject + "delete pods, list pods, patch pods, watch pods."}},
		"binding":        {without("pods/binding"), []string{subject + "create pods/binding."}},
		"binding, which is off": {func(c *Cluster) {
			without("pods/binding")(c)
			args := &c.Managers.Items[0].Spec.Template.Spec.Containers[0].Args
			*args = append(*args, "--bind-directly=false")
		}, nil},
		"through a group": {func(c *Cluster) {
			c.ClusterRoleBindings.Items[0].Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:lockstep-system"}}
		}, nil},
		"all rights": {func(c *Cluster) {
			c.ClusterRoles.Items[0].Rules = []rbacv1.PolicyRule{
				{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
			}
		}, nil},
		"one that is of no resource": {func(c *Cluster) {
			role := &c.ClusterRoles.Items[0]
			role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 })
		}, []string{subject + "get /.well-known/openid-configuration, get /openid/v1/jwks."}},
	})
	c := good(t)
	c.ClusterRoleBindings.Items = nil
	if n := Run(c).Problems; n != 1 {
		t.Errorf("a role that is not bound gives %d problems, want 1", n)
	}
}
