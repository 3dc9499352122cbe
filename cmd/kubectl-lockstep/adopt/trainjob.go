package adopt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// trainerContainer is the name of the container, and of the replicatedJob, that a TrainJob's trainer runs in.
const trainerContainer = "node"

func runtimeKey(kind, namespace, name string) string {
	if kind != "TrainingRuntime" {
		namespace = ""
	}
	return kind + " " + namespace + "/" + name
}

// trainJob lays a TrainJob over its runtime, as Kubeflow's trainer does, and makes tasks of the JobSet that this is.
func (c *conversion) trainJob(f fields) {
	spec := f.in("spec")
	c.suspend(spec)
	c.job.Spec.ActiveDeadlineSeconds = take[*int64](spec, "activeDeadlineSeconds")
	runtime := c.runtime(spec)
	if runtime.m == nil {
		return
	}
	jobSet := runtime.in("template").in("spec")
	c.runtimeMetadata(runtime.in("template").in("metadata"))
	all := c.replicatedJobs(jobSet)
	for _, patch := range spec.each("runtimePatches") {
		c.patchRuntime(patch, all)
	}
	for _, override := range spec.each("podTemplateOverrides") {
		c.overrideTemplates(override, all)
	}
	c.initializer(spec.in("initializer"), all)
	policy := runtime.in("mlPolicy")
	nodes, processes := take[*int64](policy, "numNodes"), c.trainer(spec.in("trainer"), all)
	if n := take[*int64](spec.in("trainer"), "numNodes"); n != nil {
		mpi, _ := policy.m["mpi"].(map[string]any)
		if nodes = n; mpi["runLauncherAsNode"] == true {
			nodes = new(max(*n-1, 1)) // and the launcher
		}
	}
	if r := numbered(all); r != nil {
		if nodes != nil {
			r.pods = *nodes
		}
		if policy.has("torch") {
			c.split = r.name
		}
	}
	c.tasks(jobSet, all)
	c.podGroup(runtime.in("podGroupPolicy"))
	c.mlPolicy(policy, numbered(all), processes)
}

// runtime is the spec of the one that a TrainJob refers to.
func (c *conversion) runtime(spec fields) fields {
	f := spec.in("runtimeRef")
	f.ignore("apiGroup")
	kind, name := cmp.Or(take[string](f, "kind"), "ClusterTrainingRuntime"), take[string](f, "name")
	o := cmp.Or(c.known[runtimeKey(kind, c.job.Namespace, name)], c.known[runtimeKey(kind, "", name)]) // a file need not say the namespace
	if o == nil {
		c.refuse(f.path, "%[1]s %[2]s is not among the files: add it with -f, such as one that kubectl get %[1]s %[2]s -o yaml has printed", kind, name)
		return fields{c: c}
	}
	c.rendered = c.fieldsOf(o, kind+" "+name+": ")
	return c.rendered.in("spec")
}

// runtimeMetadata is that of the JobSet.
func (c *conversion) runtimeMetadata(f fields) {
	for key, value := range c.cleanKeys(f.at("labels"), take[map[string]string](f, "labels")) {
		setDefault(&c.job.Labels, key, value)
	}
	for key, value := range c.cleanKeys(f.at("annotations"), take[map[string]string](f, "annotations")) {
		setDefault(&c.job.Annotations, key, value)
	}
}

func setDefault(in *map[string]string, key, value string) {
	if *in == nil {
		*in = map[string]string{}
	}
	if _, ok := (*in)[key]; !ok {
		(*in)[key] = value
	}
}

// trainer changes the container that trains. It returns how many processes each pod has.
func (c *conversion) trainer(f fields, all []replicatedJob) (processes string) {
	container := containerOf(trains(all), trainerContainer)
	if container == nil && len(f.m) > 0 {
		c.refuse(f.path, "the runtime has no replicatedJob with the label %s: trainer and a container %s", trainerStep, trainerContainer)
		return ""
	}
	if image := take[string](f, "image"); image != "" {
		container.Image = image
	}
	if f.has("command") {
		container.Command = take[[]string](f, "command")
		if slices.Equal(container.Command, []string{"tune", "run"}) {
			c.lose(f.at("command"), "Kubeflow adds the recipe, the configuration and the rendezvous of torchtune: give them here")
		}
	}
	if f.has("args") {
		container.Args = take[[]string](f, "args")
	}
	if f.has("env") {
		container.Env = overlay(container.Env, take[[]corev1.EnvVar](f, "env"))
	}
	if f.has("resourcesPerNode") { // of the pods that numNodes counts
		resources := take[corev1.ResourceRequirements](f, "resourcesPerNode")
		if node := containerOf(numbered(all), trainerContainer); node != nil {
			node.Resources = resources
		}
		container.Resources = resources
	}
	return scalar(f, "numProcPerNode")
}

// scalar takes a field that is a number or a word.
func scalar(f fields, name string) string {
	switch value := f.m[name].(type) {
	case nil, map[string]any, []any, empty:
		return "" // and the field is reported
	default:
		f.ignore(name)
		return fmt.Sprint(value)
	}
}

// overlay lays variables over others by name.
func overlay(env, over []corev1.EnvVar) []corev1.EnvVar {
	for _, e := range over {
		if i := slices.IndexFunc(env, func(old corev1.EnvVar) bool { return old.Name == e.Name }); i >= 0 {
			env[i] = e
			continue
		}
		env = append(env, e)
	}
	return env
}

// trains is the replicatedJob in which the trainer runs.
func trains(all []replicatedJob) *replicatedJob { return step(all, "trainer", trainerContainer) }

