// Package policy tests the policy of the manager without an API server: its expressions are compiled and evaluated by the API server's
// own code. test/e2e tests it on one.
package policy

import (
	"bytes"
	_ "embed"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	disruption "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

//go:embed manager.yaml
var manifest []byte

const manager = "system:serviceaccount:lockstep-system:lockstep-manager"

// policy is what an API server makes of a ValidatingAdmissionPolicy.
type policy struct {
	rules     []admissionregistrationv1.NamedRuleWithOperations
	validator validating.Validator
}

// read compiles the policy as the API server does (compilePolicy in its package validating).
func read(t *testing.T) policy {
	t.Helper()
	parsed := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 1<<16).Decode(parsed); err != nil {
		t.Fatal(err)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	compile := func(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	}
	spec := &parsed.Spec
	var variables []cel.NamedExpressionAccessor
	for _, v := range spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var conditions, validations []cel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	for _, v := range spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
	}
	matcher := matchconditions.NewMatcher(compile(conditions), spec.FailurePolicy, "policy", "validate", parsed.Name)
	return policy{
		spec.MatchConstraints.ResourceRules,
		validating.NewValidator(compile(validations), matcher, compile(nil), compile(nil), spec.FailurePolicy, nil),
	}
}

// request is a write to the API server.
type request struct {
	by          string
	resource    schema.GroupVersionResource
	subresource string
	before      metav1.Object // nil for a creation
	after       metav1.Object // nil for a deletion
}

// refusal returns why a write is refused; empty for one that is admitted.
func (p policy) refusal(t *testing.T, r request) string {
	t.Helper()
	object, of := r.after, admission.Update
	switch {
	case r.before == nil:
		of = admission.Create
	case r.after == nil:
		object, of = r.before, admission.Delete
	}
	asObject := func(o metav1.Object) runtime.Object {
		out, _ := o.(runtime.Object)
		return out
	}
	attributes := admission.NewAttributesRecord(asObject(r.after), asObject(r.before), schema.GroupVersionKind{}, object.GetNamespace(), object.GetName(),
		r.resource, r.subresource, of, nil, false, &user.DefaultInfo{Name: r.by})
	if !p.concerns(attributes) {
		return ""
	}
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedObject: admission.NewLazyObject(asObject(r.after)), VersionedOldObject: admission.NewLazyObject(asObject(r.before)),
	}
	var why []string
	for _, d := range p.validator.Validate(t.Context(), r.resource, versioned, nil, nil, celconfig.RuntimeCELCostBudget, nil).Decisions {
		if d.Evaluation == validating.EvalError {
			t.Errorf("an expression fails: %s", d.Message)
		}
		if d.Action == validating.ActionDeny {
			why = append(why, d.Message)
		}
	}
	return strings.Join(why, "\n")
}

func (p policy) concerns(attributes admission.Attributes) bool {
	for i := range p.rules {
		matcher := rules.Matcher{Rule: p.rules[i].RuleWithOperations, Attr: attributes}
		if matcher.Matches() {
			return true
		}
	}
	return false
}

// changed returns a copy of an object with a change.
func changed[T interface{ DeepCopy() T }](o T, change func(T)) T {
	out := o.DeepCopy()
	change(out)
	return out
}

var (
	volcanoJobs = batch.SchemeGroupVersion.WithResource("jobs")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	nodes       = corev1.SchemeGroupVersion.WithResource("nodes")
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	budgets     = disruption.SchemeGroupVersion.WithResource("poddisruptionbudgets")
)

func aVolcanoJob() *batch.Job {
	return &batch.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "research", Name: "llm-1", Labels: map[string]string{v1alpha1.LabelUID: "0123"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "lockstep.dev/v1alpha1", Kind: "TrainingJob", Name: "llm", UID: "0123", Controller: new(true)}},
	}}
}

// What runs pods for the manager is controlled by a TrainingJob, and is not where the control plane or the manager itself runs.
func TestVolcanoJobsOfTheManager(t *testing.T) {
	p := read(t)
	const none, controlled, elsewhere = "", "has to be controlled by the TrainingJob", "may create no Volcano Jobs in its own namespace"
	for name, tc := range map[string]struct {
		change func(*batch.Job)
		why    string
	}{
		"of a TrainingJob":               {func(*batch.Job) {}, none},
		"of nobody":                      {func(v *batch.Job) { v.OwnerReferences = nil }, controlled},
		"of another kind":                {func(v *batch.Job) { v.OwnerReferences[0].Kind = "ConfigMap" }, controlled},
		"of another group":               {func(v *batch.Job) { v.OwnerReferences[0].APIVersion = "example.com/v1" }, controlled},
		"owned, and not controlled":      {func(v *batch.Job) { v.OwnerReferences[0].Controller = nil }, controlled},
		"of another TrainingJob":         {func(v *batch.Job) { v.OwnerReferences[0].UID = "another" }, controlled},
		"without the label":              {func(v *batch.Job) { v.Labels = nil }, "may change and delete what belongs to TrainingJobs"},
		"in a namespace of Kubernetes":   {func(v *batch.Job) { v.Namespace = metav1.NamespaceSystem }, elsewhere},
		"in the manager's own namespace": {func(v *batch.Job) { v.Namespace = "lockstep-system" }, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.why, p.refusal(t, request{by: manager, resource: volcanoJobs, after: changed(aVolcanoJob(), tc.change)}))
		})
	}
	freed := changed(aVolcanoJob(), func(v *batch.Job) { v.OwnerReferences = nil })
	expect(t, controlled, p.refusal(t, request{by: manager, resource: volcanoJobs, before: aVolcanoJob(), after: freed}))
	expect(t, none, p.refusal(t, request{by: manager, resource: volcanoJobs, before: aVolcanoJob()}))
	expect(t, none, p.refusal(t, request{by: "somebody", resource: volcanoJobs, after: freed}))
}

