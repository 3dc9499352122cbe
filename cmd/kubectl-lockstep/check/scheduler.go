package check

import (
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// schedulerConf is what is looked at of the configuration of Volcano's scheduler (pkg/scheduler/conf in Volcano).
type schedulerConf struct {
	Actions string `json:"actions"`
	Tiers   []struct {
		Plugins []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"plugins"`
	} `json:"tiers"`
	Configurations []struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"configurations"`
}

// plugin returns the arguments of a plugin, and whether it is there.
func (s *schedulerConf) plugin(name string) (map[string]any, bool) {
	for _, tier := range s.Tiers {
		for _, p := range tier.Plugins {
			if p.Name == name {
				return p.Arguments, true
			}
		}
	}
	return nil, false
}

// scheduler looks at the configuration that Volcano's scheduler is given by its Deployment.
func scheduler(c *Cluster) (string, []Finding) {
	saw, out := "elsewhere: no Deployment mounts its configuration", []Finding(nil)
	for i := range c.Volcano.Items {
		d := &c.Volcano.Items[i]
		if d.Labels["app"] != schedulerApp {
			continue
		}
		for _, name := range mountedConfigMaps(d) {
			saw = name.String()
			out = append(out, c.configMap(d, name)...)
		}
	}
	return saw, out
}

// mountedConfigMaps are the ConfigMaps that a Deployment mounts.
func mountedConfigMaps(d *appsv1.Deployment) []types.NamespacedName {
	var out []types.NamespacedName
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil {
			out = append(out, types.NamespacedName{Namespace: d.Namespace, Name: v.ConfigMap.Name})
		}
	}
	return out
}

// configMap looks at one ConfigMap that the scheduler mounts.
func (c *Cluster) configMap(d *appsv1.Deployment, name types.NamespacedName) []Finding {
	subject := "ConfigMap/" + name.String()
	file, ok := argument(d, "scheduler-conf")
	if !ok {
		return []Finding{{
			Severity: Problem, Subject: "Deployment/" + d.Namespace + "/" + d.Name,
			What: "It has no flag --scheduler-conf, so that the scheduler runs with its default, which knows no HyperNodes.",
			Fix:  "Give it the flag, with the path of the configuration that docs/operators.md has.",
		}}
	}
	m, ok := c.ConfigMaps[name]
	if !ok {
		return []Finding{{
			Severity: Problem, Subject: subject, What: "It does not exist, and Volcano's scheduler mounts it.",
			Fix: "Create it with the configuration that docs/operators.md has.",
		}}
	}
	return inConfigMap(subject, &m, path.Base(file))
}

func inConfigMap(subject string, m *corev1.ConfigMap, key string) []Finding {
	raw, ok := m.Data[key]
	if !ok {
		return []Finding{{
			Severity: Problem, Subject: subject,
			What: "It has no key " + key + ", which Volcano's scheduler reads: it runs with its default, which knows no HyperNodes.",
			Fix:  "Add the key, with the configuration that docs/operators.md has.",
		}}
	}
	conf := &schedulerConf{}
	if err := yaml.Unmarshal([]byte(raw), conf); err != nil {
		return []Finding{{
			Severity: Problem, Subject: subject,
			What: fmt.Sprintf("%s is no valid YAML, and the scheduler ignores it: %v.", key, err),
			Fix:  "Fix it. docs/operators.md has the configuration that Lockstep needs.",
		}}
	}
	out := conf.findings()
	for i := range out {
		out[i].Subject, out[i].Command = subject, fmt.Sprintf("kubectl -n %s edit configmap %s", m.Namespace, m.Name)
	}
	return out
}

// findings are what the configuration lacks.
func (s *schedulerConf) findings() []Finding {
	var out []Finding
	lacks := func(what, fix string) { out = append(out, Finding{Severity: Problem, What: what, Fix: fix}) }
	var actions []string
	for action := range strings.SplitSeq(s.Actions, ",") {
		actions = append(actions, strings.TrimSpace(action))
	}
	if !contains(actions, "allocate") {
		lacks("The action allocate is missing: the scheduler places no gang.", `Set actions: "enqueue, allocate, backfill".`)
	}
	for _, p := range []struct{ name, without string }{
		{"gang", "parts of a gang are placed, and wait for the rest while they hold their nodes"},
		{"predicates", "the scheduler minds neither taints nor node affinity: holds and quarantine do not keep pods away, and replacements are not placed at home"},
		{"network-topology-aware", "the scheduler does not mind HyperNodes: gangs are spread over the cluster"},
	} {
		if _, ok := s.plugin(p.name); !ok {
			lacks(fmt.Sprintf("The plugin %s is missing: %s.", p.name, p.without), "Add `- name: "+p.name+"` to the last of its tiers.")
		}
	}
	if args, ok := s.plugin("predicates"); ok {
		for _, key := range []string{"predicate.NodeAffinityEnable", "predicate.TaintTolerationEnable"} {
			if args[key] == false {
				lacks("The plugin predicates has "+key+": false. Lockstep confines pods by node affinity, and keeps them away by taints.", "Remove that argument.")
			}
		}
	}
	if s.cachesErrors() {
		lacks("The predicate error cache of the action allocate is on, as by default: of two replacements with different places neither is placed.",
			"Add `- name: allocate` with `arguments: {predicateErrorCacheEnable: false}` to `configurations`.")
	}
	return out
}

// cachesErrors reports whether the action allocate remembers per task which nodes did not fit. Volcano takes a boolean, and no
// string (GetBool in pkg/scheduler/framework/arguments.go).
func (s *schedulerConf) cachesErrors() bool {
	for _, configuration := range s.Configurations {
		if configuration.Name == "allocate" {
			return configuration.Arguments["predicateErrorCacheEnable"] != false
		}
	}
	return true
}
