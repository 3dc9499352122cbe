package adopt

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// reserved are the labels and annotations of pods that Lockstep, Volcano or another operator sets.
var reserved = regexp.MustCompile(`^(volcano\.sh/(job|queue|task|partition|template)-|lockstep\.dev/|scheduling\.k8s\.io/group-name$|` +
	`jobset\.sigs\.k8s\.io/|training\.kubeflow\.org/|batch\.kubernetes\.io/)`)

// schedulers are those whose name says no more than that Volcano places the pods.
var schedulers = []string{"", "volcano", corev1.DefaultSchedulerName}

// cleanTemplate takes out of a template what a TrainingJob may not have.
func (c *conversion) cleanTemplate(at string, t *corev1.PodTemplateSpec) {
	t.ObjectMeta = metav1.ObjectMeta{Labels: c.cleanKeys(at+".metadata.labels", t.Labels), Annotations: c.cleanKeys(at+".metadata.annotations", t.Annotations)}
	spec := &t.Spec
	if !slices.Contains(schedulers, spec.SchedulerName) {
		c.lose(at+".spec.schedulerName", "Volcano places the pods of a TrainingJob")
	}
	if spec.NodeName != "" {
		c.lose(at+".spec.nodeName", "Lockstep and Volcano place the pods: use nodeSelector or affinity")
	}
	if len(spec.SchedulingGates) > 0 {
		c.lose(at+".spec.schedulingGates", "Lockstep places the pods by a gate of its own")
	}
	if spec.RestartPolicy == corev1.RestartPolicyAlways {
		spec.RestartPolicy = corev1.RestartPolicyOnFailure
		c.lose(at+".spec.restartPolicy", "with Always a pod could never succeed: it is OnFailure")
	}
	spec.SchedulerName, spec.NodeName, spec.SchedulingGates = "", "", nil
}

func (c *conversion) cleanKeys(at string, keys map[string]string) map[string]string {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case key == exclusive:
			c.lose(at+"["+key+"]", exclusivePlacement)
		case reserved.MatchString(key):
			c.lose(at+"["+key+"]", "the key is reserved")
		default:
			continue
		}
		delete(keys, key)
	}
	if len(keys) == 0 {
		return nil
	}
	return keys
}

// taskIndex is a variable with the index of a pod in its task.
func taskIndex(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: "$(LOCKSTEP_TASK_INDEX)"}
}

// setEnv sets those variables that a container does not have, before its own.
func setEnv(c *corev1.Container, vars ...corev1.EnvVar) {
	vars = slices.DeleteFunc(slices.Clone(vars), func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == v.Name })
	})
	c.Env = slices.Concat(vars, c.Env)
}

// text is what the program of a container is made of.
func text(c *corev1.Container) string {
	parts := slices.Concat(c.Command, c.Args)
	for _, e := range c.Env {
		parts = append(parts, e.Value)
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			parts = append(parts, e.ValueFrom.FieldRef.FieldPath)
		}
	}
	return strings.Join(parts, "\n")
}

// launcher finds torchrun in the words of a command, and returns the index behind it, or 0.
func launcher(words []string) int {
	for i, word := range words {
		switch {
		case i == 0 && path.Base(word) == "torchrun":
			return 1
		case i > 0 && words[i-1] == "-m" && (word == "torch.distributed.run" || word == "torch.distributed.launch"):
			return i + 1
		}
	}
	return 0
}

// torchrun gives the program of a container, if it is torchrun, the flags that it lacks. Kubeflow's operators set variables PET_ in their place.
func torchrun(c *corev1.Container, flags [][2]string) bool {
	at := launcher(slices.Concat(c.Command, c.Args))
	if at == 0 {
		return false
	}
	words := &c.Command
	if at > len(c.Command) {
		words, at = &c.Args, at-len(c.Command)
	}
	given := strings.ReplaceAll(strings.Join(slices.Concat(c.Command, c.Args), "\n")+"\n", "-", "_")
	has := func(name string) bool {
		return regexp.MustCompile(`\n_+` + name + `[=\n]`).MatchString(given)
	}
	elastic := has("rdzv_backend") || has("rdzv_endpoint") || slices.ContainsFunc(flags, func(f [2]string) bool { return f[0] == "rdzv_backend" })
	var add []string
	for _, f := range flags {
		static := slices.Contains([]string{"node_rank", "master_addr", "master_port"}, f[0])
		if f[1] == "" || has(f[0]) || (elastic && static) || (!elastic && strings.HasPrefix(f[0], "rdzv_")) || has("standalone") {
			continue
		}
		add = append(add, "--"+f[0]+"="+f[1])
	}
	*words = slices.Insert(slices.Clone(*words), at, add...)
	return true
}

