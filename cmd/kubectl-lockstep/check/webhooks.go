package check

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// hook is a webhook of either kind.
type hook struct {
	subject, name string
	policy        *admissionv1.FailurePolicyType
	config        admissionv1.WebhookClientConfig
	rules         []admissionv1.RuleWithOperations
}

// hooks are all webhooks of the cluster.
func (c *Cluster) hooks() []hook {
	var out []hook
	for _, m := range c.Mutating.Items {
		for _, w := range m.Webhooks {
			out = append(out, hook{"MutatingWebhookConfiguration/" + m.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules})
		}
	}
	for _, v := range c.Validating.Items {
		for _, w := range v.Webhooks {
			out = append(out, hook{"ValidatingWebhookConfiguration/" + v.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules})
		}
	}
	return out
}

// written are the resources, by their groups, whose writes a recovery needs: those of Lockstep, and those of Volcano on its way.
var written = map[string][]string{
	"":                      {"pods", "pods/binding", "nodes", "nodes/status"},
	"lockstep.dev":          {"trainingjobs", "trainingjobs/status", "nodehealths", "nodehealths/status"},
	"batch.volcano.sh":      {"jobs"},
	"bus.volcano.sh":        {"commands"},
	"scheduling.volcano.sh": {"podgroups"},
}

// refuses reports whether a webhook that does not answer refuses what a recovery needs.
func (h *hook) refuses() bool {
	return ptr.Deref(h.policy, admissionv1.Fail) == admissionv1.Fail && slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool {
		for group, resources := range written {
			for _, resource := range resources {
				if matches(r.APIGroups, group) && (contains(r.Resources, resource) || contains(r.Resources, "*/*") || contains(r.Resources, "*")) {
					return true
				}
			}
		}
		return false
	})
}

func matches(list []string, name string) bool { return contains(list, name) || contains(list, "*") }

// backend is the Service that a webhook needs, where it has one.
func (h *hook) backend() (types.NamespacedName, bool) {
	if s := h.config.Service; s != nil {
		return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, true
	}
	return types.NamespacedName{}, false
}

// webhooks looks for webhooks that nobody answers, and for those of Volcano.
func webhooks(c *Cluster) (string, []Finding) {
	hooks := c.hooks()
	var out []Finding
	for i := range hooks {
		h := &hooks[i]
		service, ok := h.backend()
		if !ok || !h.refuses() {
			continue
		}
		f := Finding{Severity: Problem, Subject: h.subject, Command: fmt.Sprintf("kubectl -n %s get service,endpointslices", service.Namespace)}
		switch b := c.Backends[service]; {
		case !b.Exists:
			f.What = fmt.Sprintf("Webhook %s needs Service %s, which does not exist: the API server refuses what it would ask about.", h.name, service)
			f.Fix = "Install what the webhook belongs to, or delete the configuration if that is gone for good."
		case b.Ready == 0:
			f.What = fmt.Sprintf("Webhook %s needs Service %s, which has no ready endpoint: the API server refuses what it would ask about.", h.name, service)
			f.Fix = "Start what is behind the Service, or delete the configuration if that is gone for good."
		default:
			continue
		}
		out = append(out, f)
	}
	return count(len(hooks), "webhook"), append(out, volcanoWebhook(hooks)...)
}

// volcanoWebhook looks for the webhook that validates Volcano Jobs.
func volcanoWebhook(hooks []hook) []Finding {
	validates := func(h hook) bool {
		return slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool {
			return contains(r.APIGroups, "batch.volcano.sh") && contains(r.Resources, "jobs")
		})
	}
	if slices.ContainsFunc(hooks, validates) {
		return nil
	}
	return []Finding{{
		Severity: Warning, Subject: "Volcano",
		What: "No webhook looks at Volcano Jobs: one that Volcano cannot run is taken, and its TrainingJob waits without saying why.",
		Fix:  "Install Volcano's admission, with /jobs/mutate and /jobs/validate enabled.",
	}}
}
