// What is shown of a job when its test fails.

package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func (s *scenario) dump() string {
	var b strings.Builder
	status, err := yaml.Marshal(s.job.Status)
	if err != nil {
		return err.Error()
	}
	b.Write(status)
	for name, p := range s.pods() {
		fmt.Fprintf(&b, "%s node=%s phase=%s gates=%v deleting=%v\n", name, p.Spec.NodeName, p.Status.Phase, p.Spec.SchedulingGates, p.DeletionTimestamp)
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				fmt.Fprintf(&b, "    %s: %s\n", c.Reason, c.Message)
			}
		}
	}
	return b.String()
}
