package check

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestAgents(t *testing.T) {
	source := func(node int, change func(*v1alpha1.HealthSource)) func(*Cluster) {
		return func(c *Cluster) { change(&c.NodeHealths.Items[node].Status.Sources[0]) }
	}
	expect(t, map[string]change{
		"one that is silent": {source(1, func(s *v1alpha1.HealthSource) { s.HeartbeatTime = ago(16 * time.Minute) }), []string{
			"Problem NodeHealth/a-1: The health agents of 1 GPU node have been silent for more than 15m0s: a-1. Their health is Unknown.",
		}},
		"one that may be silent for longer": {func(c *Cluster) {
			source(1, func(s *v1alpha1.HealthSource) { s.HeartbeatTime = ago(16 * time.Minute) })(c)
			c.HealthPolicies.Items[0].Spec.SilentAfterSeconds = 3600
		}, nil},
		"one that never was": {func(c *Cluster) { c.NodeHealths.Items = c.NodeHealths.Items[1:] }, []string{
			"Problem NodeHealth/a-0: No health agent has reported on 1 GPU node: a-0.",
		}},
		"those that DCGM does not answer": {func(c *Cluster) {
			for i := range 2 {
				source(i, func(s *v1alpha1.HealthSource) {
					s.State, s.Message = v1alpha1.HealthUnknown, "DCGM did not answer in time"
				})(c)
			}
			source(2, func(s *v1alpha1.HealthSource) { s.Message = "overrides are refused" })(c)
		}, []string{
			"Problem NodeHealth/a-0: The health agents of 2 nodes say: DCGM did not answer in time (a-0, a-1).",
			"Warning NodeHealth/b-0: The health agents of 1 node say: overrides are refused (b-0).",
		}},
		"an old DCGM everywhere": {func(c *Cluster) {
			for i := range 4 {
				source(i, func(s *v1alpha1.HealthSource) { s.Version = "4.5.3" })(c)
			}
		}, []string{
			"Warning NodeHealth/a-0: DCGM's host engine is of version 4.5.3 on 4 nodes: a-0, a-1, b-0, b-1. Before 4.6 the counters of each link cannot be read.",
		}},
		"one DCGM that differs": {func(c *Cluster) {
			for i, v := range []string{"4.6.0", "4.6.0", "4.7.1", ""} {
				source(i, func(s *v1alpha1.HealthSource) { s.Version = v })(c)
			}
		}, []string{
			"Warning NodeHealth/a-0: DCGM's host engines are of different versions: 4.6.0 on 2 nodes (a-0, a-1), 4.7.1 on 1 node (b-0). The same fault may be seen on some nodes and not on others.",
		}},
		"a node without the label": {func(c *Cluster) {
			delete(c.Nodes.Items[3].Labels, "nvidia.com/gpu.present")
			c.NodeHealths.Items = c.NodeHealths.Items[:3] // no agent has ever run there
		}, []string{"Problem Node/b-1: 1 GPU node is without the label nvidia.com/gpu.present=true, so that no health agent runs there: b-1."}},
		"pods that do not run": {func(c *Cluster) { c.Agents.Items[0].Status.NumberReady = 1 }, []string{
			"Problem DaemonSet/lockstep-health/lockstep-health-agent: 3 of its 4 pods are not ready.",
		}},
		"none": {func(c *Cluster) { c.Agents.Items, c.NodeHealths.Items = nil, nil }, []string{
			"Warning DaemonSet/lockstep-health-agent: It is not installed, and no agent has reported on a node: faults of GPUs and links are not seen before a program fails of them.",
		}},
		"those that run without a DaemonSet": {func(c *Cluster) { c.Agents.Items = nil }, nil},
	})
}

