package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/config"
)

// LeaseName is the name of the lease that managers lead by (cmd/manager).
const LeaseName = "manager.lockstep.dev"

// deployed is a Deployment of managers, with its flags, the namespace of its lease, and who leads by that.
type deployed struct {
	*appsv1.Deployment
	flags  map[string]string
	home   string
	leader leader
}

// leader holds a lease since a time: it is a pod, or a host outside the cluster. Its name is empty for a lease that is free.
type leader struct {
	name  string
	since time.Time
}

// leaders returns those who hold a lease now, by the namespace of the lease.
func (c *Cluster) leaders() map[string]leader {
	out := map[string]leader{}
	for _, l := range c.Leases.Items {
		holder := ptr.Deref(l.Spec.HolderIdentity, "")
		lasts := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 15)) * time.Second
		if holder != "" && l.Spec.RenewTime != nil && l.Spec.RenewTime.Add(lasts).After(c.Now) {
			name, _, _ := strings.Cut(holder, "_") // a host, and an id of the process
			out[l.Namespace] = leader{name, ptr.Deref(l.Spec.AcquireTime, metav1.MicroTime{}).Time}
		}
	}
	return out
}

// managers are the Deployments of managers.
func (c *Cluster) managers() []deployed {
	leaders := c.leaders()
	var out []deployed
	for i := range c.Managers.Items {
		d := &c.Managers.Items[i]
		flags := flagsOf(d)
		home := cmp.Or(flags["leader-election-namespace"], d.Namespace)
		out = append(out, deployed{d, flags, home, leaders[home]})
	}
	return out
}

// managerFlag is the value of a flag in the first Deployment of managers that has it; empty for none.
func (c *Cluster) managerFlag(name string) string {
	for _, d := range c.managers() {
		if value := d.flags[name]; value != "" {
			return value
		}
	}
	return ""
}

// leads reports whether a pod of the Deployment leads: to the name of the Deployment, that of a pod adds two parts.
func (d *deployed) leads() bool {
	parts, ok := strings.CutPrefix(d.leader.name, d.Name+"-")
	return ok && strings.Count(parts, "-") < 2
}

// manager looks for one manager that works. A manager that runs elsewhere shows in its lease alone.
func manager(c *Cluster, r *Result) {
	for _, d := range c.managers() {
		switch {
		case d.leader.name == "" || d.leads():
			r.running(d.Deployment, "nothing is recovered")
		case ptr.Deref(d.Spec.Replicas, 1) > 0:
			r.running(d.Deployment, "recoveries are done by "+d.leader.name+", outside this Deployment")
		}
		r.elects(&d)
	}
	leading := slices.Sorted(maps.Keys(c.leaders())) // namespaces
	if len(leading) > 1 {
		r.problem("Lease/"+leading[0]+"/"+LeaseName,
			"Managers lead in "+lines.Count(len(leading), "namespace")+": "+some(leading)+". All of them act on every job.", "Leave one installation.")
	}
	switch deployments := len(c.Managers.Items); {
	case len(leading) > 0 && deployments > 0:
		r.Saw = "leads in namespace " + some(leading)
	case len(leading) > 0:
		r.Saw = "elsewhere, and leads in namespace " + some(leading)
	case deployments > 0:
		r.Saw = lines.Count(deployments, "Deployment")
	case len(c.HealthPolicies.Items) == 0: // every manager makes one
		r.Saw = "neither a Deployment nor a lease"
		r.problem("Manager", "No manager has ever run here: there is no Deployment of it, no lease and no HealthPolicy.",
			"Install the manager: docs/operators.md says how.", "make install IMG=<manager> AGENT_IMG=<health agent>")
	default:
		r.Saw = "neither a Deployment nor a lease"
		r.warning("Manager", "Whether a manager runs cannot be seen: there is no Deployment of it, and nobody leads. "+
			"One that runs elsewhere without --leader-elect leaves no trace.",
			"If it runs elsewhere, start it with --leader-elect and --leader-election-namespace. Otherwise install it.")
	}
}

// elects finds why a Deployment of managers has not one leader.
func (r *Result) elects(d *deployed) {
	elects := d.flags["leader-elect"] == "true"
	switch {
	case !elects && ptr.Deref(d.Spec.Replicas, 1) > 1:
		r.problem("Deployment/"+full(d), "It has several replicas and no flag --leader-elect: all of them act on every job.",
			"Give its container the flag --leader-elect.")
	case elects && d.Status.AvailableReplicas > 0 && d.leader.name == "":
		r.problem("Lease/"+d.home+"/"+LeaseName,
			"Nobody has renewed it in time, although the Deployment "+full(d)+" has replicas: no manager leads, and nothing is recovered.",
			"See what the manager's log says: it may lack the Role lockstep-leader-election.",
			fmt.Sprintf("kubectl -n %s logs deployment/%s", d.Namespace, d.Name))
	}
}

// managerRights compares what the manager may do with what it needs.
func managerRights(c *Cluster, r *Result) {
	role, err := config.ManagerRole()
	utilruntime.Must(err) // it is embedded, and a test parses it
	r.Saw = "ClusterRole " + role.Name
	if len(c.Managers.Items) == 0 {
		r.Saw = "elsewhere: no Deployment names its account"
	}
	for _, d := range c.Managers.Items {
		account := cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")
		var lacks []string
		_, missing := validation.Covers(c.rulesOf(d.Namespace, account), role.Rules)
		for _, rule := range missing {
			if c.bindsDirectly() || !slices.Contains(rule.Resources, "pods/binding") {
				lacks = append(lacks, ruleText(rule))
			}
		}
		if len(lacks) > 0 {
			r.problem("ServiceAccount/"+d.Namespace+"/"+account, "The manager lacks the right to "+some(lacks)+".",
				"Apply the role of the manager's version, and see that it is bound to this account.",
				"kubectl apply --server-side -f config/rbac/role.yaml")
		}
	}
}

// rulesOf are the rules of all ClusterRoles that are bound to a service account.
func (c *Cluster) rulesOf(namespace, account string) []rbacv1.PolicyRule {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	roles := map[string]bool{}
	for _, b := range c.ClusterRoleBindings.Items {
		for _, s := range b.Subjects {
			itself := s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
			roles[b.RoleRef.Name] = roles[b.RoleRef.Name] || itself || s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name)
		}
	}
	var out []rbacv1.PolicyRule
	for _, r := range c.ClusterRoles.Items {
		if roles[r.Name] {
			out = append(out, r.Rules...)
		}
	}
	return out
}

// ruleText is a rule in words, such as "patch nodes".
func ruleText(r rbacv1.PolicyRule) string {
	resources := slices.Clone(r.NonResourceURLs)
	for _, resource := range r.Resources {
		resources = append(resources, strings.TrimSuffix(resource+"."+strings.Join(r.APIGroups, ","), "."))
	}
	return strings.Join(r.Verbs, ",") + " " + strings.Join(resources, ",")
}
