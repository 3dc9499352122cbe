// What fuzzing makes of its bytes, continued: the status of a job, and its world.

package policies

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// observation draws a job and its world.
func (d *dice) observation() *gang.Observation {
	o := &aScene(jobWrapper{d.job()}).Observation
	if d.roll(4) > 0 {
		o.Job.Status = d.status()
	}
	o.Pods = some(d, 8, d.pod)
	o.VolcanoJobs = some(d, 3, func(i int) gang.VolcanoJob {
		v := gang.VolcanoJob{Name: gang.VolcanoJobName(o.Job, int32(i)), Attempt: int32(i), Deleting: d.yes(), Stopping: d.yes(), Ended: d.yes(), Succeeded: d.roll(4) == 3, Size: gang.SizeOf(o.Job)}
		v.Size.MinAvailable += d.odd(3)
		return v
	})
	if d.yes() {
		o.PodGroup = &gang.PodGroup{Name: "pg", Pending: d.yes()}
	}
	for range d.roll(6) {
		name := d.node()
		if d.yes() {
			delete(o.Nodes, name)
			continue
		}
		n := gang.Node{Name: name, Hostname: one(d, "host-"+name, ""), Ready: d.yes(), Unschedulable: d.yes(), OutOfService: d.yes(), Hold: one(d, "", "standing", "x", "12")}
		if d.yes() {
			n.SilentSince = d.when()
		}
		o.Nodes[name] = n
	}
	switch d.roll(6) {
	case 5:
		o.Topology = nil
	case 4:
		o.Topology = topology.New(nil)
	}
	o.Refused = one(d, "", "", "no")
	for i := range o.Job.Status.Incidents {
		inc := &o.Job.Status.Incidents[i]
		if d.yes() {
			inc.Checkpoint = d.checkpoint()
		}
		for range d.roll(4) {
			if o.Answers == nil {
				o.Answers = map[gang.AnswerKey]gang.Answer{}
			}
			o.Answers[gang.AnswerKey{Request: incident.RequestID(o.Job, inc), Pod: fmt.Sprint(d.roll(8))}] = gang.Answer{Saved: d.yes(), Refused: d.yes(), Message: one(d, "", "refused")}
		}
	}
	d.supervise(o)
	return o
}

func (d *dice) pod(i int) gang.Pod {
	p := gang.Pod{
		Name: fmt.Sprintf("llm-1-%s-%d", d.task(), i), UID: fmt.Sprint(i), Task: one(d, "head", "worker", "worker", "nobody"), Index: d.odd(6), Attempt: d.odd(3),
		Spare: d.roll(4) == 3, Node: d.node(), Phase: one(d, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded, corev1.PodUnknown),
		Ready: d.yes(), WasReady: d.yes(), Incarnation: d.odd(4), CreatedTime: d.when(), PlacedTime: d.when(), Deleting: d.roll(4) == 3,
		Disrupted: one(d, "", "", "EvictionByEvictionAPI", corev1.PodReasonPreemptionByScheduler), Failure: d.failed(),
	}
	p.IP = one(d, "", "10.0.0.1")
	if p.Node == "" {
		p.Gated, p.Unschedulable = d.yes(), d.yes()
	}
	p.Signals = some(d, 2, func(int) gang.Signal { return gang.Signal{Name: one(d, "XID79", ""), Failed: d.yes()} })
	return p
}

func (d *dice) checkpoint() *v1alpha1.IncidentCheckpoint {
	c := &v1alpha1.IncidentCheckpoint{RequestTime: d.micro(), Deadline: d.micro(), Pods: d.odd(6), Answered: d.odd(6)}
	if d.yes() {
		c.Outcome = one(d, v1alpha1.CheckpointSaved, v1alpha1.CheckpointTimedOut, v1alpha1.CheckpointCancelled)
	}
	if d.yes() {
		c.EndTime = new(d.micro())
	}
	return c
}