// Reports of agents that were removed are no agents.
func TestAgentsAreCountedByTheirPods(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Cluster)
		saw    string
	}{
		"all ready":            {func(*Cluster) {}, "4 GPU nodes, 4 agents"},
		"one not ready":        {func(c *Cluster) { c.Agents.Items[0].Status.NumberReady = 3 }, "4 GPU nodes, 3 agents"},
		"without a DaemonSet":  {func(c *Cluster) { c.Agents.Items = nil }, "4 GPU nodes, no DaemonSet of agents, 4 reports"},
		"without any report":   {func(c *Cluster) { c.Agents.Items, c.NodeHealths.Items = nil, nil }, "4 GPU nodes, no agent"},
		"too young to report":  {func(c *Cluster) { c.NodeHealths.Items = nil }, "4 GPU nodes, 4 agents"},
		"reports left by some": {func(c *Cluster) { c.Agents.Items, c.NodeHealths.Items = nil, c.NodeHealths.Items[:1] }, "4 GPU nodes, no DaemonSet of agents, 1 report"},
	} {
		c := good(t)
		tc.change(c)
		var r Result
		agents(c, &r)
		check.Equal(t, name, tc.saw, r.Saw)
	}
}

func TestSilentReportsWithoutADaemonSet(t *testing.T) {
	c := good(t)
	c.Agents.Items, c.NodeHealths.Items[1].Status.Sources[0].HeartbeatTime = nil, ago(time.Hour)
	var r Result
	agents(c, &r)
	check.Equal(t, "no pods to look at", "", r.Findings[0].Command)
}

func TestOneCommandLabelsAllNodes(t *testing.T) {
	c := good(t)
	delete(c.Nodes.Items[3].Labels, "nvidia.com/gpu.present")
	delete(c.Nodes.Items[1].Labels, "nvidia.com/gpu.present")
	c.Agents.Items[0].Spec.Template.Spec.NodeSelector["pool"] = "gpu"
	for i := range c.Nodes.Items {
		c.Nodes.Items[i].Labels["pool"] = "gpu"
	}
	var r Result
	agents(c, &r)
	check.Equal(t, "command", "kubectl label nodes a-1 b-1 nvidia.com/gpu.present=true pool=gpu", r.Findings[0].Command)
}

func TestTaints(t *testing.T) {
	taint := func(key, value string) func(*Cluster) {
		return func(c *Cluster) {
			c.Nodes.Items[0].Spec.Taints = append(c.Nodes.Items[0].Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	held := func(value string, change func(*v1alpha1.TrainingJob)) func(*Cluster) {
		return func(c *Cluster) {
			job := &c.TrainingJobs.Items[0]
			taint(policies.HoldKey(job), value)(c)
			change(job)
		}
	}
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	as := func(*v1alpha1.TrainingJob) {}
	verdict := func(v *v1alpha1.HealthVerdict) func(*Cluster) {
		return func(c *Cluster) {
			taint(v1alpha1.TaintQuarantine, v1alpha1.QuarantineFailed)(c)
			c.NodeHealths.Items[0].Status.Verdict = v
		}
	}
	expect(t, map[string]change{
		"a stranger's":             {taint("example.com/x", ""), nil},
		"a hold":                   {held(at(time.Minute), as), nil},
		"a standing hold":          {held(v1alpha1.HoldStanding, as), nil},
		"a hold that is just over": {held(at(-time.Second), as), nil},
		"a hold that is over": {held(at(-2*time.Minute), as), []string{
			"Problem Node/a-0: The taint hold.lockstep.dev/llama-=" + at(-2*time.Minute) + " keeps jobs away, and the time for which TrainingJob research/llama held the node has passed.",
		}},
		"a hold of a job that has ended": {held(v1alpha1.HoldStanding, func(j *v1alpha1.TrainingJob) {
			j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
		}), []string{"Problem Node/a-0: The taint hold.lockstep.dev/llama-=standing keeps jobs away, and TrainingJob research/llama, which held the node, has ended."}},
		"a hold of a job that has just ended": {held(v1alpha1.HoldStanding, func(j *v1alpha1.TrainingJob) {
			j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
			j.Status.CompletionTime = ago(time.Second)
		}), nil},
		"a hold of a job that is being deleted": {held(v1alpha1.HoldStanding, func(j *v1alpha1.TrainingJob) { j.DeletionTimestamp = ago(time.Hour) }), []string{
			"Problem Node/a-0: The taint hold.lockstep.dev/llama-=standing keeps jobs away, and TrainingJob research/llama, which held the node, has ended.",
		}},
		"a hold of a job that is gone": {taint("hold.lockstep.dev/gone-1234", v1alpha1.HoldStanding), []string{
			"Problem Node/a-0: The taint hold.lockstep.dev/gone-1234=standing keeps jobs away, and the TrainingJob that held the node does not exist.",
		}},
		"a quarantine": {verdict(&v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, QuarantinedTime: ago(0)}), nil},
		"a quarantine that is over": {verdict(&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy}), []string{
			"Problem Node/a-0: The taint lockstep.dev/quarantine=failed keeps jobs away, and no NodeHealth says why.",
		}},
		"a quarantine of nobody's": {verdict(nil), []string{
			"Problem Node/a-0: The taint lockstep.dev/quarantine=failed keeps jobs away, and no NodeHealth says why.",
		}},
		"a lemon": {func(c *Cluster) {
			verdict(&v1alpha1.HealthVerdict{State: v1alpha1.HealthHealthy, QuarantinedTime: ago(0), Lemon: true})(c)
		}, []string{"Warning NodeHealth/a-0: 1 node is in quarantine until somebody has looked at it, after repeated failures: a-0."}},
		"an open breaker": {func(c *Cluster) {
			c.HealthPolicies.Items[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBreakerOpen, Status: metav1.ConditionTrue, Message: "4 nodes of hypernode/a are held back"}}
		}, []string{"Warning HealthPolicy/cluster: The breaker holds unhealthy nodes back, and nothing is done about them: 4 nodes of hypernode/a are held back."}},
	})
}

