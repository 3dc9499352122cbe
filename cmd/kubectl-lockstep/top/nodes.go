// Nodes: what the HyperNodes have left, and which nodes are ill.

package top

import (
	"bytes"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/nodelist"
	"github.com/lockstep-dev/lockstep/fit"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Nodes draws a line for each of the closest HyperNodes with what is in use and free there, and below them the nodes that are not well.
// In use are the nodes that the jobs of the snapshot were placed on: pods are not looked at.
func Nodes(s *Snapshot, fleet *fleetmap.Fleet, healths []v1alpha1.NodeHealth, gpus GPUs, screen Screen) string {
	seated := *fleet
	seated.Nodes = placed(fleet.Nodes, s.Jobs, gpus)
	report := fleetmap.ReportOf(&seated, nil)
	has, used := map[string]int64{}, map[string]int64{}
	var total, taken int64
	for i := range report.Nodes {
		n := &report.Nodes[i]
		has[n.HyperNode] += n.GPUs
		used[n.HyperNode] += n.GPUsUsed
		total, taken = total+n.GPUs, taken+n.GPUsUsed
	}
	var out bytes.Buffer
	t := report.Total
	headline(&out, fmt.Sprintf("%s UTC. Nodes: %d, of these free %d, in use %d, held and unused %d, in quarantine %d, not ready %d. GPUs in use: %d of %d.",
		s.Now.UTC().Format(time.TimeOnly), t.Nodes, t.Free, t.Used, t.Held-t.HeldInUse, t.Quarantined, t.NotReady, taken, total), screen)
	var rows []lines.Row
	for _, h := range report.HyperNodes {
		if _, closest := has[h.Name]; closest {
			rows = append(rows, lines.Row{Cells: append([]string{h.Name}, cells(h.Counts, used[h.Name], has[h.Name])...)})
		}
	}
	if len(rows) > 0 {
		lines.Table(&out, []string{"HYPERNODE", "NODES", "FREE", "USED", "HELD", "QUARANTINE", "DEGRADED", "NOT-READY", "GPUS"}, rows, screen.Width)
	}
	ill, err := nodelist.Of(&seated, healths, nodelist.Options{Unhealthy: true})
	if err == nil && len(ill.Nodes)+len(ill.Unread) > 0 {
		fmt.Fprintln(&out)
		nodelist.Print(&out, ill, screen.Width, s.Now)
	}
	return s.fitted(&out, screen)
}

func cells(c fleetmap.Counts, used, has int64) []string {
	var out []string
	for _, n := range []int{c.Nodes, c.Free, c.Used, c.Held, c.Quarantined, c.Degraded, c.NotReady} {
		text := "-"
		if n > 0 {
			text = fmt.Sprint(n)
		}
		out = append(out, text)
	}
	return append(out, fmt.Sprintf("%d/%d", used, has))
}

// placed are the nodes with the jobs on them.
func placed(nodes []fleetmap.Node, jobs []*v1alpha1.TrainingJob, gpus GPUs) []fleetmap.Node {
	byName := make(map[string]int, len(nodes))
	out := make([]fleetmap.Node, len(nodes))
	for i := range nodes {
		out[i], byName[nodes[i].Name] = nodes[i], i
	}
	for _, job := range jobs {
		if job.Status.Placement == nil || job.Spec.Suspend || gang.Finished(&job.Status) {
			continue
		}
		for _, task := range job.Status.Placement.Tasks {
			n := int64(0)
			for i := range job.Spec.Tasks {
				if job.Spec.Tasks[i].Name == task.Name {
					n = gpus(fit.Requests(fit.PodOf(&job.Spec.Tasks[i].Template)))
				}
			}
			for _, name := range task.Nodes {
				if i, known := byName[name]; known {
					out[i].Used, out[i].GPUsUsed = true, out[i].GPUsUsed+n
				}
			}
		}
	}
	return out
}
