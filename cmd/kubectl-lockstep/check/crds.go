package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/config"
)

// What to do about CRDs. Those of Lockstep come with the manager: Helm takes none over that kubectl apply has created.
const (
	installLockstep = "Install Lockstep: docs/operators.md says how, with Helm or with kubectl. Either brings the CRDs."
	alignLockstep   = "Use the plugin of the manager's version. If that differs, too, install the manager and CRDs again (docs/operators.md)."
	upgradeVolcano  = "Install the CRDs of Volcano 1.14: they are in its chart, and in config/crd/volcano/bases of its repository."
)

// wanted is a version of a CRD that Lockstep uses, and its fields.
type wanted struct {
	name, version string
	fields        fields
}

// shippedCRDs are the CRDs that this plugin was built with.
var shippedCRDs = sync.OnceValue(func() []apiextensionsv1.CustomResourceDefinition {
	crds, err := config.CRDs()
	utilruntime.Must(err) // they are embedded, and a test parses them
	return crds
})

// volcanoNeeds are the CRDs of Volcano, with the fields that Lockstep uses.
var volcanoNeeds = []wanted{
	{"jobs.batch.volcano.sh", "v1alpha1", fields{"spec.networkTopology": "", "spec.tasks[].partitionPolicy.minPartitions": ""}},
	{"commands.bus.volcano.sh", "v1alpha1", nil},
	{"podgroups.scheduling.volcano.sh", "v1beta1", fields{"spec.networkTopology": "", "spec.subGroupPolicy": ""}},
	{"queues.scheduling.volcano.sh", "v1beta1", fields{"status.state": ""}},
	{"hypernodes.topology.volcano.sh", "v1alpha1", fields{"spec.members[].selector.labelMatch": "", "status.conditions": ""}},
}

// lockstepCRDs compares the cluster's CRDs of Lockstep with those that this plugin was built with.
func lockstepCRDs(c *Cluster, r *Result) {
	var want []wanted
	for _, crd := range shippedCRDs() {
		for _, v := range crd.Spec.Versions {
			want = append(want, wanted{crd.Name, v.Name, fieldsOf(v.Schema)})
		}
	}
	r.crds(c, want, installLockstep, r.skew)
}

// volcanoCRDs looks for what Lockstep uses of Volcano's API.
func volcanoCRDs(c *Cluster, r *Result) {
	r.crds(c, volcanoNeeds, upgradeVolcano, func(subject string, needed, theirs fields) {
		if missing := needed.without(theirs); len(missing) > 0 {
			what := "It is of an older Volcano: the API server drops " + strings.Join(missing, " and ") + ", which Lockstep writes or reads."
			r.problem(subject, what, upgradeVolcano)
		}
	})
}

// crds looks for CRDs, and compares their fields with those of the cluster.
func (r *Result) crds(c *Cluster, want []wanted, install string, compare func(subject string, ours, theirs fields)) {
	var absent []string
	for _, w := range want {
		at := slices.IndexFunc(c.CRDs.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == w.name })
		if at < 0 {
			absent = append(absent, w.name)
			continue
		}
		r.served(&c.CRDs.Items[at], w.version, install)
		if schema, err := apihelpers.GetSchemaForVersion(&c.CRDs.Items[at], w.version); err == nil {
			compare("CRD/"+w.name, w.fields, fieldsOf(schema))
		}
	}
	r.Saw = lines.Count(len(want), "CRD")
	if len(absent) > 0 {
		r.Saw = fmt.Sprintf("%d of %s", len(want)-len(absent), r.Saw)
		r.problem("CRD/"+absent[0], countAre(len(absent), "CRD")+" not installed: "+some(absent)+".", install)
	}
}

// served finds why a version of a CRD cannot be used.
func (r *Result) served(crd *apiextensionsv1.CustomResourceDefinition, version, install string) {
	subject := "CRD/" + crd.Name
	switch {
	case crd.DeletionTimestamp != nil:
		r.problem(subject, "It is being deleted, and every object of it with it.",
			"Wait until it is gone, or find the finalizer that it waits for. Then install it again.", "kubectl get crd "+crd.Name+" -o yaml")
	case !apihelpers.HasServedCRDVersion(crd, version):
		r.problem(subject, "Version "+version+", which Lockstep uses, is not served.", install)
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		r.problem(subject, "The API server has not established it: its condition Established or NamesAccepted says why.",
			"Solve what its conditions say.", "kubectl describe crd "+crd.Name)
	}
}

// skew finds how the fields of a CRD of Lockstep differ from those that this plugin knows.
func (r *Result) skew(subject string, ours, theirs fields) {
	missing, added := ours.without(theirs), theirs.without(ours)
	var changed []string
	for path, rules := range ours {
		if other, ok := theirs[path]; ok && other != rules {
			changed = append(changed, cmp.Or(path, "the whole object"))
		}
	}
	switch {
	case len(missing) > 0 && len(added) > 0:
		r.problem(subject, "It is of another version than this plugin: it lacks "+some(missing)+", and adds "+some(added)+".", alignLockstep)
	case len(missing) > 0:
		r.problem(subject, "It is older than this plugin: the API server drops "+some(missing)+" silently.", alignLockstep)
	case len(added) > 0:
		r.warning(subject, "It is newer than this plugin, which does not know "+some(added)+".", "Use the plugin of its version.")
	case len(changed) > 0:
		r.warning(subject, "It validates otherwise than this plugin's version: "+some(changed)+".", alignLockstep)
	}
}

// fields are the fields of a schema: the rules by which each is validated and defaulted, as JSON, by its path, such as
// spec.tasks[].name.
type fields map[string]string

func fieldsOf(v *apiextensionsv1.CustomResourceValidation) fields {
	out := fields{}
	if v != nil {
		out.collect("", v.OpenAPIV3Schema)
	}
	return out
}

func (f fields) collect(path string, s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	for name, child := range s.Properties {
		f.collect(strings.TrimPrefix(path+"."+name, "."), &child)
	}
	if s.Items != nil {
		f.collect(path+"[]", s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		f.collect(path+"{}", s.AdditionalProperties.Schema)
	}
	rules := *s
	rules.Description, rules.Properties, rules.Items, rules.AdditionalProperties = "", nil, nil, nil
	raw, _ := json.Marshal(rules) // a default that is no JSON has no rules
	f[path] = string(raw)
}

// without are the fields that others lack. Of a field that is missing, those below it are not named.
func (f fields) without(others fields) []string {
	lacks := func(path string) bool { _, has := others[path]; return !has }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f)), func(path string) bool {
		parent := path[:max(0, strings.LastIndexAny(path, ".[{"))]
		_, known := f[parent]
		return !lacks(path) || known && lacks(parent)
	})
}
