// The supervisor of a pod's program: lockstep-run, which an init container puts beside it.

package volcano

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// TokenAudience is the audience of the tokens by which pods identify themselves to the manager.
const TokenAudience = "lockstep-supervisor"

// Folders and files of supervised pods.
const (
	supervisorVolume = "lockstep-run"
	identityVolume   = "lockstep-identity"
	identityFolder   = "/var/run/secrets/lockstep.dev"
	installContainer = "lockstep-run-install"
)

// tokenSeconds is how long a pod's token is good for. The kubelet renews it after four fifths of that.
const tokenSeconds = 3600

// Supervision is where supervisors come from, and how they reach the manager.
type Supervision struct {
	// Image that holds /lockstep-run.
	Image string
	// Address of the manager, host:port, and the name in its certificate.
	Address, ServerName string
}

// supervise puts the program of a pod's first container under a supervisor.
func supervise(spec *corev1.PodSpec, s *v1alpha1.Supervisor, from *Supervision) {
	program := &spec.Containers[0]
	spec.InitContainers = append([]corev1.Container{installer(program, from.Image)}, spec.InitContainers...)
	flags := []string{
		v1alpha1.SupervisorFolder + "/lockstep-run", "run",
		"--epoch-file=" + v1alpha1.SupervisorFolder + "/epoch",
		"--manager-address=" + from.Address, "--server-name=" + from.ServerName,
		"--token-file=" + identityFolder + "/token", "--ca-file=" + identityFolder + "/ca.crt",
		fmt.Sprintf("--stop-timeout=%ds", ptr.Deref(s.StopSeconds, 10)),
		fmt.Sprintf("--manager-timeout=%ds", ptr.Deref(s.ManagerTimeoutSeconds, 60)),
	}
	flags = append(flags, progressFlags(s.Progress)...)
	if len(s.CheckpointTiers) > 0 {
		flags = append(flags, "--checkpoint-tiers="+asJSON(s.CheckpointTiers))
	}
	flags = append(flags, warmUpFlags(s.TakeOver)...)
	if path := program.TerminationMessagePath; path != "" {
		flags = append(flags, "--termination-log="+path)
	}
	if slices.ContainsFunc(slices.Concat(program.Command, program.Args), func(word string) bool { return strings.Contains(word, "$") }) {
		// The kubelet would fill in variables once, and those of an epoch, or of a rank that a spare takes over, are others by then.
		flags = append(flags, "--expand")
		program.Command, program.Args = escaped(program.Command), escaped(program.Args)
	}
	program.Command = slices.Concat(flags, []string{"--"}, program.Command)
	env := []corev1.EnvVar{fromAnnotation("LOCKSTEP_EPOCH", v1alpha1.AnnotationEpoch)}
	if s.TakeOver != nil {
		env = append(env, fromAnnotation("LOCKSTEP_RUN_STANDBY", v1alpha1.AnnotationStandby))
	}
	program.Env = slices.Concat(env, program.Env)
	program.VolumeMounts = append(program.VolumeMounts,
		corev1.VolumeMount{Name: supervisorVolume, MountPath: v1alpha1.SupervisorFolder},
		corev1.VolumeMount{Name: identityVolume, MountPath: identityFolder, ReadOnly: true},
	)
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: supervisorVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, identity())
}

// progressFlags are how a supervisor sees progress.
func progressFlags(p *v1alpha1.Progress) (flags []string) {
	if p == nil {
		return nil
	}
	if p.CheckpointFile != "" {
		flags = append(flags, "--checkpoint-file="+p.CheckpointFile)
	}
	if logs := p.Logs; logs != nil {
		said := map[string]string{}
		for name, pattern := range map[string]*v1alpha1.LogPattern{
			"trainingStep": logs.TrainingStep, "checkpointSave": logs.CheckpointSave, "checkpointDone": logs.CheckpointDone,
		} {
			if pattern != nil {
				said[name] = pattern.Regex
			}
		}
		if logs.Preset != "" {
			said["preset"] = string(logs.Preset)
		}
		flags = append(flags, "--log-patterns="+asJSON(said))
	}
	return flags
}

// warmUpFlags are how a spare warms up.
func warmUpFlags(t *v1alpha1.TakeOver) []string {
	if t == nil || t.WarmUp == nil {
		return nil
	}
	return []string{"--warm-up=" + asJSON(t.WarmUp.Command), fmt.Sprintf("--warm-up-timeout=%ds", ptr.Deref(t.WarmUp.TimeoutSeconds, 600))}
}

// asJSON is a value of strings alone as JSON in a command. Of $$ the kubelet leaves one $, and $(NAME) is a variable to it.
func asJSON(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // with sorted keys
	return escaped([]string{strings.TrimSpace(text.String())})[0]
}

// escaped are texts of which the kubelet expands nothing.
func escaped(texts []string) (out []string) {
	for _, text := range texts {
		out = append(out, strings.ReplaceAll(text, "$", "$$"))
	}
	return out
}

// installer copies lockstep-run into the pod, as the user of the program and within the limits of restricted Pod Security. Its
// requests are its limits, so that a Guaranteed pod stays one.
func installer(program *corev1.Container, image string) corev1.Container {
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if s := program.SecurityContext; s != nil {
		security.RunAsUser, security.RunAsGroup, security.RunAsNonRoot = s.RunAsUser, s.RunAsGroup, s.RunAsNonRoot
	}
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.Container{
		Name: installContainer, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/lockstep-run", "install", v1alpha1.SupervisorFolder},
		SecurityContext: security,
		Resources:       corev1.ResourceRequirements{Requests: resources, Limits: resources.DeepCopy()},
		VolumeMounts:    []corev1.VolumeMount{{Name: supervisorVolume, MountPath: v1alpha1.SupervisorFolder}},
	}
}

// identity is how a pod and the manager know each other: a token of the pod, and the manager's certificate authorities.
func identity() corev1.Volume {
	return corev1.Volume{Name: identityVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: TokenAudience, ExpirationSeconds: new(int64(tokenSeconds)), Path: "token"}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
			Path:     "ca.crt",
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + v1alpha1.AnnotationManagerCA + "']"},
		}}}},
	}}}}
}
