package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/capacity"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// checkRoom refuses to move ranks that run where no other node of their home has room for one: they would wait, and their gang with
// them. A spare is such room for ranks of its own task. Who may not read nodes, or the pods of all namespaces, is not told.
func (c *cluster) checkRoom(ctx context.Context, job *v1alpha1.TrainingJob, ranks []gang.Rank) error {
	ranks = slices.DeleteFunc(slices.Clone(ranks), func(r gang.Rank) bool { return hasSpare(job, r.Task) })
	if len(ranks) == 0 {
		return nil
	}
	known := c.capacity(ctx, job)
	usage := capacity.NewUsage(nil)
	err := c.Each(ctx, &corev1.PodList{}, func(o runtime.Object) error {
		usage.Add(o.(*corev1.Pod))
		return nil
	}, running...)
	if err != nil || len(known.Nodes) == 0 {
		return nil //nolint:nilerr // The request does not need to know.
	}
	var left, names []string
	for _, r := range ranks {
		left = append(left, gang.NodeOf(job.Status.Placement, r))
		names = append(names, fmt.Sprintf("%s-%d", r.Task, r.Index))
	}
	if len(capacity.Elsewhere(job, left, known, usage)) > 0 {
		return nil
	}
	return fmt.Errorf("no other node of %s has room for %s now: it would wait for one, and the gang with it. --force moves it all the same, and --all the whole job to another HyperNode",
		homeOf(job), strings.Join(names, ", "))
}

// hasSpare reports whether a spare of a task holds a node.
func hasSpare(job *v1alpha1.TrainingJob, task string) bool {
	return slices.ContainsFunc(job.Spec.Tasks, func(t v1alpha1.Task) bool {
		return t.Name == task && gang.ReadySpares(&job.Status, &t) > 0
	})
}

// homeOf names where the ranks of a job stay.
func homeOf(job *v1alpha1.TrainingJob) string {
	if p := job.Status.Placement; p != nil && p.HyperNode != "" {
		return "HyperNode " + p.HyperNode
	}
	return "the cluster"
}
