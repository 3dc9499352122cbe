// Tests of relocations: a home is left only where the rest has room for the whole job.

package policies

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// crowded is a job whose gang of four runs on the first nodes, and whose other replicas find none, so that it relocates.
func crowded(job jobWrapper, parts ...func(*scene)) *scene {
	job.Spec.MinAvailable = new(int32(4))
	s := aScene(job.policy(withRules(rule("no-room", on(v1alpha1.PodPending), step(v1alpha1.RelocateJob, 0)))))
	for _, part := range parts {
		part(s)
	}
	s.started()
	for i := range s.Pods {
		if i < 4 {
			s.bind(i, fmt.Sprintf("n%02d", i))
		} else {
			s.search(i)
		}
	}
	s.decide()
	s.after(31 * time.Second).decide()
	return s
}

// racksOfFour has three racks in place of two.
func racksOfFour(s *scene) {
	var racks []topology.HyperNode
	for i := range 3 {
		rack := topology.HyperNode{Name: fmt.Sprintf("rack-%d", i), Tier: 1}
		for n := range 4 {
			rack.Nodes = append(rack.Nodes, fmt.Sprintf("n%02d", 4*i+n))
		}
		racks = append(racks, rack)
	}
	all := slices.Concat(racks[0].Nodes, racks[1].Nodes, racks[2].Nodes)
	s.Topology = topology.New(append(racks, topology.HyperNode{Name: "spine", Tier: 2, Nodes: all}))
}

// A gang that is smaller than the job fits where the job does not.
func TestAHomeIsLeftWhereTheRestHasRoomForAllReplicas(t *testing.T) {
	workers := func(n int32) jobWrapper { return aJob().tasks(task("worker", n)) }
	tests := map[string]struct {
		job   jobWrapper
		parts []func(*scene)
		left  []string
	}{
		"room for all":                       {workers(6), nil, []string{"rack-a"}},
		"for the gang alone":                 {workers(7), nil, nil},
		"for two to a node":                  {workers(7), []func(*scene){func(s *scene) { s.Requests["worker"] = gpus(4) }}, []string{"rack-a"}},
		"for three halves to two nodes":      {workers(7), []func(*scene){func(s *scene) { s.Requests["worker"] = gpus(5) }}, nil},
		"a node is cordoned":                 {workers(6), []func(*scene){func(s *scene) { s.node("n11", func(n *gang.Node) { n.Unschedulable = true }) }}, nil},
		"in two racks":                       {workers(7), []func(*scene){racksOfFour}, []string{"rack-0"}},
		"in two racks, where it may use one": {workers(7).confined(1), []func(*scene){racksOfFour}, nil},
		"in another rack":                    {workers(6).confined(1), nil, []string{"rack-a"}},
		"for tasks that share nodes": {
			aJob().tasks(task("worker", 6), task("loader", 6)),
			[]func(*scene){func(s *scene) { s.Requests["loader"] = corev1.ResourceList{} }}, []string{"rack-a"},
		},
		"for one of two tasks": {aJob().tasks(task("head", 1), task("worker", 6)), nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := crowded(tc.job, tc.parts...)
			check.Equal(t, "fired", []string{"RelocateJob@0"}, s.fired(t))
			check.Equal(t, "left", tc.left, s.left())
		})
	}
}

// What a ShrinkTask step has given up comes back with the relocation, and needs room. A rank that has completed needs none.
func TestTheRoomForTheWholeJob(t *testing.T) {
	s := crowded(aJob().tasks(task("worker", 7, downTo(4))), func(s *scene) {
		s.Job.Spec.RestartPolicy.Rules[0].Steps = []v1alpha1.Step{{Action: v1alpha1.ShrinkTask}}
	})
	check.Equal(t, "shrunk", int32(3), s.status().Tasks[0].Shrunk)
	s.Job.Spec.RestartPolicy = policy(withRules(relocates))
	s.after(time.Minute).crash(0, 1)
	s.decide()
	check.Equal(t, "left", nil, s.left())

	s = crowded(aJob().tasks(task("worker", 7, func(t *v1alpha1.Task) { t.Independent = true })), func(s *scene) {
		s.status().Tasks = []v1alpha1.TaskStatus{{Name: "worker", CompletedIndexes: "0-1"}}
	})
	check.Equal(t, "left, with two completed", []string{"rack-a"}, s.left())
}
