package check

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/lockstep-dev/lockstep/config"
)

// What to do about Lockstep's CRDs. They come with the manager: Helm takes none over that kubectl apply has created.
const (
	installLockstep = "Install Lockstep: docs/operators.md says how, with Helm or with kubectl. Either brings the CRDs."
	alignLockstep   = "Use the plugin of the manager's version. If that finds a difference, too, install the manager's version again (docs/operators.md): that brings the CRDs up to date."
)

// shippedCRDs are the CRDs that this plugin was built with.
var shippedCRDs = sync.OnceValue(func() []apiextensionsv1.CustomResourceDefinition {
	crds, err := config.CRDs()
	if err != nil {
		panic(err) // they are embedded, and a test parses them
	}
	return crds
})

// lockstepCRDs compares the cluster's CRDs of Lockstep with those that this plugin was built with.
func lockstepCRDs(c *Cluster) (string, []Finding) {
	known := shippedCRDs()
	var out []Finding
	var absent []string
	for i := range known {
		ours := &known[i]
		theirs := c.crd(ours.Name)
		if theirs == nil {
			absent = append(absent, ours.Name)
			continue
		}
		for _, v := range ours.Spec.Versions {
			out = append(out, served(theirs, v.Name, installLockstep, "")...)
			if at := versionOf(theirs, v.Name); at != nil {
				out = append(out, skew(ours.Name, &v, at)...)
			}
		}
	}
	if len(absent) > 0 {
		out = append(out, Finding{
			Severity: Problem, Subject: "CRD/" + absent[0], What: countAre(len(absent), "CRD") + " not installed: " + some(absent) + ".", Fix: installLockstep,
		})
	}
	return present(len(known), len(absent)), out
}

// present says how many of some CRDs there are.
func present(known, absent int) string {
	if absent == 0 {
		return count(known, "CRD")
	}
	return fmt.Sprintf("%d of %s", known-absent, count(known, "CRD"))
}

// skew compares the schema of one version with the cluster's.
func skew(name string, ours, theirs *apiextensionsv1.CustomResourceDefinitionVersion) []Finding {
	d := compare(ours.Schema, theirs.Schema)
	f := Finding{Severity: Problem, Subject: "CRD/" + name}
	switch {
	case len(d.missing) > 0 && len(d.added) == 0:
		f.What = fmt.Sprintf("It is older than this plugin: the API server drops %s without a word.", some(d.missing))
		f.Fix = alignLockstep
	case len(d.added) > 0 && len(d.missing) == 0:
		f.Severity, f.What = Warning, fmt.Sprintf("It is newer than this plugin, which does not know %s.", some(d.added))
		f.Fix = "Use the plugin of the version that is installed."
	case len(d.missing) > 0:
		f.What = fmt.Sprintf("It is of another version than this plugin: it lacks %s, and adds %s.", some(d.missing), some(d.added))
		f.Fix = alignLockstep
	case len(d.changed) > 0:
		f.Severity, f.What = Warning, fmt.Sprintf("It validates otherwise than this plugin's version: %s.", some(d.changed))
		f.Fix = alignLockstep
	default:
		return nil
	}
	return []Finding{f}
}

// volcanoCRD is a CRD of Volcano, with the version and the fields that Lockstep uses.
type volcanoCRD struct {
	name, version string
	fields        []string
}

var volcanoNeeds = []volcanoCRD{
	{"jobs.batch.volcano.sh", "v1alpha1", []string{"spec.networkTopology", "spec.tasks[].partitionPolicy.minPartitions"}},
	{"commands.bus.volcano.sh", "v1alpha1", nil},
	{"podgroups.scheduling.volcano.sh", "v1beta1", []string{"spec.networkTopology", "spec.subGroupPolicy"}},
	{"queues.scheduling.volcano.sh", "v1beta1", []string{"status.state"}},
	{"hypernodes.topology.volcano.sh", "v1alpha1", []string{"spec.members[].selector.labelMatch", "status.conditions"}},
}

// upgradeVolcano is what to do about CRDs of Volcano.
const upgradeVolcano = "Install the CRDs of Volcano 1.14: they are in its chart, and in config/crd/volcano/bases of its repository."

// volcanoCRDs looks for what Lockstep uses of Volcano's API.
func volcanoCRDs(c *Cluster) (string, []Finding) {
	var out []Finding
	var absent []string
	for _, need := range volcanoNeeds {
		crd := c.crd(need.name)
		if crd == nil {
			absent = append(absent, need.name)
			continue
		}
		out = append(out, served(crd, need.version, upgradeVolcano, "")...)
		v := versionOf(crd, need.version)
		if v == nil {
			continue
		}
		has := fieldsOf(v.Schema)
		missing := slices.DeleteFunc(slices.Clone(need.fields), func(f string) bool { _, ok := has[f]; return ok })
		if len(missing) > 0 {
			out = append(out, Finding{
				Severity: Problem, Subject: "CRD/" + need.name,
				What: fmt.Sprintf("It is of an older Volcano: the API server drops %s, which Lockstep writes or reads.", strings.Join(missing, " and ")), Fix: upgradeVolcano,
			})
		}
	}
	if len(absent) > 0 {
		out = append(out, Finding{
			Severity: Problem, Subject: "CRD/" + absent[0],
			What: fmt.Sprintf("%s not installed, and Lockstep stands on Volcano: %s.", countAre(len(absent), "CRD"), some(absent)), Fix: upgradeVolcano,
		})
	}
	return present(len(volcanoNeeds), len(absent)), out
}

// served finds why a version of a CRD cannot be used.
func served(crd *apiextensionsv1.CustomResourceDefinition, version, fix, command string) []Finding {
	f := Finding{Severity: Problem, Subject: "CRD/" + crd.Name, Fix: fix, Command: command}
	v := versionOf(crd, version)
	switch {
	case crd.DeletionTimestamp != nil:
		f.What = "It is being deleted, and every object of it with it."
		f.Fix, f.Command = "Wait until it is gone, or find the finalizer that it waits for. Then install it again.", "kubectl get crd "+crd.Name+" -o yaml"
	case v == nil || !v.Served:
		f.What = "Version " + version + ", which Lockstep uses, is not served."
	case !isEstablished(crd):
		f.What = "The API server has not established it: its condition Established or NamesAccepted says why."
		f.Fix, f.Command = "Solve what its conditions say.", "kubectl describe crd "+crd.Name
	default:
		return nil
	}
	return []Finding{f}
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
	})
}

// crd returns the CRD of a name, or nil.
func (c *Cluster) crd(name string) *apiextensionsv1.CustomResourceDefinition {
	for i := range c.CRDs.Items {
		if c.CRDs.Items[i].Name == name {
			return &c.CRDs.Items[i]
		}
	}
	return nil
}

func versionOf(crd *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == name {
			return &crd.Spec.Versions[i]
		}
	}
	return nil
}
