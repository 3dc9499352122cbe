package signals

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
)

// concerned is the pod that holds the GPU with the fault, and another one that of a healthy GPU of
// the same node.
const concerned, another = "research/llm-1-worker-1", "other/job"

// job is a running job of three workers by the default rules, on the nodes n0, n1 and n2 of a rack
// of four. The node with the fault is n1.
type job struct {
	gang.Observation
}

func aJob(now time.Time) *job {
	j := &job{gang.Observation{Now: now, Nodes: map[string]gang.Node{}, Requests: map[string]corev1.ResourceList{"worker": {corev1.ResourceCPU: resource.MustParse("1")}}, Job: &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llm", Generation: 1, UID: "0123abcd-0000-4000-8000-000000000000"},
		Spec:       v1alpha1.TrainingJobSpec{Queue: "default", Tasks: []v1alpha1.Task{{Name: "worker", Replicas: 3}}},
	}}}
	rack := topology.HyperNode{Name: "rack", Tier: 1}
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		j.Nodes[name] = gang.Node{Name: name, Hostname: name, Ready: true}
		rack.Nodes = append(rack.Nodes, name)
	}
	j.Topology = topology.New([]topology.HyperNode{rack})
	j.decide()
	attempt := j.Job.Status.Attempt
	j.VolcanoJobs = []gang.VolcanoJob{{Name: gang.VolcanoJobName(j.Job, attempt), Attempt: attempt, Size: gang.SizeOf(j.Job)}}
	j.PodGroup = &gang.PodGroup{Name: "pg"}
	for i := range 3 {
		j.Pods = append(j.Pods, j.gated(int32(i)))
	}
	j.decide()
	for i := range j.Pods {
		j.bind(i, fmt.Sprintf("n%d", i))
	}
	j.decide()
	return j
}

// gated is a pod of a rank that has not been placed.
func (j *job) gated(index int32) gang.Pod {
	return gang.Pod{
		Name: fmt.Sprintf("llm-%d-worker-%d", j.Job.Status.Attempt, index), UID: fmt.Sprint(index, j.Now.UnixNano()), Task: "worker", Index: index,
		Attempt: j.Job.Status.Attempt, Phase: corev1.PodPending, Gated: true, CreatedTime: j.Now,
	}
}

// bind lifts the gate of a pod, binds it and makes it ready.
func (j *job) bind(i int, node string) {
	p := &j.Pods[i]
	p.Gated, p.Node, p.Phase, p.Ready, p.WasReady, p.PlacedTime = false, node, corev1.PodRunning, true, true, j.Now
	p.Incarnation = gang.Incarnation(&j.Job.Status, p.Task, p.Index)
}

// decide decides, and records.
func (j *job) decide() { j.Job.Status = policies.Decide(&j.Observation).Status }

// hear decides at a time, with what is known of the health of n1.
func (j *job) hear(now time.Time, reports []v1alpha1.HealthReport) {
	j.Now = now
	n1 := j.Nodes["n1"]
	n1.Ill = slices.ContainsFunc(reports, func(r v1alpha1.HealthReport) bool { return r.State == v1alpha1.HealthStateFailed })
	j.Nodes["n1"] = n1
	for i := range j.Pods {
		if p := &j.Pods[i]; p.Node == "n1" {
			p.Signals = gang.SignalsFor("research/"+p.Name, reports)
		}
	}
	j.decide()
}

// incident is the first one, if there is any.
func (j *job) incident() (v1alpha1.Incident, bool) {
	if len(j.Job.Status.Incidents) == 0 {
		return v1alpha1.Incident{}, false
	}
	return j.Job.Status.Incidents[0], true
}

// action is the first step that was taken, and when; empty where none was.
func (j *job) action() string {
	inc, _ := j.incident()
	if len(inc.Steps) == 0 {
		return ""
	}
	step := inc.Steps[0]
	after := step.Time.Sub(inc.StartTime.Time).Round(time.Second)
	if after == 0 {
		return fmt.Sprintf("`%s` at once", step.Action)
	}
	return fmt.Sprintf("`%s` after %s", step.Action, short(after))
}

// moved are the pods that are deleted for it.
func (j *job) moved() []string {
	var names []string
	for _, d := range policies.PlanFor(&j.Observation, &j.Job.Status).DeletePods {
		names = append(names, "research/"+d.Name)
	}
	return names
}
