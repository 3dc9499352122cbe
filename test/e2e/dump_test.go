// What is shown of a job when its test fails.

package e2e

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/operator"
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
	b.WriteString(s.dumpScheduling())
	b.WriteString(s.dumpManager())
	return b.String()
}

// dumpManager returns what the manager has logged of the job.
func (s *scenario) dumpManager() string {
	log, err := os.ReadFile(testCluster.Component(operator.Name).LogPath())
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString("\nthe manager's log of the job:\n")
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, `"`+s.job.Name+`"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// dumpScheduling tells what the scheduler has to share out, and the end of its log.
func (s *scenario) dumpScheduling() string {
	var b strings.Builder
	nodes, queues, groups := &corev1.NodeList{}, &scheduling.QueueList{}, &scheduling.PodGroupList{}
	for _, list := range []client.ObjectList{nodes, queues, groups} {
		if err := testCluster.Client().List(s.ctx, list); err != nil {
			return err.Error()
		}
	}
	for _, n := range nodes.Items {
		if n.Labels[cluster.PoolLabel] == s.pool.Name {
			fmt.Fprintf(&b, "node %s, cordoned %t, taints %v, conditions %v\n", n.Name, n.Spec.Unschedulable, n.Spec.Taints, n.Status.Conditions)
		}
	}
	for _, q := range queues.Items {
		fmt.Fprintf(&b, "queue %s %s, capability %v, allocated %v\n", q.Name, q.Status.State, q.Spec.Capability, q.Status.Allocated)
	}
	for _, g := range groups.Items {
		fmt.Fprintf(&b, "PodGroup %s/%s in queue %s: %s, %d of at least %d run, asks for %v\n",
			g.Namespace, g.Name, g.Spec.Queue, g.Status.Phase, g.Status.Running, g.Spec.MinMember, g.Spec.MinResources)
	}
	fmt.Fprintf(&b, "the end of the scheduler's log:\n%s", testCluster.Log(cluster.VolcanoScheduler))
	return b.String()
}