func TestJobs(t *testing.T) {
	job := func(change func(*v1alpha1.TrainingJob)) func(*Cluster) {
		return func(c *Cluster) { change(&c.TrainingJobs.Items[0]) }
	}
	queue := func(state scheduling.QueueState) func(*Cluster) {
		return func(c *Cluster) { c.Queues.Items[0].Status.State = state }
	}
	const unseen = "Problem TrainingJob/research/llama: No manager has looked at 1 job for a minute since it was created or changed: research/llama. No pod gets past its scheduling gate without one."
	expect(t, map[string]change{
		"of a queue that is not there": {job(func(j *v1alpha1.TrainingJob) { j.Spec.Queue = "research" }), []string{
			"Problem Queue/research: It does not exist, and these TrainingJobs name it: research/llama.",
		}},
		"of a queue that is closed":       {queue(scheduling.QueueStateClosed), []string{"Problem Queue/default: It is Closed, and takes no job: research/llama can neither begin nor begin again."}},
		"of a queue that is closing":      {queue(scheduling.QueueStateClosing), []string{"Problem Queue/default: It is Closing, and takes no job: research/llama can neither begin nor begin again."}},
		"of a queue that is not yet seen": {queue(""), nil},
		"that has ended, of a queue that is not there": {job(func(j *v1alpha1.TrainingJob) {
			j.Spec.Queue = "research"
			j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
		}), nil},
		"that nobody has looked at": {job(func(j *v1alpha1.TrainingJob) { j.Generation = 1 }), []string{unseen}},
		"that another controller manages": {job(func(j *v1alpha1.TrainingJob) {
			j.Generation, j.Spec.ManagedBy, j.Spec.Queue = 1, "kueue.x-k8s.io/multikueue", "elsewhere"
		}), nil},
		"that is new": {job(func(j *v1alpha1.TrainingJob) { j.Generation, j.CreationTimestamp = 1, *ago(time.Second) }), nil},
		"that was changed just now": {job(func(j *v1alpha1.TrainingJob) {
			j.Generation, j.ManagedFields = 2, []metav1.ManagedFieldsEntry{{Time: ago(time.Second)}}
		}), nil},
		"that was changed, and its status written since": {job(func(j *v1alpha1.TrainingJob) {
			j.Generation, j.ManagedFields = 2, []metav1.ManagedFieldsEntry{{Time: ago(time.Second), Subresource: "status"}}
		}), []string{unseen}},
	})
}
