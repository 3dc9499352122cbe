// Node conditions: what other tools say of a node's health, as reports of a source each.

package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

const (
	// entityNode is what a condition of a node concerns: all of it.
	entityNode = "node"
	// noCondition is said of a source that has gone silent.
	noCondition = "the Node object has no such condition"
	// maxSignal and maxReportMessage are the API's limits, in bytes.
	maxSignal, maxReportMessage = 63, 1024
)

// WithConditions is a NodeHealth with the entries that the conditions of its node give.
// It is the same object where it has them already, in whatever order, and nil where there is
// none and needs none.
func WithConditions(h *v1alpha1.NodeHealth, node *corev1.Node, spec *v1alpha1.HealthPolicySpec) *v1alpha1.NodeHealth {
	var was, is v1alpha1.NodeHealthStatus
	if h != nil {
		was = nodeConditionEntries(&h.Status)
	}
	if len(spec.NodeConditions)+len(was.Sources)+len(was.Reports) == 0 {
		return h
	}
	for i := range spec.NodeConditions {
		from := &spec.NodeConditions[i]
		at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return string(c.Type) == from.Type })
		switch {
		case at >= 0:
			addCondition(&is, &was, from, &node.Status.Conditions[at])
		case reportsAs(&was, v1alpha1.SourceNodeCondition+from.Type): // a new Node object has none yet: that clears nothing
			addCondition(&is, &was, from, &corev1.NodeCondition{Status: corev1.ConditionUnknown, Message: noCondition})
		}
	}
	is = nodeConditionEntries(&is)
	if equality.Semantic.DeepEqual(was, is) {
		return h
	}
	out := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if h != nil {
		out = h.DeepCopy()
	}
	to := &out.Status
	to.Sources = append(slices.DeleteFunc(to.Sources, func(s v1alpha1.HealthSource) bool { return isNodeCondition(s.Name) }), is.Sources...)
	to.Reports = append(slices.DeleteFunc(to.Reports, func(r v1alpha1.HealthReport) bool { return isNodeCondition(r.Source) }), is.Reports...)
	return out
}

// reportsAs reports whether a source has entries.
func reportsAs(of *v1alpha1.NodeHealthStatus, source string) bool {
	return slices.ContainsFunc(of.Sources, func(s v1alpha1.HealthSource) bool { return s.Name == source }) ||
		slices.ContainsFunc(of.Reports, func(r v1alpha1.HealthReport) bool { return r.Source == source })
}

// nodeConditionEntries are the entries that conditions of a node gave, by source.
func nodeConditionEntries(of *v1alpha1.NodeHealthStatus) v1alpha1.NodeHealthStatus {
	var out v1alpha1.NodeHealthStatus
	for i := range of.Sources {
		if isNodeCondition(of.Sources[i].Name) {
			out.Sources = append(out.Sources, of.Sources[i])
		}
	}
	for i := range of.Reports {
		if isNodeCondition(of.Reports[i].Source) {
			out.Reports = append(out.Reports, of.Reports[i])
		}
	}
	slices.SortFunc(out.Sources, func(a, b v1alpha1.HealthSource) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Reports, func(a, b v1alpha1.HealthReport) int { return cmp.Compare(a.Source, b.Source) })
	return out
}

// addCondition adds the entries of one condition. One that is Unknown clears nothing.
func addCondition(to, was *v1alpha1.NodeHealthStatus, from *v1alpha1.NodeConditionSource, c *corev1.NodeCondition) {
	source := v1alpha1.HealthSource{Name: v1alpha1.SourceNodeCondition + from.Type, State: v1alpha1.HealthHealthy}
	switch string(c.Status) {
	case cmp.Or(from.BadStatus, string(corev1.ConditionTrue)):
		to.Reports = append(to.Reports, v1alpha1.HealthReport{
			Source: source.Name, Entity: entityNode, Signal: signalOf(from), State: cmp.Or(from.State, v1alpha1.HealthStateDegraded),
			Since: c.LastTransitionTime, Message: cut(fmt.Sprintf("%s: %s", c.Reason, c.Message), maxReportMessage),
		})
	case string(corev1.ConditionUnknown):
		source.State, source.Message = v1alpha1.HealthUnknown, cut(c.Message, maxReportMessage)
		for _, r := range was.Reports {
			if r.Source == source.Name {
				to.Reports = append(to.Reports, r)
			}
		}
	}
	to.Sources = append(to.Sources, source)
}

// isNodeCondition reports whether this file writes the entries of a source.
func isNodeCondition(source string) bool {
	return strings.HasPrefix(source, v1alpha1.SourceNodeCondition)
}

func signalOf(from *v1alpha1.NodeConditionSource) string {
	if from.Signal != "" {
		return from.Signal
	}
	return cut(from.Type[strings.LastIndex(from.Type, "/")+1:], maxSignal)
}

// cut shortens a text to a number of bytes, between two letters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
