package adopt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// Names of the tasks of a PyTorchJob.
const (
	master = "master"
	worker = "worker"
)

func (c *conversion) pyTorchJob(f fields) {
	spec := f.in("spec")
	c.runPolicy(spec.in("runPolicy"))
	replicas := spec.in("pytorchReplicaSpecs")
	var port *int32
	for _, name := range []string{master, worker} {
		for key := range replicas.m {
			if strings.EqualFold(key, name) { // the operator takes them in any case
				port = cmp.Or(port, c.replicas(replicas.in(key), name))
			}
		}
	}
	process := c.elastic(spec)
	switch first, others := c.task(master), c.task(worker); {
	case first != nil && first.Replicas > 1:
		c.refuse("spec.pytorchReplicaSpecs.Master.replicas", "%d: a PyTorchJob has one master. Move the others to Worker", first.Replicas)
	case first == nil:
		c.rendezvous(worker, port)
	case others == nil:
		c.alone(first)
	default:
		c.success = []string{master}
		c.job.Spec.Framework = &v1alpha1.Framework{PyTorch: &v1alpha1.PyTorch{Port: port}}
	}
	if !c.launch(process) {
		c.notLaunched(process)
	}
}

// notLaunched reports flags that no torchrun was given, unless they are what a program starts with anyway.
func (c *conversion) notLaunched(process [][2]string) {
	for _, f := range process {
		if f[1] != "auto" && f[1] != "1" {
			c.lose("spec", fmt.Sprintf("Kubeflow gives torchrun --%s=%s by a variable, and no container's command is torchrun: give it the flag. WORLD_SIZE counts pods here", f[0], f[1]))
		}
	}
}

// runPolicy carries over what all jobs of Kubeflow's training operator have.
func (c *conversion) runPolicy(f fields) {
	c.suspend(f)
	to := &c.job.Spec
	to.ActiveDeadlineSeconds, to.TTLSecondsAfterFinished = take[*int64](f, "activeDeadlineSeconds"), take[*int32](f, "ttlSecondsAfterFinished")
	c.budget(f, "backoffLimit")
	scheduling := f.in("schedulingPolicy")
	to.Queue = cmp.Or(take[string](scheduling, "queue"), to.Queue)
	to.PriorityClassName = take[string](scheduling, "priorityClass")
	c.least(scheduling)
}

// least carries over minAvailable, which is compared with the pods once these are known.
func (c *conversion) least(f fields) {
	c.job.Spec.MinAvailable = take[*int32](f, "minAvailable")
	c.leastAt = f.at("minAvailable")
}

// replicas makes a task of the replicas of one type. It returns the port of their rendezvous.
func (c *conversion) replicas(f fields, name string) (port *int32) {
	template, final := take[corev1.PodTemplateSpec](f, "template"), v1alpha1.ExitCodes{Operator: v1alpha1.ExitCodesIn}
	switch policy := take[string](f, "restartPolicy"); policy {
	case "ExitCode": // which restarts nothing that ended with an error of the program, 1 to 127
		template.Spec.RestartPolicy = ""
		for code := int32(1); code <= 127; code++ {
			final.Values = append(final.Values, code)
		}
	case "Never": // the operator's default, which the API server sets
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
	default:
		template.Spec.RestartPolicy = corev1.RestartPolicy(cmp.Or(policy, string(template.Spec.RestartPolicy)))
	}
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		setEnv(container, corev1.EnvVar{Name: "PYTHONUNBUFFERED", Value: "1"})
		for _, p := range container.Ports {
			if p.Name == "pytorchjob-port" && container.Name == "pytorch" {
				port = &p.ContainerPort
			}
		}
	}
	if task := c.addTask(f.path, name, count(f, "replicas"), template); task != nil && len(final.Values) > 0 {
		c.failOn(name, final)
	}
	return port
}

// alone gives the only pod of a job the variables that the operator gives it.
func (c *conversion) alone(task *v1alpha1.Task) {
	for i := range task.Template.Spec.Containers {
		setEnv(&task.Template.Spec.Containers[i], corev1.EnvVar{Name: "MASTER_ADDR", Value: "localhost"}, corev1.EnvVar{Name: "MASTER_PORT", Value: "23456"},
			corev1.EnvVar{Name: "WORLD_SIZE", Value: "1"}, corev1.EnvVar{Name: "RANK", Value: "0"})
	}
}

// elastic takes the flags of torchrun that the policies of a PyTorchJob set by variables.
func (c *conversion) elastic(spec fields) (flags [][2]string) {
	f := spec.in("elasticPolicy")
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, [2]string{name, value})
		}
	}
	all := scalar(spec, "nprocPerNode")
	add("nproc_per_node", cmp.Or(scalar(f, "nProcPerNode"), all, "auto"))
	if len(f.m) == 0 {
		return flags
	}
	add("rdzv_backend", cmp.Or(scalar(f, "rdzvBackend"), "c10d"))
	add("rdzv_id", scalar(f, "rdzvId"))
	add("max_restarts", scalar(f, "maxRestarts"))
	var conf []string
	for _, c := range f.each("rdzvConf") {
		conf = append(conf, take[string](c, "key")+"="+take[string](c, "value"))
	}
	add("rdzv_conf", strings.Join(conf, ","))
	return slices.Clip(flags)
}