// step is the replicatedJob of a step, or of a name where none has the label.
func step(all []replicatedJob, label, name string) *replicatedJob {
	for i := range all {
		if all[i].step == label {
			return &all[i]
		}
	}
	return named(all, name)
}

// numbered is the replicatedJob whose pods numNodes counts: with MPI it is not the launcher.
func numbered(all []replicatedJob) *replicatedJob {
	if r := named(all, trainerContainer); r != nil {
		return r
	}
	return trains(all)
}

func named(all []replicatedJob, name string) *replicatedJob {
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

func containerOf(r *replicatedJob, name string) *corev1.Container {
	if r == nil {
		return nil
	}
	containers := r.template.Spec.Containers
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// initializer gives the containers that download a dataset and a model where that is.
func (c *conversion) initializer(f fields, all []replicatedJob) {
	for _, what := range []string{"dataset", "model"} {
		if !f.has(what) {
			continue
		}
		in, name := f.in(what), what+"-initializer"
		container := containerOf(step(all, name, name), name)
		if container == nil {
			continue // and the fields are reported
		}
		env := take[[]corev1.EnvVar](in, "env")
		if uri := take[string](in, "storageUri"); uri != "" {
			env = append([]corev1.EnvVar{{Name: "STORAGE_URI", Value: uri}}, env...)
		}
		container.Env = overlay(container.Env, env)
		if secret := take[*corev1.LocalObjectReference](in, "secretRef"); secret != nil {
			container.EnvFrom = append(container.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *secret}})
		}
	}
}

// patchRuntime lays a runtimePatch over pod templates.
func (c *conversion) patchRuntime(f fields, all []replicatedJob) {
	f.ignore("manager", "time")
	jobSet := f.in("trainingRuntimeSpec").in("template")
	c.runtimeMetadata(jobSet.in("metadata"))
	for _, job := range jobSet.in("spec").each("replicatedJobs") {
		c.patchTemplate(job, take[string](job, "name"), job.in("template").in("spec"), "template", all)
	}
}

// overrideTemplates does so for the field's name in Trainer 2.0 and 2.1.
func (c *conversion) overrideTemplates(f fields, all []replicatedJob) {
	targets := take[[]struct{ Name string }](f, "targetJobs")
	template := map[string]any{}
	for _, part := range []string{"metadata", "spec"} {
		if f.has(part) {
			template[part] = f.m[part]
		}
		f.ignore(part)
	}
	for _, target := range targets {
		c.patchTemplate(f, target.Name, fields{m: map[string]any{"template": template}, path: f.path, c: c}, "template", all)
	}
}

// patchTemplate patches the pod template of a replicatedJob with a field.
func (c *conversion) patchTemplate(at fields, name string, f fields, field string, all []replicatedJob) {
	r := named(all, name)
	if r == nil {
		c.refuse(at.path, "the runtime has no replicatedJob %s", name)
		return
	}
	if !f.has(field) {
		return
	}
	patch, err := json.Marshal(f.m[field])
	before := len(c.errs)
	take[corev1.PodTemplateSpec](f, field) // which refuses other types: the merge would panic
	if len(c.errs) > before {
		return
	}
	template, errOfTemplate := json.Marshal(r.template)
	if err = cmp.Or(err, errOfTemplate); err == nil {
		template, err = strategicpatch.StrategicMergePatch(template, patch, corev1.PodTemplateSpec{})
	}
	if err != nil {
		c.refuse(at.path, "%v", err)
		return
	}
	r.template = take[corev1.PodTemplateSpec](fields{m: map[string]any{"template": json.RawMessage(template)}, path: at.path, c: c}, "template")
}

// podGroup carries over how pods are placed together.
func (c *conversion) podGroup(f fields) {
	f.ignore("coscheduling") // all pods of a TrainingJob are placed together
	c.networkTopology(f.in("volcano"))
}

// networkTopology takes Volcano's.
func (c *conversion) networkTopology(f fields) {
	c.job.Spec.NetworkTopology = cmp.Or(take[*v1alpha1.NetworkTopology](f, "networkTopology"), c.job.Spec.NetworkTopology)
}

// mlPolicy sets up the rendezvous of a framework.
func (c *conversion) mlPolicy(f fields, nodes *replicatedJob, processes string) {
	if nodes == nil {
		return
	}
	switch {
	case f.has("torch"):
		c.rendezvous(nodes.name, nil)
		c.launch([][2]string{{"nproc_per_node", cmp.Or(processes, scalar(f.in("torch"), "numProcPerNode"), processesOf(nodes))}})
		f.in("torch").ignore("numProcPerNode")
	case processes != "":
		c.lose("spec.trainer.numProcPerNode", "give it to the program")
	}
	if launcher := c.task("launcher"); f.has("mpi") && launcher != nil && c.task(nodes.name) != nil {
		c.job.Spec.Framework = &v1alpha1.Framework{MPI: &v1alpha1.MPI{Launcher: launcher.Name, Worker: nodes.name}}
	}
}

// processesOf is how many processes torchrun starts in a pod where no field says that: one per GPU, or one per CPU where there is none.
func processesOf(r *replicatedJob) string {
	container := containerOf(r, trainerContainer)
	if container == nil {
		return ""
	}
	for _, list := range []corev1.ResourceList{container.Resources.Limits, container.Resources.Requests} {
		for name := range list {
			if strings.HasSuffix(string(name), "/gpu") {
				return "auto"
			}
		}
	}
	cpus := cmp.Or(container.Resources.Requests.Cpu().Value(), container.Resources.Limits.Cpu().Value(), 1)
	return strconv.FormatInt(cpus, 10)
}
