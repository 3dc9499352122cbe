package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/placement"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestConfine(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	notIn := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"h9"}}
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	term := func(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: r}
	}
	preferred := &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term(in("zone", "z"))}}}
	home := placement.Target{In: []string{"h1", "h2"}}
	tests := map[string]struct {
		affinity *corev1.Affinity
		target   placement.Target
		want     *corev1.Affinity
	}{
		"anywhere":               {nil, placement.Target{}, nil},
		"anywhere, with its own": {required(term(in("zone", "z"))), placement.Target{}, required(term(in("zone", "z")))},
		"home":                   {nil, home, required(term(in(corev1.LabelHostname, "h1", "h2")))},
		"not there":              {nil, placement.Target{NotIn: []string{"h9"}}, required(term(notIn))},
		"home, and not there":    {nil, placement.Target{In: []string{"h1"}, NotIn: []string{"h9"}}, required(term(in(corev1.LabelHostname, "h1"), notIn))},
		// Terms are alternatives: one that is not tightened would be a way out.
		"each of its own terms is tightened": {
			required(term(in("zone", "y")), term(in("zone", "z"))), home,
			required(term(in("zone", "y"), in(corev1.LabelHostname, "h1", "h2")), term(in("zone", "z"), in(corev1.LabelHostname, "h1", "h2"))),
		},
		"what it prefers is kept": {
			&corev1.Affinity{NodeAffinity: preferred.DeepCopy(), PodAffinity: &corev1.PodAffinity{}}, home,
			&corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: preferred.PreferredDuringSchedulingIgnoredDuringExecution,
				RequiredDuringSchedulingIgnoredDuringExecution:  required(term(in(corev1.LabelHostname, "h1", "h2"))).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := corev1.PodSpec{Affinity: tc.affinity}
			confine(&spec, tc.target)
			if diff := cmp.Diff(tc.want, spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
		})
	}
}

// Another job's hold may come after the gate was lifted.
func TestToleratesHoldsOfOtherJobs(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	e.settle()
	pod := e.pod("llm-1-worker-0")
	before := len(pod.Spec.Tolerations)
	a := actor{TrainingJobReconciler: e.r, job: e.job()}
	add := func(uid string, keys ...string) gang.Pod {
		t.Helper()
		e.Must(a.tolerate(t.Context(), placement.Toleration{Pod: pod.Name, UID: uid, Keys: keys}))
		pod = e.pod(pod.Name)
		return podFor(e.job(), pod)
	}
	one, two := v1alpha1.HoldTaintPrefix+"one", v1alpha1.HoldTaintPrefix+"two"
	check.Equal(t, "tolerates", []string{one}, add(string(pod.UID), one).Tolerates)
	check.Equal(t, "tolerates", []string{one, two}, add(string(pod.UID), two).Tolerates)
	check.Equal(t, "another pod of the name", []string{one, two}, add("another", v1alpha1.HoldTaintPrefix+"three").Tolerates)
	check.Equal(t, "tolerations", before+2, len(pod.Spec.Tolerations))
	e.run(pod.Name, "n0")
	check.Equal(t, "once it is bound", []string{one, two}, add(string(pod.UID), v1alpha1.HoldTaintPrefix+"three").Tolerates)
}

// The plan was made from a cache that had yet to show that the gate was lifted.
func TestLiftsNoGateTwice(t *testing.T) {
	e := newEnv(t, aJob())
	e.settle()
	e.volcano(1)
	e.settle()
	pod := e.pod("llm-1-worker-0")
	a := actor{TrainingJobReconciler: e.r, job: e.job()}
	e.Calls = nil
	e.Must(a.lift(t.Context(), policies.Lift{Pod: pod.Name, UID: string(pod.UID), Target: placement.Target{In: []string{"host-n5"}}}))
	check.Equal(t, "writes", nil, e.Calls)
}

// The label of spares follows a take-over. Another pod of the name keeps its own.
func TestRelabelsPods(t *testing.T) {
	e := running(t)
	a := actor{TrainingJobReconciler: e.r, job: e.job()}
	name := "llm-1-worker-0"
	for _, step := range []struct {
		relabel policies.Relabel
		want    string
	}{
		{policies.Relabel{Pod: name, UID: string(e.pod(name).UID), Spare: true}, "true"},
		{policies.Relabel{Pod: name, UID: string(e.pod(name).UID), Spare: true}, "true"},
		{policies.Relabel{Pod: name, UID: "of another"}, "true"},
		{policies.Relabel{Pod: name, UID: string(e.pod(name).UID)}, "false"},
		{policies.Relabel{Pod: name, UID: string(e.pod(name).UID)}, "false"},
		{policies.Relabel{Pod: "gone", UID: "gone"}, "false"},
	} {
		e.Must(a.relabel(t.Context(), step.relabel))
		check.Equal(t, "label", step.want, e.pod(name).Labels["lockstep.dev/spare"])
	}
	check.Equal(t, "another label", "worker", e.pod(name).Labels["lockstep.dev/task"])
}
