package adopt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func (c *conversion) volcanoJob(f fields) {
	spec := f.in("spec")
	to := &c.job.Spec
	if queue := take[string](spec, "queue"); queue != "default" {
		to.Queue = queue
	}
	to.PriorityClassName, to.TTLSecondsAfterFinished = take[string](spec, "priorityClassName"), take[*int32](spec, "ttlSecondsAfterFinished")
	c.networkTopology(spec)
	c.least(spec)
	if spec.m["maxRetry"] == int64(0) { // which is the default, 3
		spec.ignore("maxRetry")
	}
	c.budget(spec, "maxRetry")
	if name := take[string](spec, "schedulerName"); !slices.Contains(schedulers, name) {
		c.lose(spec.at("schedulerName"), "Volcano places the pods of a TrainingJob")
	}
	indexed := false
	plugins := spec.in("plugins")
	if plugins.has("env") {
		indexed = true
		plugins.ignore("env")
	}
	least := int64(0)
	for i, task := range spec.each("tasks") {
		least += c.volcanoTask(i, task)
	}
	if to.MinAvailable == nil && least > 0 {
		to.MinAvailable = new(int32(min(least, 10000)))
	}
	c.completes(spec, "", len(to.Tasks))
	c.volumes(spec)
	c.plugins(plugins)
	for i := range to.Tasks {
		for j := range to.Tasks[i].Template.Spec.Containers {
			if indexed {
				setEnv(&to.Tasks[i].Template.Spec.Containers[j], taskIndex("VC_TASK_INDEX"), taskIndex("VK_TASK_INDEX"))
			}
		}
	}
}

// volcanoTask makes a task. It returns how many pods of it Volcano has to place.
func (c *conversion) volcanoTask(i int, f fields) int64 {
	name, pods := cmp.Or(take[string](f, "name"), "default"+strconv.Itoa(i)), count(f, "replicas")
	least := pods
	if n := take[*int64](f, "minAvailable"); n != nil {
		if least = *n; *n < pods {
			c.lose(f.at("minAvailable"), "a TrainingJob has one for all its tasks, spec.minAvailable")
		}
	}
	c.completes(f, name, 1)
	template := take[corev1.PodTemplateSpec](f, "template")
	if template.Spec.HostNetwork {
		template.Spec.DNSPolicy = cmp.Or(template.Spec.DNSPolicy, corev1.DNSClusterFirstWithHostNet)
	}
	task := c.addTask(f.path, name, pods, template)
	if task == nil {
		return 0
	}
	partition := f.in("partitionPolicy")
	if size := take[*int32](partition, "partitionSize"); size != nil {
		task.Partition = &v1alpha1.Partition{Size: *size, NetworkTopology: take[*v1alpha1.NetworkTopology](partition, "networkTopology")}
		total, fewest := take[*int64](partition, "totalPartitions"), take[*int64](partition, "minPartitions")
		if total != nil && fewest != nil && *fewest != *total {
			c.lose(partition.at("minPartitions"), "a TrainingJob needs all its partitions")
		}
	}
	return least
}

// completes takes the policies by which a task that has completed completes the job. Others are left.
func (c *conversion) completes(f fields, task string, tasks int) {
	for _, policy := range f.each("policies") {
		events := policy.m["event"] == "TaskCompleted"
		if list, ok := policy.m["events"].([]any); ok && !policy.has("event") {
			events = len(list) == 1 && list[0] == "TaskCompleted"
		}
		if !events || policy.m["action"] != "CompleteJob" || policy.has("timeout") {
			continue
		}
		if task == "" && tasks > 1 || len(c.success) > 0 {
			c.lose(policy.path, "a TrainingJob has succeeded when all tasks in successPolicy.tasks have, not any one")
		}
		policy.ignore("event", "events", "action")
		if task != "" {
			c.success = append(c.success, task)
		}
	}
}

