// A scene is an observation that a test changes, decides on, and looks at.

package policies

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

type scene struct {
	gang.Observation
	uids int
}

// sceneStart is a time that the API server keeps as it is, to the microsecond.
var sceneStart = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

const (
	gpuResource = "nvidia.com/gpu"
	gpusPerNode = 8
)

// gpus are some GPUs, with 16 CPUs each.
func gpus(n int64) corev1.ResourceList {
	return corev1.ResourceList{
		gpuResource: *resource.NewQuantity(n, resource.DecimalSI), corev1.ResourceCPU: *resource.NewQuantity(16*n, resource.DecimalSI),
	}
}

// aScene is the moment after a job was made: two racks of six nodes, nothing placed. A pod takes a whole node.
func aScene(job jobWrapper) *scene {
	s := &scene{Observation: gang.Observation{
		Now: sceneStart, Job: job.TrainingJob, Nodes: map[string]gang.Node{}, Requests: map[string]corev1.ResourceList{},
		HoldLimits: gang.HoldLimits{Resources: []corev1.ResourceName{gpuResource}},
	}}
	for _, t := range job.Spec.Tasks {
		s.Requests[t.Name] = gpus(gpusPerNode)
	}
	racks := []topology.HyperNode{{Name: "rack-a", Tier: 1}, {Name: "rack-b", Tier: 1}, {Name: "spine", Tier: 2}}
	for i := range 12 {
		name := fmt.Sprintf("n%02d", i)
		s.Nodes[name] = gang.Node{Name: name, Hostname: "host-" + name, Ready: true, Allocatable: gpus(gpusPerNode)}
		racks[i/6].Nodes = append(racks[i/6].Nodes, name)
		racks[2].Nodes = append(racks[2].Nodes, name)
	}
	s.Topology = topology.New(racks)
	return s
}

// starting is a job of one task of workers, whose pods wait behind their gates.
func starting(replicas int32, rules ...v1alpha1.Rule) *scene {
	job := aJob().tasks(task("worker", replicas))
	if len(rules) > 0 {
		job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{Rules: rules}
	}
	return aScene(job).started()
}

// running is the same job, placed on n00, n01 and so on, and ready.
func running(replicas int32, rules ...v1alpha1.Rule) *scene {
	return starting(replicas, rules...).placed()
}

// started makes the Volcano Job of the attempt and its pods, gated.
func (s *scene) started() *scene {
	s.decide()
	attempt := s.status().Attempt
	s.VolcanoJobs = append(s.VolcanoJobs, gang.VolcanoJob{Name: gang.VolcanoJobName(s.Job, attempt), Attempt: attempt, Size: gang.SizeOf(s.Job)})
	s.PodGroup = &gang.PodGroup{Name: "pg"}
	gang.EachRank(s.Job, func(r gang.Rank) { s.make(r, false) })
	for _, t := range s.Job.Spec.Tasks {
		for index := range ptr.Deref(t.Spares, 0) {
			s.make(gang.Rank{Task: t.Name, Index: index}, true)
		}
	}
	s.decide()
	return s
}

// make makes a pod, gated.
func (s *scene) make(r gang.Rank, spare bool) {
	s.uids++
	p := gang.Pod{
		UID: fmt.Sprint(s.uids), Task: r.Task, Index: r.Index, Spare: spare, SpareLabel: spare, Attempt: s.status().Attempt,
		Phase: corev1.PodPending, Gated: true, CreatedTime: s.Now,
	}
	p.Name, p.Slot = gang.PodName(s.Job, p.Attempt, p.Rank()), p.Rank()
	s.Pods = append(s.Pods, p)
}

// placed binds the gated pods to the nodes in order, and makes them ready.
func (s *scene) placed() *scene {
	for i := range s.Pods {
		if s.Pods[i].Gated {
			s.bind(i, fmt.Sprintf("n%02d", i))
		}
	}
	s.decide()
	return s
}

// bind lifts the gate of a pod, binds it, and makes it ready.
func (s *scene) bind(i int, node string) {
	p := &s.Pods[i]
	p.Gated, p.Node, p.Phase, p.Ready, p.WasReady, p.PlacedTime = false, node, corev1.PodRunning, true, true, s.Now
	p.IP = "10.0.0." + p.UID
	r := gang.RankOf(s.status(), p.Rank())
	p.Incarnation = gang.Incarnation(s.status(), r.Task, r.Index)
}

