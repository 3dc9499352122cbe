// The job that a map shows.

package fleetmap

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// Job is the job that a map shows.
type Job struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	State     v1alpha1.State `json:"state,omitempty"`
	// Homes are the HyperNodes that are home to it, or to a partition of it.
	Homes []string `json:"homes,omitempty"`
	// HoldKey is the key of the taint by which it holds nodes.
	HoldKey string `json:"holdKey"`
	// Tasks are its tasks, in order.
	Tasks []Task `json:"tasks"`
	// Spares are the nodes of its placeholders, and SparesWanted how many it asks for.
	Spares       []string `json:"spares,omitempty"`
	SparesWanted int32    `json:"sparesWanted,omitempty"`
	// Excluded are the nodes that it keeps away from.
	Excluded map[string]v1alpha1.ExcludedNode `json:"excluded,omitempty"`
}

// Task is a task of the job.
type Task struct {
	Name string `json:"name"`
	// Nodes are those of the pods of its ranks, by index; empty where a rank has none.
	Nodes []string `json:"nodes"`
}

func (j *Job) title() string {
	return fmt.Sprintf("TrainingJob %s/%s: %s", j.Namespace, j.Name, cmp.Or(string(j.State), "no state yet"))
}

// JobOf is a job with its pods, as the map shows it.
func JobOf(job *v1alpha1.TrainingJob, pods []corev1.Pod) *Job {
	out := &Job{
		Namespace: job.Namespace, Name: job.Name, State: job.Status.State, HoldKey: policies.HoldKey(job), SparesWanted: gang.Spares(job), Excluded: map[string]v1alpha1.ExcludedNode{},
	}
	for _, x := range job.Status.ExcludedNodes {
		out.Excluded[x.Name] = x
	}
	if p := job.Status.Placement; p != nil {
		out.Homes = append(out.Homes, p.HyperNode)
		for _, t := range p.Tasks {
			for _, part := range t.Partitions {
				out.Homes = append(out.Homes, part.HyperNode)
			}
		}
		out.Homes = slices.DeleteFunc(out.Homes, func(name string) bool { return name == "" }) // nodes that no HyperNode holds
	}
	byTask := map[string][]string{}
	for i := range job.Spec.Tasks {
		t := &job.Spec.Tasks[i]
		byTask[t.Name] = make([]string, t.Replicas)
		out.Tasks = append(out.Tasks, Task{Name: t.Name, Nodes: byTask[t.Name]})
	}
	for i := range pods {
		p := &pods[i]
		index, err := strconv.ParseInt(p.Annotations[batch.TaskIndex], 10, 32)
		r := gang.RankOf(&job.Status, gang.Rank{Task: p.Labels[batch.TaskSpecKey], Index: int32(index)})
		nodes, isRank := byTask[r.Task]
		switch {
		case p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		case !isRank && strings.HasSuffix(r.Task, v1alpha1.SpareSuffix):
			out.Spares = append(out.Spares, p.Spec.NodeName)
		case err == nil && gang.Within(r.Index, nodes):
			nodes[r.Index] = p.Spec.NodeName
		}
	}
	return out
}