// volumes mounts the claims of a job into all containers, as Volcano does. Claims that it would make are left.
func (c *conversion) volumes(spec fields) {
	for i, f := range spec.each("volumes") {
		if f.has("volumeClaim") || !f.has("volumeClaimName") {
			continue
		}
		claim, path := take[string](f, "volumeClaimName"), take[string](f, "mountPath")
		for t := range c.job.Spec.Tasks {
			pod := &c.job.Spec.Tasks[t].Template.Spec
			name := fmt.Sprintf("adopted-%d", i)
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
			for j := range pod.Containers {
				pod.Containers[j].VolumeMounts = append(pod.Containers[j].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
			}
		}
	}
}

// plugins makes a framework of the job plugins that are one.
func (c *conversion) plugins(f fields) {
	found := []string{}
	for _, name := range []string{"pytorch", "mpi", "tensorflow", "ray"} {
		if f.has(name) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1:
		c.job.Spec.Framework = c.framework(f, found[0])
		f.ignore("svc") // which every framework has
	case len(found) == 0 && f.has("ssh"):
		if launcher, worker := c.launcherAndWorker(); worker != "" {
			c.job.Spec.Framework = &v1alpha1.Framework{MPI: &v1alpha1.MPI{Launcher: launcher, Worker: worker}}
			f.ignore("svc")
			c.sshOptions(f)
		}
	}
	if m := c.job.Spec.Framework; m != nil && m.MPI != nil {
		c.sshOptions(f)
	}
	for _, name := range slices.Sorted(maps.Keys(f.m)) {
		reason := pluginReasons[name]
		if reason == "" {
			reason = "a TrainingJob has no other plugins of Volcano than those of spec.framework"
		}
		c.lose(f.at(name), reason)
		f.ignore(name)
	}
}

var pluginReasons = map[string]string{
	"svc": "names of pods in DNS, and /etc/volcano/*.host, come with spec.framework",
	"ssh": "keys for SSH come with spec.framework.mpi",
}

// sshOptions takes the plugin ssh, which framework.mpi has, too.
func (c *conversion) sshOptions(f fields) {
	for _, option := range take[[]string](f, "ssh") {
		c.lose(f.at("ssh"), option+": the keys of a TrainingJob are in /root/.ssh")
	}
}

// launcherAndWorker are two tasks of which one has a single pod: it starts the others over SSH.
func (c *conversion) launcherAndWorker() (launcher, worker string) {
	tasks := c.job.Spec.Tasks
	if len(tasks) != 2 {
		return "", ""
	}
	for i := range tasks {
		if tasks[i].Replicas == 1 {
			return tasks[i].Name, tasks[1-i].Name
		}
	}
	return "", ""
}

// framework is one whose plugin has these arguments. Tasks that they name have to be there.
func (c *conversion) framework(f fields, name string) *v1alpha1.Framework {
	given := map[string]string{}
	for _, arg := range take[[]string](f, name) {
		key, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		given[key] = value
	}
	pop := func(key string) string {
		defer delete(given, key)
		return given[key]
	}
	var port *int32
	if text := pop("port"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			c.refuse(f.at(name), "--port=%s is no number", text)
		}
		port = new(int32(n))
	}
	out := &v1alpha1.Framework{}
	switch name {
	case "pytorch":
		out.PyTorch = &v1alpha1.PyTorch{Master: pop("master"), Worker: pop("worker"), Port: port}
	case "mpi":
		out.MPI = &v1alpha1.MPI{Launcher: pop("master"), Worker: pop("worker"), Port: port}
	case "tensorflow":
		out.TensorFlow = &v1alpha1.TensorFlow{PS: pop("ps"), Worker: pop("worker"), Chief: pop("chief"), Evaluator: pop("evaluator"), Port: port}
	case "ray":
		out.Ray = &v1alpha1.Ray{Head: pop("head"), Worker: pop("worker"), Port: port}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		c.lose(f.at(name), "--"+key+": spec.framework."+name+" has no such field")
	}
	return out
}