// status draws one that somebody may have written, be it by hand.
func (d *dice) status() v1alpha1.TrainingJobStatus {
	s := v1alpha1.TrainingJobStatus{Attempt: int32(d.roll(4)), StartTime: new(d.time())}
	s.Tasks = some(d, 3, func(int) v1alpha1.TaskStatus {
		return v1alpha1.TaskStatus{
			Name: d.task(), Replicas: d.odd(6), Shrunk: d.odd(4), Ready: d.odd(4), Incarnation: d.odd(4),
			Ranks: some(d, 3, func(i int) v1alpha1.RankStatus {
				set := v1alpha1.RankStatus{Indexes: one(d, "0", "1-2", "0,2-4", "x", ""), Incarnation: d.odd(6)}
				if d.roll(4) == 3 {
					set.Indexes, set.Index = "", int32(i)+d.odd(2)
				}
				return set
			}),
			ChargedTimes: some(d, 3, func(int) metav1.Time { return d.time() }),
		}
	})
	if d.yes() {
		s.Placement = d.placement()
	}
	s.Restarts = v1alpha1.Restarts{Total: d.odd(4), Charged: d.odd(3), ChargedTimes: some(d, 3, func(int) metav1.Time { return d.time() })}
	s.Incidents = some(d, 4, d.incident)
	s.ExcludedNodes = some(d, 3, func(int) v1alpha1.ExcludedNode {
		return v1alpha1.ExcludedNode{Name: d.node(), Hostname: one(d, "", "host-n00"), Until: d.time(), Incident: d.odd(4)}
	})
	s.LeftHyperNodes = some(d, 2, func(int) v1alpha1.LeftHyperNode {
		return v1alpha1.LeftHyperNode{Name: one(d, "rack-a", "rack-b", "spine", "gone"), Until: d.time()}
	})
	s.Holds = some(d, 2, func(int) v1alpha1.NodeHold { return v1alpha1.NodeHold{Node: d.node(), Until: new(d.time())} })
	s.Conditions = some(d, 3, func(int) metav1.Condition {
		return metav1.Condition{
			Type:   one(d, v1alpha1.ConditionScheduled, v1alpha1.ConditionRunning, v1alpha1.ConditionSuspended, v1alpha1.ConditionFailed, v1alpha1.ConditionCompleted),
			Status: one(d, metav1.ConditionTrue, metav1.ConditionFalse), LastTransitionTime: d.time(),
		}
	})
	return s
}

func (d *dice) placement() *v1alpha1.Placement {
	p := &v1alpha1.Placement{HyperNode: one(d, "rack-a", "rack-b", "spine", "gone", "")}
	if d.yes() {
		p.Tier = new(d.odd(4))
	}
	p.Tasks = some(d, 3, func(int) v1alpha1.TaskPlacement {
		return v1alpha1.TaskPlacement{
			Name: d.task(), Nodes: some(d, 5, func(int) string { return d.node() }),
			Partitions: some(d, 3, func(int) v1alpha1.PartitionPlacement {
				return v1alpha1.PartitionPlacement{HyperNode: one(d, "", "rack-a", "gone")}
			}),
		}
	})
	return p
}

func (d *dice) incident(i int) v1alpha1.Incident {
	inc := v1alpha1.Incident{
		ID: int32(i) + d.odd(3), Trigger: d.event(), Class: d.class(), Rule: one(d, "r0", "r1", "everything-else", "gone", ""), PolicyTask: d.task(),
		PodCount: d.odd(5), Charged: d.yes(), StartTime: d.micro(),
	}
	inc.Pods = some(d, 3, func(int) v1alpha1.IncidentPod {
		return v1alpha1.IncidentPod{Name: one(d, "llm-1-worker-0", "llm-1-head-0", ""), UID: one(d, "", "0", "1"), Task: d.task(), Index: d.odd(6), Node: d.node()}
	})
	inc.Steps = some(d, 4, func(int) v1alpha1.FiredStep {
		return v1alpha1.FiredStep{Action: d.action(), Index: d.odd(6), Time: d.micro(), DryRun: d.yes()}
	})
	if d.yes() {
		inc.EndTime, inc.Outcome = new(d.micro()), one(d, v1alpha1.OutcomeRecovered, v1alpha1.OutcomeFailed, v1alpha1.OutcomeCancelled)
	}
	return inc
}
