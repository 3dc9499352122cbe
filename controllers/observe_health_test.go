package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/fleet"
	"github.com/lockstep-dev/lockstep/test/check"
)

// faultUnderAPod says that a GPU of n1 has failed, which worker 1 of the job holds.
func faultUnderAPod() *v1alpha1.NodeHealth {
	return &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeHealthStatus{
		Reports: []v1alpha1.HealthReport{{
			Source: "dcgm", Entity: "gpu/GPU-1", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0),
			Pods: []string{"research/llm-1-worker-1"},
		}},
	}}
}

// A fault of a GPU moves the pod that holds it, off its node, and no other pod.
func TestFailedGPUMovesItsPod(t *testing.T) {
	e := running(t)
	health := faultUnderAPod()
	health.Status.Verdict = &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, AdmittedTime: new(metav1.NewTime(t0))}
	e.Must(e.API.Create(t.Context(), health))
	e.Calls = nil
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm", "delete *v1.Pod llm-1-worker-1"}, e.Calls)
	inc := e.job().Status.Incidents[0]
	check.Equal(t, "trigger", v1alpha1.HealthFailed, inc.Trigger)
	check.Equal(t, "signal", "XID79", inc.Cause.Signal)
	check.Equal(t, "excluded", "n1", e.job().Status.ExcludedNodes[0].Name)

	e.volcano(1)
	e.settle()
	in := e.pod("llm-1-worker-1").Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values
	check.Equal(t, "may go to", []string{"host-n0", "host-n2"}, in)
}

// The use of GPUs is that of the pods on the node that says it, and of no others.
func TestPodsWhoseGPUsSpin(t *testing.T) {
	e := running(t)
	health := &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeHealthStatus{Sources: []v1alpha1.HealthSource{{
		Name: "dcgm", State: v1alpha1.HealthHealthy, HeartbeatTime: new(metav1.NewTime(t0)), Spinning: []v1alpha1.SpinningPod{
			{Pod: "research/llm-1-worker-0", Since: metav1.NewTime(t0)}, {Pod: "research/llm-1-worker-1", Since: metav1.NewTime(t0)},
		},
	}}}}
	e.Must(e.API.Create(t.Context(), health))
	o, err := e.r.observe(t.Context(), e.job())
	e.Must(err)
	spin := map[string]bool{}
	for _, p := range o.Pods {
		spin[p.Name] = p.SpinsSince.Equal(t0)
	}
	check.Equal(t, "pods", map[string]bool{"llm-1-worker-0": false, "llm-1-worker-1": true}, spin)
}

// A verdict that the fleet controller of this process has recorded counts before the cache shows it.
func TestVerdictCountsBeforeTheCacheShowsIt(t *testing.T) {
	e := running(t)
	health := faultUnderAPod()
	e.Must(e.API.Create(t.Context(), health))
	e.Calls = nil
	_, err := e.reconcile()
	e.Must(err)
	check.Equal(t, "writes before", nil, e.Calls)

	e.r.Verdicts = &fleet.Verdicts{}
	wakes := e.r.Verdicts.Woken()
	health.ResourceVersion += "0"
	health.Status.Verdict = &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, AdmittedTime: new(metav1.NewTime(t0))}
	go e.r.Verdicts.Note(t.Context(), health)
	check.Equal(t, "looks at the jobs on", "n1", take(t, "a wake", wakes).Object.GetName())
	_, err = e.reconcile()
	e.Must(err)
	check.Equal(t, "writes", []string{"update the status of *v1alpha1.TrainingJob llm", "delete *v1.Pod llm-1-worker-1"}, e.Calls)
}

// What the breaker holds back is not believed.
func TestWhatIsHeldBackMovesNothing(t *testing.T) {
	for name, verdict := range map[string]*v1alpha1.HealthVerdict{
		"not looked at yet": nil,
		"held back":         {State: v1alpha1.HealthStateFailed, HeldBackTime: new(metav1.NewTime(t0)), HeldBackBy: "cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			e := running(t)
			e.Must(e.API.Create(t.Context(), &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeHealthStatus{
				Verdict: verdict,
				Reports: []v1alpha1.HealthReport{{Source: "dcgm", Entity: "node", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(t0)}},
			}}))
			e.Calls = nil
			_, err := e.reconcile()
			e.Must(err)
			check.Equal(t, "writes", nil, e.Calls)
		})
	}
}

// A node in quarantine takes no pod, not even one that tolerates every taint, while it is well
// for the moment: neither at the first start nor at home.
func TestQuarantineKeepsWhatToleratesEverythingAway(t *testing.T) {
	job := aJob()
	job.Spec.Tasks[0].Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	well := func(node string) *v1alpha1.NodeHealth {
		return &v1alpha1.NodeHealth{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeHealthStatus{Verdict: &v1alpha1.HealthVerdict{
			State: v1alpha1.HealthHealthy, AdmittedTime: new(metav1.NewTime(t0)), QuarantinedTime: new(metav1.NewTime(t0)), WellTime: new(metav1.NewTime(t0)),
		}}}
	}
	e := newEnv(t, job, well("n2"), well("gone"))
	e.settle()
	e.volcano(1)
	e.settle()
	first := e.pod("llm-1-worker-1").Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	check.Equal(t, "at the first start", corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"host-n2"}}, first)

	e.run("llm-1-worker-0", "n0")
	e.run("llm-1-worker-1", "n1")
	e.settle()
	e.Must(e.API.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	e.r.topology.Invalidate()
	e.settle()
	e.Must(client.IgnoreNotFound(e.API.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "llm-1-worker-1"}})))
	e.volcano(1)
	e.settle()
	home := e.pod("llm-1-worker-1").Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	check.Equal(t, "at home", []string{"host-n0"}, home.Values)
}
