package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/config"
)

// LeaseName is the name of the lease that managers lead by (cmd/manager).
const LeaseName = "manager.lockstep.dev"

// manager looks for one manager that works. A manager that runs elsewhere shows in its lease alone.
func manager(c *Cluster) (string, []Finding) {
	var out []Finding
	var leading []string // namespaces
	for i := range c.Leases.Items {
		if l := &c.Leases.Items[i]; c.held(l) {
			leading = append(leading, l.Namespace)
		}
	}
	for i := range c.Managers.Items {
		d := &c.Managers.Items[i]
		switch leader := c.leaderOutside(d); {
		case leader == "":
			out = append(out, running(d, "nothing is recovered")...)
		case ptr.Deref(d.Spec.Replicas, 1) > 0:
			out = append(out, running(d, "recoveries are done by "+leader+", outside this Deployment")...)
		}
		out = append(out, c.elects(d, leading)...)
	}
	if len(leading) > 1 {
		out = append(out, Finding{
			Severity: Problem, Subject: "Lease/" + leading[0] + "/" + LeaseName,
			What: fmt.Sprintf("Managers lead in %s: %s. All of them act on every job.", count(len(leading), "namespace"), some(leading)),
			Fix:  "Leave one installation.",
		})
	}
	switch {
	case len(leading) > 0 && len(c.Managers.Items) > 0:
		return "leads in namespace " + some(leading), out
	case len(leading) > 0:
		return "elsewhere, and leads in namespace " + some(leading), out
	case len(c.Managers.Items) > 0:
		return count(len(c.Managers.Items), "Deployment"), out
	}
	return "neither a Deployment nor a lease", append(out, c.unseenManager())
}

// unseenManager says what it means that neither a Deployment nor a lease shows a manager. Every manager makes the HealthPolicy.
func (c *Cluster) unseenManager() Finding {
	f := Finding{Severity: Problem, Subject: "Manager", Fix: "Install the manager: docs/operators.md says how.", Command: "make install IMG=<manager> AGENT_IMG=<health agent>"}
	if len(c.HealthPolicies.Items) == 0 {
		f.What = "No manager has ever run here: there is no Deployment of it, no lease and no HealthPolicy."
		return f
	}
	f.Severity = Warning
	f.What = "Whether a manager runs cannot be seen: there is no Deployment of it, and nobody leads. One that runs elsewhere without --leader-elect leaves no trace."
	f.Fix, f.Command = "If it runs elsewhere, start it with --leader-elect and --leader-election-namespace. Otherwise install it.", ""
	return f
}

// held reports whether a lease is held now.
func (c *Cluster) held(l *coordinationv1.Lease) bool {
	s := l.Spec
	if ptr.Deref(s.HolderIdentity, "") == "" || s.RenewTime == nil {
		return false
	}
	return s.RenewTime.Add(time.Duration(ptr.Deref(s.LeaseDurationSeconds, 15)) * time.Second).After(c.Now)
}

// leaderOutside is the manager that holds the lease of a Deployment and is none of its pods; empty where there is none.
func (c *Cluster) leaderOutside(d *appsv1.Deployment) string {
	for i := range c.Leases.Items {
		l := &c.Leases.Items[i]
		if l.Namespace != leaseNamespace(d) || !c.held(l) {
			continue
		}
		holder, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_") // a host, and an id of the process
		if !strings.HasPrefix(holder, d.Name+"-") {
			return holder
		}
	}
	return ""
}

func leaseNamespace(d *appsv1.Deployment) string {
	if namespace, given := argument(d, "leader-election-namespace"); given {
		return namespace
	}
	return d.Namespace
}

// elects finds why a Deployment of managers has not one leader.
func (c *Cluster) elects(d *appsv1.Deployment, leading []string) []Finding {
	subject := "Deployment/" + d.Namespace + "/" + d.Name
	if elects, _ := argument(d, "leader-elect"); elects != "true" {
		if ptr.Deref(d.Spec.Replicas, 1) < 2 {
			return nil
		}
		return []Finding{{
			Severity: Problem, Subject: subject, What: "It has several replicas and no flag --leader-elect: all of them act on every job.",
			Fix: "Give its container the flag --leader-elect.",
		}}
	}
	namespace := leaseNamespace(d)
	if d.Status.AvailableReplicas == 0 || contains(leading, namespace) {
		return nil
	}
	return []Finding{{
		Severity: Problem, Subject: "Lease/" + namespace + "/" + LeaseName,
		What: "Nobody has renewed it in time, although the Deployment " + d.Namespace + "/" + d.Name + " has replicas: no manager leads, and nothing is recovered.",
		Fix:  "See what the manager's log says: it may lack the Role lockstep-leader-election.", Command: fmt.Sprintf("kubectl -n %s logs deployment/%s", d.Namespace, d.Name),
	}}
}

// managerRights compares what the manager may do with what it needs.
func managerRights(c *Cluster) (string, []Finding) {
	role, err := config.ManagerRole()
	if err != nil {
		panic(err) // it is embedded, and a test parses it
	}
	if len(c.Managers.Items) == 0 {
		return "elsewhere: no Deployment names its account", nil
	}
	var out []Finding
	for i := range c.Managers.Items {
		d := &c.Managers.Items[i]
		account := d.Spec.Template.Spec.ServiceAccountName
		if account == "" {
			account = "default"
		}
		var lacks []string
		_, missing := validation.Covers(c.rulesOf(d.Namespace, account), role.Rules)
		for _, rule := range missing {
			if contains(rule.Resources, "pods/binding") && !c.bindsDirectly() {
				continue
			}
			lacks = append(lacks, ruleText(rule))
		}
		if len(lacks) > 0 {
			out = append(out, Finding{
				Severity: Problem, Subject: "ServiceAccount/" + d.Namespace + "/" + account,
				What: "The manager lacks the right to " + some(lacks) + ".",
				Fix:  "Apply the role of the manager's version, and see that it is bound to this account.", Command: "kubectl apply --server-side -f config/rbac/role.yaml",
			})
		}
	}
	return "ClusterRole " + role.Name, out
}

// rulesOf are the rules of all ClusterRoles that are bound to a service account.
func (c *Cluster) rulesOf(namespace, account string) []rbacv1.PolicyRule {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	var roles []string
	for _, b := range c.ClusterRoleBindings.Items {
		for _, s := range b.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account || s.Kind == rbacv1.GroupKind && contains(groups, s.Name) {
				roles = append(roles, b.RoleRef.Name)
			}
		}
	}
	var out []rbacv1.PolicyRule
	for _, r := range c.ClusterRoles.Items {
		if contains(roles, r.Name) {
			out = append(out, r.Rules...)
		}
	}
	return out
}

// ruleText is a rule in words, such as "patch nodes".
func ruleText(r rbacv1.PolicyRule) string {
	resources := slices.Clone(r.NonResourceURLs)
	for _, resource := range r.Resources {
		if group := strings.Join(r.APIGroups, ","); group != "" {
			resource += "." + group
		}
		resources = append(resources, resource)
	}
	return strings.Join(r.Verbs, ",") + " " + strings.Join(resources, ",")
}
