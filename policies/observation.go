// The observation: all that a decision may know.

package policies

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Observation is one consistent look at a TrainingJob and its world.
type Observation struct {
	// Now is the time of the look.
	Now time.Time
	// Job as it was read. Decisions never change it.
	Job *v1alpha1.TrainingJob
	// VolcanoJobs that the TrainingJob owns, of every attempt.
	VolcanoJobs []VolcanoJob
	// PodGroup of the current attempt; nil where there is none.
	PodGroup *PodGroup
	// Pods of every attempt.
	Pods []Pod
	// Nodes that matter to the job: those of its pods and ranks, of its home, and those it holds.
	// A node that is missing here does not exist.
	Nodes map[string]Node
	// Topology of the cluster.
	Topology *Topology
	// Refused is why the API server last refused the Volcano Job; empty where it did not.
	Refused string
}

// VolcanoJob is a Volcano Job of the TrainingJob.
type VolcanoJob struct {
	Name     string
	Attempt  int32
	Deleting bool
	// Stopping is true while Volcano is stopping it.
	Stopping bool
	// Ended is true in Volcano's terminal phases, where it makes no pods any more.
	Ended bool
	// Succeeded is true in phase Completed.
	Succeeded bool
}

// PodGroup is Volcano's record of a gang.
type PodGroup struct {
	Name string
	// Pending is true while the gang has not been admitted by its queue.
	Pending bool
}

// Pod is a pod of the job.
type Pod struct {
	Name    string
	UID     string
	Task    string
	Index   int32
	Attempt int32
	// Node that the pod is bound to; empty before.
	Node string
	// Phase as Kubernetes has it.
	Phase corev1.PodPhase
	// Ready is true where the pod's Ready condition is.
	Ready bool
	// Gated is true until the placement gate is lifted.
	Gated bool
	// Incarnation that the pod was given when its gate was lifted.
	Incarnation int32
	// PlacedTime is when the gate was lifted.
	PlacedTime time.Time
	// Deleting is true once somebody has asked for its deletion.
	Deleting bool
	// Disrupted is the reason of a true DisruptionTarget condition.
	Disrupted string
	// Failure says what is known of its failed containers.
	Failure Failure
}

// Failure is what Kubernetes says about why a pod failed.
type Failure struct {
	// Containers that ended with another code than 0.
	Containers []ContainerFailure
	// Reason and Message of the pod's status.
	Reason  string
	Message string
}

// ContainerFailure is a container that failed.
type ContainerFailure struct {
	Name     string
	ExitCode int32
	Reason   string
	Message  string
}

// Node is a node as far as placement and failure detection care.
type Node struct {
	Name string
	// Hostname is the node's kubernetes.io/hostname label, by which pods are pinned.
	Hostname string
	// Ready is true where the node's Ready condition is.
	Ready bool
	// SilentSince is since when the node has not been heard of; zero where it has, be it to
	// say that it is not ready: then its kubelet still confirms what ends there.
	SilentSince time.Time
	// Unschedulable is true on a cordoned node.
	Unschedulable bool
	// OutOfService is true on a node with the taint node.kubernetes.io/out-of-service.
	OutOfService bool
	// Taints that keep pods away, this job's own hold apart.
	Taints []corev1.Taint
	// Hold is the value of this job's hold taint; empty where it has none.
	Hold string
}

// rank names one pod's place in the gang, whatever pod fills it.
type rank struct {
	task  string
	index int32
}

func (p *Pod) rank() rank { return rank{p.Task, p.Index} }

// finished is true once the pod's containers have ended for good.
func (p *Pod) finished() bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

// world is an observation, indexed for the questions that decisions ask.
type world struct {
	*Observation
	current map[rank]*Pod // the pods of the current attempt
	volcano *VolcanoJob   // the Volcano Job of the current attempt; nil where there is none
}

// view indexes an observation for one attempt.
func view(o *Observation, attempt int32) world {
	w := world{Observation: o, current: make(map[rank]*Pod, len(o.Pods))}
	for i := range o.Pods {
		if o.Pods[i].Attempt == attempt {
			w.current[o.Pods[i].rank()] = &o.Pods[i]
		}
	}
	for i := range o.VolcanoJobs {
		if o.VolcanoJobs[i].Attempt == attempt && !o.VolcanoJobs[i].Deleting {
			w.volcano = &o.VolcanoJobs[i]
		}
	}
	return w
}

// eachRank calls f for every rank that the spec asks for, in order.
func eachRank(job *v1alpha1.TrainingJob, f func(rank)) {
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		for index := range task.Replicas {
			f(rank{task.Name, index})
		}
	}
}

// MinAvailable is the size of the gang: spec.minAvailable, or all replicas.
func MinAvailable(job *v1alpha1.TrainingJob) int32 {
	if job.Spec.MinAvailable != nil {
		return *job.Spec.MinAvailable
	}
	return Replicas(job)
}

// Replicas is the number of pods that the job asks for.
func Replicas(job *v1alpha1.TrainingJob) int32 {
	var n int32
	for i := range job.Spec.Tasks {
		n += job.Spec.Tasks[i].Replicas
	}
	return n
}

func (p *Pod) healthy() bool   { return p.Phase == corev1.PodRunning && p.Ready }
func (p *Pod) succeeded() bool { return p.Phase == corev1.PodSucceeded }
