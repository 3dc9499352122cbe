// Objects: what the rules read of them.

package audit

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// metadata is that of every object.
type metadata struct {
	Name                       string            `json:"name"`
	Namespace                  string            `json:"namespace"`
	UID                        string            `json:"uid"`
	ResourceVersion            string            `json:"resourceVersion"`
	Labels                     map[string]string `json:"labels"`
	Annotations                map[string]string `json:"annotations"`
	Finalizers                 []string          `json:"finalizers"`
	DeletionTimestamp          *time.Time        `json:"deletionTimestamp"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds"`
}

// isGone reports whether the API server has removed an object with the request that it is the answer to.
func (m *metadata) isGone() bool {
	return m.DeletionGracePeriodSeconds != nil && *m.DeletionGracePeriodSeconds == 0 && len(m.Finalizers) == 0
}

// names reports whether two objects of a kind have the same name.
func (m *metadata) names(other *metadata) bool {
	return m.Name == other.Name && m.Namespace == other.Namespace
}

type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName        string           `json:"nodeName"`
		SchedulingGates []map[string]any `json:"schedulingGates"`
		Containers      []container      `json:"containers"`
		InitContainers  []container      `json:"initContainers"`
		Tolerations     []toleration     `json:"tolerations"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type container struct {
	Resources struct {
		Requests map[string]resource.Quantity `json:"requests"`
		Limits   map[string]resource.Quantity `json:"limits"`
	} `json:"resources"`
}

// finished reports whether a pod has ended for good.
func (p *pod) finished() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// works reports whether a pod has a node, and may run there.
func (p *pod) works() bool { return p.Spec.NodeName != "" && !p.finished() }

// rank is the place of a pod in its job.
type rank struct {
	job, task string // job is the UID
	index     int
	spare     bool
}

// rank returns the place of a pod in a TrainingJob, and false for another pod. Volcano ends the names of pods with their index.
func (p *pod) rank() (rank, bool) {
	m := &p.Metadata
	uid, task := m.Labels["lockstep.dev/job-uid"], m.Labels["lockstep.dev/task"]
	index, err := strconv.Atoi(m.Name[strings.LastIndexByte(m.Name, '-')+1:])
	spare := strings.HasSuffix(m.Name, fmt.Sprintf("-%s-spare-%d", task, index)) // its label follows what it becomes
	return rank{uid, task, index, spare}, uid != "" && task != "" && err == nil
}

func (p *pod) attempt() int { return number(p.Metadata.Labels["lockstep.dev/attempt"]) }

func (p *pod) incarnation() int { return number(p.Metadata.Annotations["lockstep.dev/incarnation"]) }

// number is that of a label; 0 where there is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// requests are what a pod takes of a node: the most of what its containers need together and of each init container alone.
func (p *pod) requests() map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].requests() {
			sum := out[name].DeepCopy()
			sum.Add(q)
			out[name] = sum
		}
	}
	for i := range p.Spec.InitContainers {
		for name, q := range p.Spec.InitContainers[i].requests() {
			if sum := out[name]; q.Cmp(sum) > 0 {
				out[name] = q
			}
		}
	}
	return out
}

// requests are those of a container; of an extended resource its limits say as much.
func (c *container) requests() map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	maps.Copy(out, c.Resources.Limits)
	maps.Copy(out, c.Resources.Requests)
	return out
}

type node struct {
	Metadata metadata `json:"metadata"`
	Spec     nodeSpec `json:"spec"`
	Status   struct {
		Allocatable map[string]resource.Quantity `json:"allocatable"`
		Conditions  []condition                  `json:"conditions"`
	} `json:"status"`
}

type nodeSpec struct {
	Taints        []taint `json:"taints"`
	Unschedulable bool    `json:"unschedulable"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// toleration is one that a pod has of taints.