// rendezvousFlags are those of torchrun in a job with framework.pytorch.
var rendezvousFlags = [][2]string{
	{"nnodes", "$(WORLD_SIZE)"}, {"node_rank", "$(RANK)"}, {"master_addr", "$(MASTER_ADDR)"}, {"master_port", "$(MASTER_PORT)"},
	{"rdzv_endpoint", "$(MASTER_ADDR):$(MASTER_PORT)"},
}

// launch has torchrun start as it did under Kubeflow, in all tasks. process are the flags that a policy of the job adds. It reports whether there is a torchrun.
func (c *conversion) launch(process [][2]string) (found bool) {
	for i := range c.job.Spec.Tasks {
		flags := process
		if f := c.job.Spec.Framework; f != nil && f.PyTorch != nil {
			flags = slices.Concat(rendezvousFlags, withHost(process, c.job.Spec.Tasks[i].Name == cmp.Or(f.PyTorch.Master, master)))
		}
		for j := range c.job.Spec.Tasks[i].Template.Spec.Containers {
			found = torchrun(&c.job.Spec.Tasks[i].Template.Spec.Containers[j], flags) || found
		}
	}
	return found
}

// withHost says in rdzv_conf whether a pod hosts the store of a rendezvous: torchrun compares names, and does not know its own in MASTER_ADDR.
func withHost(process [][2]string, hosts bool) [][2]string {
	conf := fmt.Sprintf("is_host=%t", hosts)
	out := slices.DeleteFunc(slices.Clone(process), func(f [2]string) bool {
		if f[0] == "rdzv_conf" {
			conf = f[1] + "," + conf
		}
		return f[0] == "rdzv_conf"
	})
	return append(out, [2]string{"rdzv_conf", conf})
}

// caution is something in a program that only another operator provides.
type caution struct {
	pattern *regexp.Regexp
	advice  string
	// unless the job has a framework
	framework bool
}

var cautions = []caution{
	{pattern: regexp.MustCompile(`\bPET_[A-Z_]+`), advice: "Kubeflow sets it; with spec.framework.pytorch give torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT"},
	{pattern: regexp.MustCompile(`\bVC_\w+_(?:HOSTS|NUM)\b`), advice: "Volcano's svc plugin sets it, which a TrainingJob has with spec.framework", framework: true},
	{pattern: regexp.MustCompile(`/etc/volcano/[-\w]+\.host`), advice: "Volcano's svc plugin writes it, which a TrainingJob has with spec.framework", framework: true},
	{pattern: regexp.MustCompile(`\bJOBSET_\w+|jobset\.sigs\.k8s\.io/[-\w]+`), advice: "JobSet sets it, and Lockstep does not"},
	{pattern: regexp.MustCompile(`\bJOB_GLOBAL_INDEX\b|` + regexp.QuoteMeta(indexOfJob)), advice: "JobSet and Job set it; LOCKSTEP_TASK_INDEX is the index of a pod in its task, and RANK the one in a job with spec.framework.pytorch"},
	{pattern: regexp.MustCompile(`\btrainer\.kubeflow\.org/[-\w]+`), advice: "Kubeflow sets it, and Lockstep does not"},
}

// warn says what in the programs of a task may not work as it did.
func (c *conversion) warn(task *v1alpha1.Task) {
	spec := &task.Template.Spec
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		at := "task " + task.Name + ", container " + container.Name
		all := text(&container)
		for _, caution := range cautions {
			if found := caution.pattern.FindString(all); found != "" && (!caution.framework || c.job.Spec.Framework == nil) {
				c.lose(at, found+": "+caution.advice)
			}
		}
		if host := c.hosts().FindString(all); host != "" {
			c.lose(at, host+": the names of pods differ here; with spec.framework.pytorch MASTER_ADDR is the first one's")
		}
		if launcher(container.Command) == 0 && launcher(container.Args) == 0 && strings.Contains(all, "torchrun") && c.pods() > 1 &&
			!regexp.MustCompile(`(?:nnodes|PET_NNODES)`).MatchString(all) {
			c.lose(at, "torchrun: in this script it lacks --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT, which spec.framework.pytorch sets")
		}
	}
}

// hosts matches the names that pods of the job had: those of Volcano and Kubeflow end with an index, those of JobSet with two.
func (c *conversion) hosts() *regexp.Regexp {
	names := []string{}
	for i := range c.job.Spec.Tasks {
		names = append(names, regexp.QuoteMeta(c.job.Spec.Tasks[i].Name))
	}
	return regexp.MustCompile(fmt.Sprintf(`\b%s-(?:%s)-\d+(?:-\d+)?\b`, regexp.QuoteMeta(c.job.Name), strings.Join(names, "|")))
}

func number(n int32) string { return strconv.Itoa(int(n)) }
