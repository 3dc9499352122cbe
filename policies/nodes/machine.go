// Machines: what a node is, whatever Node object it has. A machine takes its quarantine along when it joins under another name.

package nodes

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// MachineOf returns the identity of a node's machine, which it keeps when it joins again; empty where nothing but its name is
// known. A cloud's controller sets the provider's ID before it lets pods onto the node.
func MachineOf(node *corev1.Node) string {
	return cmp.Or(node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID)
}

// QuarantinedMachines are the NodeHealths in quarantine whose machines are not, or no longer, the nodes of their names, by
// machine.
func QuarantinedMachines(f *Fleet) map[string]*v1alpha1.NodeHealth {
	found := map[string]*v1alpha1.NodeHealth{}
	for _, all := range [][]*v1alpha1.NodeHealth{f.Gone, f.Healths} {
		for _, h := range all {
			if Quarantined(h) && h.Status.Verdict.Machine != "" && f.Machines[h.Name] != h.Status.Verdict.Machine {
				found[h.Status.Verdict.Machine] = h
			}
		}
	}
	return found
}

// identify notes which machine a node is. The first time it takes over the quarantine of the name that the machine had before.
// A node in quarantine stays that of the machine that came into it.
func (t *triage) identify(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) {
	machine := t.Machines[h.Name]
	if machine == "" || machine == v.Machine || v.QuarantinedTime != nil {
		return
	}
	former := t.former[machine]
	if former != nil {
		*v = *former.Status.Verdict.DeepCopy()
		v.FormerNode, v.WellTime = former.Name, nil
	}
	v.Machine = machine
}

// inherited are the reports on a machine under its former name that still stand: its sources have not seen another boot, or
// another load of the driver, since, and nobody has acknowledged them.
func (t *triage) inherited(h *v1alpha1.NodeHealth) []v1alpha1.HealthReport {
	former := t.former[t.Machines[h.Name]]
	if former == nil {
		return nil
	}
	var out []v1alpha1.HealthReport
	for _, r := range former.Status.Reports {
		seen := h.Spec.AcknowledgedTime != nil && !r.Since.After(h.Spec.AcknowledgedTime.Time)
		if !seen && !beganAgain(sourceOf(former, r.Source), sourceOf(h, r.Source)) {
			out = append(out, r)
		}
	}
	return out
}

// beganAgain reports whether a source has told of another boot, or load of the driver, than before.
func beganAgain(before, now v1alpha1.HealthSource) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(before.BootID, now.BootID) || differ(before.DriverID, now.DriverID)
}

func sourceOf(h *v1alpha1.NodeHealth, name string) v1alpha1.HealthSource {
	for _, s := range h.Status.Sources {
		if s.Name == name {
			return s
		}
	}
	return v1alpha1.HealthSource{}
}