type toleration struct {
	Key      string `json:"key"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
	Effect   string `json:"effect"`
}

// covers reports whether it is one of a taint.
func (t toleration) covers(of taint) bool {
	return (t.Effect == "" || t.Effect == of.Effect) && (t.Key == "" || t.Key == of.Key) && (t.Operator == "Exists" || t.Value == of.Value)
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// is reports whether a condition has a status.
func is(conditions []condition, name, status string) bool {
	for _, c := range conditions {
		if c.Type == name {
			return c.Status == status
		}
	}
	return false
}

// ready reports whether a node's kubelet was heard of.
func (n *node) ready() bool { return is(n.Status.Conditions, "Ready", "True") }

type trainingJob struct {
	// single are the incarnations of ranks that were restarted one by one; nil until they are asked for.
	single map[place]int

	Metadata metadata `json:"metadata"`
	Spec     struct {
		Suspend       bool           `json:"suspend"`
		RestartPolicy *restartPolicy `json:"restartPolicy"`
		Supervisor    *struct{}      `json:"supervisor"`
		Tasks         []struct {
			Name          string         `json:"name"`
			RestartPolicy *restartPolicy `json:"restartPolicy"`
			Partition     *struct {
				Size int `json:"size"`
			} `json:"partition"`
		} `json:"tasks"`
	} `json:"spec"`
	Status struct {
		Attempt    int          `json:"attempt"`
		Conditions []condition  `json:"conditions"`
		Tasks      []taskStatus `json:"tasks"`
		NextStep   *struct{}    `json:"nextStep"`
		Placement  struct {
			HyperNode string `json:"hyperNode"`
		} `json:"placement"`
		ExcludedNodes []struct {
			Name  string    `json:"name"`
			Until time.Time `json:"until"`
		} `json:"excludedNodes"`
		Incidents []incident `json:"incidents"`
		Restarts  struct {
			ChargedTimes []time.Time `json:"chargedTimes"`
		} `json:"restarts"`
	} `json:"status"`
}

// policyOf is the restart policy of a task's own, if it has one.
func (j *trainingJob) policyOf(task string) *restartPolicy {
	for _, t := range j.Spec.Tasks {
		if t.Name == task {
			return t.RestartPolicy
		}
	}
	return nil
}

// chargesOf are when restarts were charged to a task's own budget.
func (j *trainingJob) chargesOf(task string) []time.Time {
	for _, t := range j.Status.Tasks {
		if t.Name == task {
			return t.ChargedTimes
		}
	}
	return nil
}

type restartPolicy struct {
	Budget *struct {
		MaxRestarts   *int `json:"maxRestarts"`
		WindowSeconds *int `json:"windowSeconds"`
	} `json:"budget"`
}

type taskStatus struct {
	Name         string      `json:"name"`
	Replicas     int         `json:"replicas"`
	Ready        int         `json:"ready"`
	Incarnation  int         `json:"incarnation"`
	Ranks        []rankSet   `json:"ranks"`
	Pods         []rankPod   `json:"pods"`
	ChargedTimes []time.Time `json:"chargedTimes"`
}

// rankPod says that a rank, or a spare, has the pods of another name.
type rankPod struct {
	Index       int    `json:"index"`
	Attempt     int    `json:"attempt"`
	Pod         string `json:"pod"`
	UID         string `json:"uid"`
	Incarnation int    `json:"incarnation"`
}

// rankSet are ranks of a task that were restarted as often, and for the same reason.
type rankSet struct {
	Indexes     string `json:"indexes"`
	Index       int    `json:"index"` // the first of them, and all that earlier versions of the manager wrote
	Incarnation int    `json:"incarnation"`
	Reason      string `json:"reason"`
}

func (r rankSet) all() []int {
	if r.Indexes == "" {
		return []int{r.Index}
	}
	return indexes(r.Indexes)
}

// holder returns which rank, or spare, has a pod by the status, and what that says of it; false where that is the one that the pod is named after.
func (j *trainingJob) holder(p *pod) (rank, rankPod, bool) {
	if j == nil {
		return rank{}, rankPod{}, false
	}
	for _, t := range j.Status.Tasks {
		for _, entry := range t.Pods {
			if p.attempt() == entry.Attempt && p.Metadata.Name == fmt.Sprintf("%s-%d-%s", j.Metadata.Name, entry.Attempt, entry.Pod) {
				task, spare := strings.CutSuffix(t.Name, "-spare")
				return rank{j.Metadata.UID, task, entry.Index, spare}, entry, true
			}
		}
	}
	return rank{}, rankPod{}, false
}

// finished reports whether a job has come to its end.
func (j *trainingJob) finished() bool {
	return is(j.Status.Conditions, "Completed", "True") || is(j.Status.Conditions, "Failed", "True")
}

// rests reports whether a job needs no pods.
func (j *trainingJob) rests() bool {
	return j.finished() || j.Spec.Suspend || is(j.Status.Conditions, "Suspended", "True") || j.Metadata.DeletionTimestamp != nil
}

// wanted is the incarnation that a rank should have: the later one of its task's and its own.
func (j *trainingJob) wanted(r rank) int {
	if r.spare {
		return j.wantedOf(r.task+"-spare", r.index)
	}
	return j.wantedOf(r.task, r.index)
}

func (j *trainingJob) wantedOf(task string, index int) int {
	if j.single == nil { // a status is asked for each rank, again and again
		j.single = map[place]int{}
		for _, t := range j.Status.Tasks {
			for _, set := range t.Ranks {
				for _, i := range set.all() {
					of := place{task: t.Name, index: i}
					j.single[of] = max(j.single[of], set.Incarnation)
				}
			}
		}
	}
	return max(j.task(task).Incarnation, j.single[place{task: task, index: index}])
}

// task is the status of a task; a zero one where there is none.
func (j *trainingJob) task(name string) taskStatus {
	for _, t := range j.Status.Tasks {
		if t.Name == name {
			return t
		}
	}
	return taskStatus{}
}
