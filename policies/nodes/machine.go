// Machines: what a node is, whatever Node object it has. A machine takes its quarantine along when it joins under another name.

package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// MachineOf returns the identity of a node's machine, which it keeps when it joins again; empty where nothing but its name is
// known. A cloud's controller sets the provider's ID before it lets pods onto the node.
func MachineOf(node *corev1.Node) string {
	if ids := idsOf(node); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// idsOf are the IDs of a node's machine, the better one first.
func idsOf(node *corev1.Node) []string {
	ids := slices.Compact([]string{node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID})
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// MachinesOf returns the IDs of the machine of each node, by the node's name, the better one first. An ID that several nodes carry, as
// the UUID of a cloned virtual machine, identifies none.
func MachinesOf(all []corev1.Node) map[string][]string {
	machines, carriers := make(map[string][]string, len(all)), make(map[string]int, len(all))
	for i := range all {
		machines[all[i].Name] = idsOf(&all[i])
		for _, id := range machines[all[i].Name] {
			carriers[id]++
		}
	}
	for name, ids := range machines {
		machines[name] = slices.DeleteFunc(ids, func(id string) bool { return carriers[id] > 1 })
	}
	return machines
}

// Former are NodeHealths in quarantine whose machines are not, or no longer, the nodes of their names, by machine.
type Former map[string]*v1alpha1.NodeHealth

// Of returns the NodeHealth of a machine with these IDs; nil for none.
func (m Former) Of(ids []string) *v1alpha1.NodeHealth {
	for _, id := range ids {
		if h := m[id]; h != nil {
			return h
		}
	}
	return nil
}

// QuarantinedMachines returns the NodeHealths in quarantine that may be those of machines with other names.
func QuarantinedMachines(f *Fleet) Former {
	found := Former{}
	for _, all := range [][]*v1alpha1.NodeHealth{f.Gone, f.Healths} {
		for _, h := range all {
			if Quarantined(h) && h.Status.Verdict.Machine != "" && !slices.Contains(f.Machines[h.Name], h.Status.Verdict.Machine) && !endedElsewhere(f, h) {
				found[h.Status.Verdict.Machine] = h
			}
		}
	}
	return found
}

// endedElsewhere reports whether a machine has taken its quarantine along to another name, and it has ended there.
func endedElsewhere(f *Fleet, former *v1alpha1.NodeHealth) bool {
	ended := func(h *v1alpha1.NodeHealth) bool {
		v := h.Status.Verdict
		return v != nil && v.FormerNode == former.Name && v.Machine == former.Status.Verdict.Machine && v.QuarantinedTime == nil
	}
	return slices.ContainsFunc(f.Healths, ended) || slices.ContainsFunc(f.Gone, ended)
}

// identify notes which machine a node is. The first time it takes over the quarantine of the name that the machine had before.
// A node in quarantine stays that of the machine that came into it, and takes a better ID of that machine, or its first one, when
// that becomes known.
func (t *triage) identify(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) {
	ids, quarantined := t.Machines[h.Name], v.QuarantinedTime != nil
	same := slices.Contains(ids, v.Machine) || quarantined && v.Machine == ""
	if quarantined && (len(ids) == 0 || !same) {
		return
	}
	if former := t.former.Of(ids); !same && former != nil {
		*v = *former.Status.Verdict.DeepCopy()
		v.FormerNode, v.WellTime = former.Name, nil
	}
	v.Machine = ""
	if len(ids) > 0 {
		v.Machine = ids[0]
	}
}

// inherited are the reports on a machine under its former name that still stand, while its quarantine lasts: their sources have said
// nothing since that ends them, and nobody has acknowledged them.
func (t *triage) inherited(h *v1alpha1.NodeHealth, v *v1alpha1.HealthVerdict) []v1alpha1.HealthReport {
	former := t.former.Of(t.Machines[h.Name])
	if former == nil || v.QuarantinedTime == nil {
		return nil
	}
	var out []v1alpha1.HealthReport
	for _, r := range former.Status.Reports {
		seen := h.Spec.AcknowledgedTime != nil && !r.Since.After(h.Spec.AcknowledgedTime.Time)
		if !seen && !overtaken(former, h, r) {
			out = append(out, r)
		}
	}
	return out
}

// overtaken reports whether the source of a report on a machine under its former name has said enough under its new name. One that
// tells of boots remembers faults that only a boot ends, and does not know those of the former name: it has to tell of another boot.
// What any other says now counts, if it can tell. If the fault is still there, that is a report of the new name.
func overtaken(former, h *v1alpha1.NodeHealth, r v1alpha1.HealthReport) bool {
	before, now := sourceOf(former, r.Source), sourceOf(h, r.Source)
	if beganAgain(before, now) || before.BootID != "" {
		return beganAgain(before, now)
	}
	return now.State == v1alpha1.HealthHealthy && (isNodeCondition(r.Source) || saidAfter(h, now, before, r.Since))
}

// saidAfter reports whether a source has said something of a node after a report and its last heartbeat under another name. A source
// without heartbeats has not said anything before its NodeHealth was created.
func saidAfter(h *v1alpha1.NodeHealth, now, before v1alpha1.HealthSource, report metav1.Time) bool {
	said := h.CreationTimestamp
	if now.HeartbeatTime != nil {
		said = *now.HeartbeatTime
	}
	for _, r := range h.Status.Reports {
		if r.Source == now.Name && said.Before(&r.Since) {
			said = r.Since
		}
	}
	return said.After(report.Time) && (before.HeartbeatTime == nil || said.After(before.HeartbeatTime.Time))
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
