// Lifting a gate: one patch gives a pod its node affinity, its tolerations and its annotations,
// and removes the gate. Kubernetes allows a gated pod's affinity to be tightened.

package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/writes"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/placement"
)

func (a *actor) lift(ctx context.Context, l policies.Lift) error {
	pod := &corev1.Pod{}
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: l.Pod}, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	m := a.memoryOf(a.job)
	if string(pod.UID) != l.UID || !gated(pod) || m.opened.of(l.UID) {
		return nil // another pod by now, or lifted before: its own event brings us back
	}
	before := pod.DeepCopy()
	confine(&pod.Spec, l.Target)
	tolerate(&pod.Spec, l.Tolerate)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, l.Annotations)
	if err := a.authorize(pod); err != nil {
		return err
	}
	pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.PlacementGate
	})
	err := writes.PatchPod(ctx, a.Client, before, pod)
	if err == nil {
		a.lifted.put(pod)
		m.opened.note(l.UID, true)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("lift the gate of pod %s: %w", l.Pod, err)
	}
	return nil
}

// liftedPods are the pods whose gates this pass has lifted, as the API server returned them.
type liftedPods struct {
	mu   sync.Mutex
	pods map[string]*corev1.Pod
}

func (l *liftedPods) put(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods == nil {
		l.pods = map[string]*corev1.Pod{}
	}
	l.pods[pod.Name] = pod
}

// get returns a copy of a pod; nil for one whose gate has not been lifted.
func (l *liftedPods) get(name string) *corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[name].DeepCopy()
}

// relabel has the label of a pod say whether it is a spare.
func (a *actor) relabel(ctx context.Context, l policies.Relabel) error {
	return a.label(ctx, l.Pod, l.UID, v1alpha1.LabelSpare, strconv.FormatBool(l.Spare))
}

// label gives a pod a label. It leaves another pod of the name as it is.
func (a *actor) label(ctx context.Context, name, uid, key, value string) error {
	pod := &corev1.Pod{}
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: name}, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if string(pod.UID) != uid {
		return nil
	}
	before := pod.DeepCopy()
	pod.Labels[key] = value
	if err := client.IgnoreNotFound(writes.PatchPod(ctx, a.Client, before, pod)); err != nil {
		return fmt.Errorf("label pod %s: %w", name, err)
	}
	return nil
}

// tolerate lets a pod that looks for a node pass holds of other jobs. Kubernetes allows tolerations to be added.
func (a *actor) tolerate(ctx context.Context, t placement.Toleration) error {
	pod := &corev1.Pod{}
	if err := a.Get(ctx, client.ObjectKey{Namespace: a.job.Namespace, Name: t.Pod}, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if string(pod.UID) != t.UID || pod.Spec.NodeName != "" {
		return nil // another pod by now, or placed
	}
	before := pod.DeepCopy()
	tolerate(&pod.Spec, t.Keys)
	if err := client.IgnoreNotFound(writes.PatchPod(ctx, a.Client, before, pod)); err != nil {
		return fmt.Errorf("let pod %s pass holds: %w", t.Pod, err)
	}
	return nil
}

// tolerate adds tolerations for holds.
func tolerate(spec *corev1.PodSpec, holds []string) {
	for _, key := range holds {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
}

// confine adds a target to every alternative of a pod's required node affinity.
func confine(spec *corev1.PodSpec, target placement.Target) {
	var rules []corev1.NodeSelectorRequirement
	if target.In != nil {
		rules = append(rules, corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: target.In})
	}
	if len(target.NotIn) > 0 {
		rules = append(rules, corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: target.NotIn})
	}
	if len(rules) == 0 {
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, rules...)
	}
}
