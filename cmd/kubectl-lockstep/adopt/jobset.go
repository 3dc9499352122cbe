package adopt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// replicatedJob is one of a JobSet, which becomes a task.
type replicatedJob struct {
	name string
	// jobs of that many pods each.
	jobs, pods int64
	// failOn are exit codes of its pods that fail it.
	failOn   []v1alpha1.ExitCodes
	template corev1.PodTemplateSpec
	// path is that of the replicatedJob.
	path string
	// step is that of a TrainJob, such as trainer.
	step string
}

func (c *conversion) jobSet(f fields) {
	spec := f.in("spec")
	c.suspend(spec)
	c.job.Spec.TTLSecondsAfterFinished = take[*int32](spec, "ttlSecondsAfterFinished")
	c.tasks(spec, c.replicatedJobs(spec))
}

// replicatedJobs reads those of the spec of a JobSet.
func (c *conversion) replicatedJobs(spec fields) (out []replicatedJob) {
	for _, f := range spec.each("replicatedJobs") {
		job := f.in("template")
		inner := job.in("spec")
		r := replicatedJob{name: take[string](f, "name"), jobs: count(f, "replicas"), pods: count(inner, "parallelism"), path: f.path}
		c.completions(inner, &r)
		r.step, _ = job.in("metadata").in("labels").m[trainerStep].(string)
		job.in("metadata").in("labels").ignore(trainerStep)
		if annotations := job.in("metadata").in("annotations"); annotations.has(exclusive) {
			c.lose(annotations.path+"["+exclusive+"]", exclusivePlacement)
			annotations.ignore(exclusive)
		}
		r.failOn = failOn(inner)
		r.template = take[corev1.PodTemplateSpec](inner, "template")
		inner.ignore("completionMode", "suspend", "managedBy", "manualSelector")
		if take[string](f, "groupName") == "default" {
			f.ignore("groupName")
		}
		out = append(out, r)
	}
	return out
}

// count takes a number of jobs or pods, which is 1 where it is left out.
func count(f fields, name string) int64 {
	if n := take[*int64](f, name); n != nil {
		return *n
	}
	return 1
}

// completions bounds the pods of a job: it never runs more than are left to complete.
func (c *conversion) completions(f fields, r *replicatedJob) {
	n := take[*int64](f, "completions")
	switch {
	case n == nil:
	case *n < r.pods:
		r.pods = *n
	case *n > r.pods && r.pods > 0:
		c.lose(f.at("completions"), fmt.Sprintf("all pods of a TrainingJob run together: the task has %d per job, as parallelism says", r.pods))
	}
}

// failOn takes the exit codes that fail a job for good. Rules that do something else are left.
func failOn(f fields) (out []v1alpha1.ExitCodes) {
	for _, rule := range f.in("podFailurePolicy").each("rules") {
		codes := rule.in("onExitCodes")
		if rule.m["action"] != "FailJob" || len(codes.m) == 0 {
			continue
		}
		if _, ok := rule.m["onPodConditions"].([]any); ok {
			continue
		}
		rule.ignore("action", "onPodConditions")
		out = append(out, take[v1alpha1.ExitCodes](rule, "onExitCodes"))
	}
	return out
}

// tasks makes a task of each replicatedJob, and carries over what else the spec of a JobSet says.
func (c *conversion) tasks(spec fields, all []replicatedJob) {
	c.successPolicy(spec, all)
	for i := range all {
		r := &all[i]
		if r.jobs < 0 || r.pods < 0 || r.jobs > 10000 || r.pods > 10000 { // whose product could overflow
			c.refuse(r.path, "%d jobs of %d pods: a task has at most 10000 pods", r.jobs, r.pods)
			continue
		}
		task := c.addTask(r.path, r.name, r.jobs*r.pods, r.template)
		if task == nil {
			continue
		}
		if r.jobs > 1 && r.pods > 1 {
			task.Partition = &v1alpha1.Partition{Size: int32(r.pods)}
		}
		c.indexes(r, task)
		for _, codes := range r.failOn {
			c.failOn(r.name, codes)
		}
	}
	for i := range all {
		if task := c.task(all[i].name); task != nil {
			c.byVariables(task)
		}
	}
	failure := spec.in("failurePolicy")
	if spec.has("failurePolicy") {
		c.budget(failure, "maxRestarts")
	} else if spec.path == "spec" {
		c.lose("spec.failurePolicy", "a JobSet without it fails with its first job; a TrainingJob restarts what broke, within restartPolicy.budget")
	}
	if take[string](spec.in("startupPolicy"), "startupPolicyOrder") == "InOrder" {
		c.lose(spec.at("startupPolicy"), together)
	}
}