// What keeps pods from eviction is for the pods of the TrainingJob that controls it.
func TestPodDisruptionBudgetsOfTheManager(t *testing.T) {
	p := read(t)
	budget := &disruption.PodDisruptionBudget{
		ObjectMeta: aVolcanoJob().ObjectMeta,
		Spec:       disruption.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelUID: "0123"}}},
	}
	for name, tc := range map[string]struct {
		change func(*disruption.PodDisruptionBudget)
		why    string
	}{
		"of a TrainingJob":    {func(*disruption.PodDisruptionBudget) {}, ""},
		"of nobody":           {func(b *disruption.PodDisruptionBudget) { b.OwnerReferences = nil }, "has to be controlled by the TrainingJob"},
		"without the label":   {func(b *disruption.PodDisruptionBudget) { b.Labels = nil }, "may change and delete what belongs to TrainingJobs"},
		"for all pods":        {func(b *disruption.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, "has to be for the pods"},
		"for those of others": {func(b *disruption.PodDisruptionBudget) { b.Spec.Selector.MatchLabels[v1alpha1.LabelUID] = "another" }, "has to be for the pods"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.why, p.refusal(t, request{by: manager, resource: budgets, after: changed(budget, tc.change)}))
		})
	}
	foreign := changed(budget, func(b *disruption.PodDisruptionBudget) { b.Labels = nil })
	expect(t, "may change and delete what belongs to TrainingJobs", p.refusal(t, request{by: manager, resource: budgets, before: foreign}))
	expect(t, "", p.refusal(t, request{by: manager, resource: budgets, before: budget}))
}

func TestPodsAndSecretsOfTheManager(t *testing.T) {
	p := read(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "llm-1-worker-0", Labels: map[string]string{v1alpha1.LabelUID: "0123"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "train"}}},
	}
	foreign := changed(pod, func(p *corev1.Pod) { p.Labels = nil })
	const theirs, containers, authority = "may change and delete what belongs to TrainingJobs", "may not change containers of pods", "may write no Secrets but"
	secret := func(name string, kind corev1.SecretType) request {
		return request{by: manager, resource: secrets, after: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lockstep-system", Name: name}, Type: kind}}
	}
	for name, tc := range map[string]struct {
		request
		why string
	}{
		"a gate of a pod":   {request{by: manager, resource: pods, before: pod, after: changed(pod, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })}, ""},
		"an image":          {request{by: manager, resource: pods, before: pod, after: changed(pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" })}, containers},
		"an init container": {request{by: manager, resource: pods, before: pod, after: changed(pod, func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers })}, containers},
		"another's pod":     {request{by: manager, resource: pods, before: foreign, after: pod}, theirs},
		"its deletion":      {request{by: manager, resource: pods, before: foreign}, theirs},
		"the authority":     {secret("lockstep-supervisor-ca", corev1.SecretTypeTLS), ""},
		"a token":           {secret("lockstep-supervisor-ca", corev1.SecretTypeServiceAccountToken), authority},
		"another Secret":    {secret("other", corev1.SecretTypeTLS), authority},
	} {
		t.Run(name, func(t *testing.T) { expect(t, tc.why, p.refusal(t, tc.request)) })
	}
}

func TestNodesOfTheManager(t *testing.T) {
	p := read(t)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n0", Labels: map[string]string{"pool": "gpu"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.com/theirs", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	const metadata, spec, taints, status, conditions = "may not change labels", "of the spec of nodes", "may change taints of", "of the status of nodes", "may change conditions of"
	for name, tc := range map[string]struct {
		subresource string
		change      func(*corev1.Node)
		why         string
	}{
		"a hold": {"", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.HoldTaintPrefix + "llm", Effect: corev1.TaintEffectNoSchedule})
		}, ""},
		"another taint": {"", func(n *corev1.Node) { n.Spec.Taints = nil }, taints},
		"a label":       {"", func(n *corev1.Node) { n.Labels["pool"] = "cpu" }, metadata},
		"a cordon":      {"", func(n *corev1.Node) { n.Spec.Unschedulable = true }, spec},
		"its condition": {"status", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "lockstep.dev/Healthy", Status: corev1.ConditionTrue})
		}, ""},
		"another condition": {"status", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, conditions},
		"its capacity":      {"status", func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"pods": {}} }, status},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.why, p.refusal(t, request{by: manager, resource: nodes, subresource: tc.subresource, before: node, after: changed(node, tc.change)}))
		})
	}
}

// expect compares why a write is refused with what the reason has to contain; empty where the write has to be admitted.
func expect(t *testing.T, want, got string) {
	t.Helper()
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("refused because of %q, want %q", got, want)
	}
}
