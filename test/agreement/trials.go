// Trials: the failures that are made, and the jobs that meet them.

package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// trial is a job that meets a failure.
type trial struct {
	name         string // of the job
	what, policy string // in words
	effect       lab.Effect
	// ranks that are hit, by their order in the job. A process of theirs ends, their pod is deleted, or their node is lost.
	ranks []int
	// away is after how long a lost node is powered on again; zero for never.
	away time.Duration
	// before is how often the same failure comes before the one that is compared.
	before int
	// gang is the number of ranks, of a rack of four nodes.
	gang   int
	change []func(*v1alpha1.TrainingJob)
	// supervised is whether supervisors run the programs.
	supervised bool
}

// calibrations are the trials that the costs come from: a process exits, a pod is deleted, a node is lost.
func calibrations() []trial {
	return []trial{
		{name: "cost-exit", effect: lab.ProcessExit, ranks: []int{1}, gang: 3},
		{name: "cost-pod", effect: lab.PodLoss, ranks: []int{1}, gang: 3},
		{name: "cost-node", effect: lab.NodeLoss, ranks: []int{1}, gang: 3, change: changes(fenced)},
	}
}

// shared are the trials that both kinds of kubelets can play.
func shared() []trial {
	return []trial{
		{name: "exit", what: "a process exits", policy: "default", effect: lab.ProcessExit, ranks: []int{2}, gang: 3},
		{name: "exit-job", what: "a process exits", policy: "RestartJob", effect: lab.ProcessExit, ranks: []int{1}, gang: 3, change: changes(ladder(v1alpha1.RestartJob, 0))},
		{name: "exit-two", what: "two processes exit", policy: "RestartPod", effect: lab.ProcessExit, ranks: []int{0, 2}, gang: 3, change: changes(ladder(v1alpha1.RestartPod, 0))},
		{name: "exit-all", what: "all processes exit", policy: "default", effect: lab.ProcessExit, ranks: []int{0, 1, 2}, gang: 3},
		{name: "pod-task", what: "a pod is deleted", policy: "RestartTask", effect: lab.PodLoss, ranks: []int{2}, gang: 3, change: changes(ladder(v1alpha1.RestartTask, 0))},
		{name: "node-wait", what: "a node is lost", policy: "RestartPod after 10 s, fenced", effect: lab.NodeLoss, ranks: []int{1}, gang: 3, change: changes(fenced, ladder(v1alpha1.RestartPod, 10))},
		{name: "node-back", what: "a node is away for 20 s", policy: "RestartPod after 120 s", effect: lab.NodeLoss, ranks: []int{2}, away: 20 * time.Second, gang: 3, change: changes(ladder(v1alpha1.RestartPod, 120))},
		{name: "node-full", what: "a node is away for 40 s, and no other is free", policy: "default, fenced, no node excluded", effect: lab.NodeLoss, ranks: []int{1}, away: 40 * time.Second, gang: 4, change: changes(fenced, mayReturn)},
	}
}

func simulatedTrials() []trial {
	return append(shared(),
		trial{name: "never-wait", what: "a process exits, template Never", policy: "RestartPod after 10 s", effect: lab.ProcessExit, ranks: []int{1}, gang: 3, change: changes(never, ladder(v1alpha1.RestartPod, 10))},
		trial{name: "node-gone", what: "a node is deleted", policy: "default", effect: lab.NodeDeletion, ranks: []int{1}, gang: 3},
	)
}

func realTrials() []trial {
	return append(shared(),
		trial{name: "exit-again", what: "a process exits for the second time", policy: "default", effect: lab.ProcessExit, ranks: []int{1}, before: 1, gang: 3},
		trial{name: "node", what: "a node is lost", policy: "default, fenced", effect: lab.NodeLoss, ranks: []int{0}, gang: 3, change: changes(fenced)},
		trial{name: "program", what: "a program ends under its supervisor", policy: "default", effect: lab.ProcessExit, ranks: []int{1}, gang: 3, supervised: true},
		trial{name: "program-node", what: "a node is lost, with supervisors", policy: "default, fenced", effect: lab.NodeLoss, ranks: []int{2}, gang: 3, change: changes(fenced), supervised: true},
	)
}

func changes(all ...func(*v1alpha1.TrainingJob)) []func(*v1alpha1.TrainingJob) { return all }

// ladder gives a job one rule of one step.
func ladder(action v1alpha1.Action, afterSeconds int32) func(*v1alpha1.TrainingJob) {
	return func(j *v1alpha1.TrainingJob) {
		policyOf(j).Rules = []v1alpha1.Rule{{
			Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: action, AfterSeconds: afterSeconds}},
		}}
	}
}

// fenced counts the pod of a silent node as dead early, as for a program that fences its checkpoints.
func fenced(j *v1alpha1.TrainingJob) {
	policyOf(j).UnreachableNode = &v1alpha1.UnreachableNode{
		Policy: v1alpha1.ForceDelete, AfterSeconds: new(int32(5)), GangDownAfterSeconds: new(int32(1)),
	}
}

// mayReturn lets ranks return to a node that was lost.
func mayReturn(j *v1alpha1.TrainingJob) { policyOf(j).ExcludeNodeSeconds = new(int32(0)) }

// never has the kubelet restart nothing in place.
func never(j *v1alpha1.TrainingJob) {
	for i := range j.Spec.Tasks {
		j.Spec.Tasks[i].Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
}

func policyOf(j *v1alpha1.TrainingJob) *v1alpha1.RestartPolicy {
	if j.Spec.RestartPolicy == nil {
		j.Spec.RestartPolicy = &v1alpha1.RestartPolicy{}
	}
	return j.Spec.RestartPolicy
}

// hit are the ranks of a job that a trial hits.
func (t *trial) hit(job *v1alpha1.TrainingJob) []gang.Rank {
	all := ranksOf(job)
	var out []gang.Rank
	for _, i := range t.ranks {
		out = append(out, all[i])
	}
	return out
}

func ranksOf(job *v1alpha1.TrainingJob) []gang.Rank {
	var all []gang.Rank
	gang.EachRank(job, func(r gang.Rank) { all = append(all, r) })
	return all
}