// replace is what Volcano does once a pod is gone.
func (s *scene) replace(i int) {
	s.uids++
	p := s.Pods[i]
	s.Pods[i] = gang.Pod{
		Name: p.Name, UID: fmt.Sprint(s.uids), Task: p.Task, Index: p.Index, Spare: p.Spare, SpareLabel: p.Spare, Slot: p.Slot, Attempt: p.Attempt,
		Phase: corev1.PodPending, Gated: true, CreatedTime: s.Now,
	}
}

// back makes a pod again, on a node, and ready.
func (s *scene) back(i int, node string) {
	s.replace(i)
	s.decide()
	s.bind(i, node)
	s.decide()
}

// search lifts the gate of a pod, and lets the scheduler look for a node without finding one.
func (s *scene) search(i int) {
	p := &s.Pods[i]
	r := p.Rank()
	p.Gated, p.Unschedulable, p.PlacedTime, p.Incarnation = false, true, s.Now, gang.Incarnation(s.status(), r.Task, r.Index)
}

// fill leaves only these nodes of the first rack to the job.
func (s *scene) fill(free ...string) {
	for i := range 6 {
		if name := fmt.Sprintf("n%02d", i); !slices.Contains(free, name) {
			s.node(name, func(n *gang.Node) { n.Unschedulable = true })
		}
	}
}

// spare is where in Pods a spare is.
func (s *scene) spare(index int32) int {
	return slices.IndexFunc(s.Pods, func(p gang.Pod) bool { return p.Spare && p.Index == index })
}

func (s *scene) crash(i int, code int32) {
	p := &s.Pods[i]
	p.Phase, p.Ready = corev1.PodFailed, false
	p.Failure = gang.Failure{Containers: []gang.ContainerFailure{{Name: "train", ExitCode: code, Reason: "Error"}}}
}

func (s *scene) crashAll() {
	for i := range s.Pods {
		s.crash(i, 1)
	}
}

func (s *scene) succeed(i int) { s.Pods[i].Phase, s.Pods[i].Ready = corev1.PodSucceeded, false }

func (s *scene) unready(i int) { s.Pods[i].Ready = false }

// node changes a node.
func (s *scene) node(name string, change func(*gang.Node)) {
	n := s.Nodes[name]
	change(&n)
	s.Nodes[name] = n
}

func (s *scene) breakNode(name string) {
	s.node(name, func(n *gang.Node) { n.Ready, n.SilentSince = false, s.Now })
}

func (s *scene) after(d time.Duration) *scene {
	s.Now = s.Now.Add(d)
	return s
}

func (s *scene) status() *v1alpha1.TrainingJobStatus { return &s.Job.Status }

// decide decides and records.
func (s *scene) decide() Decision {
	d := Decide(&s.Observation)
	s.Job.Status = written(d.Status)
	return d
}

// plan plans for what is recorded.
func (s *scene) plan() Plan { return PlanFor(&s.Observation, s.status()) }

// incident is the newest incident.
func (s *scene) incident(t *testing.T) *v1alpha1.Incident {
	t.Helper()
	all := s.status().Incidents
	if len(all) == 0 {
		t.Fatal("no incident")
	}
	return &all[len(all)-1]
}

// fired tells the steps of the newest incident, by action and seconds since its start.
func (s *scene) fired(t *testing.T) []string {
	t.Helper()
	inc := s.incident(t)
	var out []string
	for _, f := range inc.Steps {
		out = append(out, fmt.Sprintf("%s@%.0f", f.Action, f.Time.Sub(inc.StartTime.Time).Seconds()))
	}
	return out
}

// lives are the incarnations of the workers.
func (s *scene) lives() []int32 {
	var out []int32
	gang.EachRank(s.Job, func(r gang.Rank) { out = append(out, gang.Incarnation(s.status(), r.Task, r.Index)) })
	return out
}

func (s *scene) deleted() []string {
	var out []string
	p := s.plan()
	for _, d := range p.DeletePods {
		name := d.UID
		if d.Force {
			name += " by force"
		}
		out = append(out, name)
	}
	return out
}

func (s *scene) held() []string {
	var out []string
	for _, h := range s.status().Holds {
		out = append(out, h.Node)
	}
	return out
}

// The builders cut times as the API server's format does.
func TestWrittenIsWhatTheAPIServerKeeps(t *testing.T) {
	s := running(3, rule("all", on(v1alpha1.AnyEvent), step(v1alpha1.RestartPod, 0)))
	s.after(1234567891).breakNode("n01")
	s.decide()
	s.Job.Spec.TTLSecondsAfterFinished = new(int32)
	s.crash(0, 1)
	d := Decide(&s.after(61 * time.Second).Observation)
	raw, err := json.Marshal(d.Status)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.TrainingJobStatus
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "status", back, written(d.Status))
}