func (c *conversion) successPolicy(spec fields, all []replicatedJob) {
	f := spec.in("successPolicy")
	c.success = take[[]string](f, "targetReplicatedJobs")
	if operator := take[string](f, "operator"); operator != "Any" {
		return
	}
	jobs := int64(0)
	for _, r := range all {
		if len(c.success) == 0 || slices.Contains(c.success, r.name) {
			jobs += r.jobs
		}
	}
	if jobs > 1 {
		c.lose(f.at("operator"), "a TrainingJob has succeeded when all pods of the tasks in successPolicy.tasks have, not those of any job")
	}
}

// indexes gives programs the index that a Job gives its pods. In a task of several jobs it would count on over all of them, and a task whose
// first pod becomes one of its own begins again.
func (c *conversion) indexes(r *replicatedJob, task *v1alpha1.Task) {
	const variable = "JOB_COMPLETION_INDEX"
	spec := &task.Template.Spec
	first, _ := c.master(spec)
	split := task.Replicas > 1 && (c.split == r.name || first == r.name)
	if r.jobs > 1 {
		c.lose(r.path, variable+": LOCKSTEP_TASK_INDEX counts the pods of all jobs of a task")
		return
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if split {
				if strings.Contains(text(&containers[i]), variable) {
					c.lose(r.path, variable+": it is RANK in a job with spec.framework.pytorch")
				}
				continue
			}
			for j, e := range containers[i].Env {
				if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && strings.Contains(e.ValueFrom.FieldRef.FieldPath, indexOfJob) {
					containers[i].Env[j] = taskIndex(e.Name)
				}
			}
			setEnv(&containers[i], taskIndex(variable))
		}
	}
}

// master is the task whose first pod MASTER_ADDR names, and the port beside it.
func (c *conversion) master(spec *corev1.PodSpec) (task string, port *int32) {
	for _, container := range spec.Containers {
		for _, e := range container.Env {
			if host, ok := strings.CutPrefix(strings.Split(e.Value, ".")[0], c.job.Name+"-"); ok && e.Name == "MASTER_ADDR" {
				task, _ = strings.CutSuffix(host, "-0-0")
			}
			if n, err := strconv.ParseInt(e.Value, 10, 32); err == nil && e.Name == "MASTER_PORT" {
				port = new(int32(n))
			}
		}
	}
	return task, port
}

// byVariables sets up the rendezvous of a task that a JobSet spells out in variables: its master is its own first pod, or that of another task.
func (c *conversion) byVariables(task *v1alpha1.Task) {
	first, port := c.master(&task.Template.Spec)
	other := c.task(first)
	if other == nil || c.job.Spec.Framework != nil || other.Name != task.Name && other.Replicas != 1 || other.Name == task.Name && task.Replicas == 1 {
		return // and warn names the host
	}
	total := task.Replicas
	c.dropVariables(task)
	if other.Name == task.Name {
		c.rendezvous(task.Name, port)
	} else {
		total += other.Replicas
		c.dropVariables(other)
		c.job.Spec.Framework = &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{Master: other.Name, Worker: task.Name, Port: port}}
	}
	if c.world != "" && c.world != number(total) {
		c.lose("WORLD_SIZE", "spec.framework.pytorch sets it to the number of pods, not of processes")
	}
}

// dropVariables takes out the variables that framework.pytorch sets.
func (c *conversion) dropVariables(task *v1alpha1.Task) {
	for i := range task.Template.Spec.Containers {
		container := &task.Template.Spec.Containers[i]
		container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool {
			if e.Name == "WORLD_SIZE" {
				c.world = e.Value
			}
			return slices.Contains([]string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}, e.Name)
		})
	}
}
