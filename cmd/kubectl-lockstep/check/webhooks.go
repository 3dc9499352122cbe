package check

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
)

// hook is a webhook of either kind. It has no service where it is outside the cluster.
type hook struct {
	subject, name string
	policy        *admissionv1.FailurePolicyType
	service       types.NamespacedName
	rules         []admissionv1.RuleWithOperations
}

// hooks are all webhooks of the cluster.
func (c *Cluster) hooks() []hook {
	service := func(config admissionv1.WebhookClientConfig) types.NamespacedName {
		s := ptr.Deref(config.Service, admissionv1.ServiceReference{})
		return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	}
	var out []hook
	for _, m := range c.Mutating.Items {
		for _, w := range m.Webhooks {
			out = append(out, hook{"MutatingWebhookConfiguration/" + m.Name, w.Name, w.FailurePolicy, service(w.ClientConfig), w.Rules})
		}
	}
	for _, v := range c.Validating.Items {
		for _, w := range v.Webhooks {
			out = append(out, hook{"ValidatingWebhookConfiguration/" + v.Name, w.Name, w.FailurePolicy, service(w.ClientConfig), w.Rules})
		}
	}
	return out
}

// written are the resources whose writes a recovery needs: those of Lockstep, and those of Volcano on its way.
var written = []string{
	"pods", "pods/binding", "nodes", "nodes/status", "trainingjobs.lockstep.dev", "trainingjobs/status.lockstep.dev",
	"nodehealths.lockstep.dev", "nodehealths/status.lockstep.dev", "jobs.batch.volcano.sh", "commands.bus.volcano.sh",
	"podgroups.scheduling.volcano.sh",
}

// refuses reports whether a webhook of the cluster that does not answer refuses what a recovery needs.
func (h *hook) refuses() bool {
	if h.service.Name == "" || ptr.Deref(h.policy, admissionv1.Fail) != admissionv1.Fail {
		return false
	}
	return slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(written, func(name string) bool {
			resource := schema.ParseGroupResource(name)
			return covers(r.APIGroups, resource.Group) && covers(r.Resources, resource.Resource)
		})
	})
}

// covers reports whether one of the patterns of a webhook's rule is for a group, or for a resource or subresource: each of the two parts may be a star.
func covers(patterns []string, name string) bool {
	of, sub, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		first, second, _ := strings.Cut(pattern, "/")
		return (first == "*" || first == of) && (second == "*" || second == sub)
	})
}

// webhooks finds webhooks whose Service does not answer, and looks for the one that validates Volcano Jobs.
func webhooks(c *Cluster, r *Result) {
	hooks := c.hooks()
	r.Saw = lines.Count(len(hooks), "webhook")
	for _, h := range hooks {
		if !h.refuses() {
			continue
		}
		lacks, fix := "", ""
		switch b := c.Backends[h.service]; {
		case b.Service == nil:
			lacks, fix = "does not exist", "Install what the webhook belongs to"
		case len(b.Ready) == 0:
			lacks, fix = "has no ready endpoint", "Start what is behind the Service"
		default:
			continue
		}
		what := fmt.Sprintf("Webhook %s needs Service %s, which %s: the API server refuses what it would ask about.", h.name, h.service, lacks)
		r.problem(h.subject, what,
			fix+", or delete the configuration if that is gone for good.", "kubectl -n "+h.service.Namespace+" get service,endpointslices")
	}
	validates := func(r admissionv1.RuleWithOperations) bool {
		return slices.Contains(r.APIGroups, "batch.volcano.sh") && slices.Contains(r.Resources, "jobs")
	}
	if !slices.ContainsFunc(hooks, func(h hook) bool { return slices.ContainsFunc(h.rules, validates) }) {
		r.warning("Volcano",
			"No webhook looks at Volcano Jobs: one that Volcano cannot run is taken, and its TrainingJob waits without saying why.",
			"Install Volcano's admission, with /jobs/mutate and /jobs/validate enabled.")
	}
}
