package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

const theHealths, thePolicy = "/apis/lockstep.dev/v1alpha1/nodehealths", "/apis/lockstep.dev/v1alpha1/healthpolicies/cluster"

func healthOf(name string, since ...metav1.Time) v1alpha1.NodeHealth {
	h := v1alpha1.NodeHealth{TypeMeta: metav1.TypeMeta{Kind: "NodeHealth", APIVersion: "lockstep.dev/v1alpha1"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, at := range since {
		h.Status.Reports = append(h.Status.Reports, v1alpha1.HealthReport{Source: "dcgm", Entity: "node", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: at})
	}
	return h
}

// The clock of the API server is at 04:00, and faults began at 03:00 and 03:30.
func TestAcknowledgements(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	first, second := metav1.NewTime(day.Add(3*time.Hour)), metav1.NewTime(day.Add(3*time.Hour+30*time.Minute))
	acked := healthOf("acked", first)
	acked.Spec.AcknowledgedTime = &second
	const (
		node    = "PATCH " + theHealths + "/"
		manager = "?fieldManager=kubectl-lockstep "
	)
	for name, tc := range map[string]struct {
		args    []string
		says    string // the last line
		written string
		err     string
	}{
		"what is shown": {[]string{"node", "ill"}, "nodehealth.lockstep.dev/ill acknowledged: faults up to 2026-01-02 03:30:01 UTC", node + "ill" + manager + `{"spec":{"acknowledgedTime":"2026-01-02T03:30:01Z"}}`, ""},
		"until now":     {[]string{"node", "ill", "--until-now"}, "nodehealth.lockstep.dev/ill acknowledged: faults up to 2026-01-02 04:00:01 UTC", node + "ill" + manager + `{"spec":{"acknowledgedTime":"2026-01-02T04:00:01Z"}}`, ""},
		"until now, of a node whose clock is ahead": {[]string{"node", "ahead", "--until-now"}, "nodehealth.lockstep.dev/ahead acknowledged: faults up to 2026-01-02 05:00:01 UTC", node + "ahead" + manager + `{"spec":{"acknowledgedTime":"2026-01-02T05:00:01Z"}}`, ""},
		"nothing": {[]string{"node", "well"}, "nodehealth.lockstep.dev/well not changed: nothing is left to acknowledge", "", ""},
		"nothing, until now": {[]string{"node", "well", "--until-now", "--dry-run=server"}, "nodehealth.lockstep.dev/well acknowledged: faults up to 2026-01-02 04:00:01 UTC (server dry run)",
			node + "well?dryRun=All&fieldManager=kubectl-lockstep " + `{"spec":{"acknowledgedTime":"2026-01-02T04:00:01Z"}}`, ""},
		"already":            {[]string{"node", "acked"}, "nodehealth.lockstep.dev/acked not changed: nothing is left to acknowledge", "", ""},
		"breaker":            {[]string{"breaker"}, "nodes again from now on: `kubectl lockstep nodes --unhealthy` shows them.", "PATCH " + thePolicy + manager + `{"spec":{"breaker":{"acknowledgedTime":"2026-01-02T04:00:01Z"}}}`, ""},
		"a look at it":       {[]string{"breaker", "--dry-run=client"}, "healthpolicy.lockstep.dev/cluster acknowledged: faults up to 2026-01-02 04:00:01 UTC (dry run)", "", ""},
		"no breaker is open": {[]string{"breaker"}, "healthpolicy.lockstep.dev/cluster not changed: no breaker is open, and nothing is left to acknowledge", "", ""},
		"no right":           {[]string{"node", "secret"}, "", "", `nodehealths "secret" is forbidden. The ClusterRole lockstep-health-admin has all rights that this verb needs: ask an administrator to bind it to you`},
		"no such node":       {[]string{"node", "gone"}, "", "", `nodehealths "gone" not found: nothing was ever reported of a node of that name. ` + "`kubectl get nodehealths` lists those with reports"},
		"no name":            {[]string{"node"}, "", "", "the name of a node is missing: `kubectl lockstep nodes --unhealthy` lists those with faults"},
		"not that":           {[]string{"gpu-17"}, "", "", "say what is acknowledged: `kubectl lockstep ack node NODE` or `kubectl lockstep ack breaker`"},
		"names no more":      {[]string{"breaker", "cluster"}, "", "", `unknown command "cluster" for "kubectl lockstep ack breaker"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{now: day.Add(4 * time.Hour), objects: map[string]any{
				theHealths + "/ill": healthOf("ill", second, first), theHealths + "/well": healthOf("well"), theHealths + "/acked": acked,
				theHealths + "/ahead":  healthOf("ahead", metav1.NewTime(day.Add(5*time.Hour))),
				theHealths + "/secret": refusal(403, metav1.StatusReasonForbidden, `nodehealths "secret" is forbidden`),
				theHealths + "/gone":   refusal(404, metav1.StatusReasonNotFound, `nodehealths "gone" not found`),
			}}
			policy := v1alpha1.HealthPolicy{TypeMeta: metav1.TypeMeta{Kind: "HealthPolicy", APIVersion: "lockstep.dev/v1alpha1"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
			if name != "no breaker is open" {
				policy.Status.Breakers = []v1alpha1.OpenBreaker{{Scope: "cluster", OpenTime: first, HeldBack: 1}}
			}
			s.objects[thePolicy], s.objects["/apis/lockstep.dev/v1alpha1/trainingjobs"] = policy, listOf()
			out, err := lockstep(append(append([]string{"ack"}, tc.args...), s.serve(t, core, product))...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			said := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			check.Equal(t, "says", tc.says, said[len(said)-1])
			check.Equal(t, "written", tc.written, strings.Join(s.written, "\n"))
		})
	}
}

func at(minute int) metav1.Time { return metav1.Date(2026, 1, 2, 3, minute, 5, 0, time.UTC) }

// A node is shown with its faults, and is acknowledged until the last of them, or of its failures.
func TestWhatIsShownOfANode(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	h := healthOf("gpu-17", at(4), at(7))
	h.Status.Verdict = &v1alpha1.HealthVerdict{
		State: v1alpha1.HealthStateFailed, Since: at(7), QuarantinedTime: new(at(2)), Lemon: true, FailureTimes: []metav1.Time{at(1), at(2), at(6)},
	}
	s := &server{now: at(30).Time, objects: map[string]any{theHealths + "/gpu-17": h}}
	out, err := lockstep("ack", "node", "gpu-17", s.serve(t, core, product))
	check.Equal(t, "error", nil, err)
	text := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"dcgm reports XID79 of node, Failed since 03:04:05 UTC (26m ago)", "Failed since 03:07:05 UTC (23m ago)", "in quarantine since 03:02:05 UTC", "failed too often", "3 times lately",
		"Its quarantine ends when nothing of it has been Failed for quarantine.wellSeconds of the HealthPolicy, by default 10 minutes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	check.Equal(t, "until", at(7).Add(time.Second), faultsUntil(&h))
	h.Status.Reports = nil
	check.Equal(t, "until, of a lemon that is well", at(6).Add(time.Second), faultsUntil(&h))
	h.Status.Verdict.FailureTimes = nil
	check.Equal(t, "until, of nothing", time.Time{}, faultsUntil(&h))
}

func TestOpenBreakers(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	policy := v1alpha1.HealthPolicy{TypeMeta: metav1.TypeMeta{Kind: "HealthPolicy", APIVersion: "lockstep.dev/v1alpha1"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	policy.Status.Breakers = []v1alpha1.OpenBreaker{
		{Scope: "cluster", OpenTime: at(1), Nodes: []string{"n1", "n2"}, HeldBack: 2, Allowed: 2, WindowSeconds: 3600},
		{Scope: "hypernode/rack-0", OpenTime: at(2), Nodes: []string{"n3"}, HeldBack: 1},
	}
	s := &server{now: at(30).Time, objects: map[string]any{thePolicy: policy, "/apis/lockstep.dev/v1alpha1/trainingjobs": listOf()}}
	out, err := lockstep("ack", "breaker", "--dry-run=client", s.serve(t, core, product))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "out", `Open since 2026-01-02 03:01:05 UTC: the breaker of the cluster holds back 2 (n1,
n2), since more than 2 fell ill within 3600 s. `+"`kubectl lockstep nodes\n--unhealthy`"+` lists them.
Open since 2026-01-02 03:02:05 UTC: the breaker of HyperNode rack-0 holds back 1
(n3). `+"`kubectl lockstep nodes --unhealthy`"+` lists them.
healthpolicy.lockstep.dev/cluster acknowledged: faults up to 2026-01-02 03:30:06 UTC (dry run)
`, out)
}

func TestWhichJobsMayWait(t *testing.T) {
	job := func(name string, inc v1alpha1.Incident) v1alpha1.TrainingJob {
		return v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Status: v1alpha1.TrainingJobStatus{Incidents: []v1alpha1.Incident{inc}}}
	}
	elsewhere := job("elsewhere", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed})
	elsewhere.Spec.ManagedBy = "kueue.x-k8s.io/multikueue"
	check.Equal(t, "jobs", []string{"a/ill"}, waitingForAck([]v1alpha1.TrainingJob{
		elsewhere,
		job("ill", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed}),
		job("moved", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed, Steps: []v1alpha1.FiredStep{{Action: v1alpha1.MigratePod}}}),
		job("over", v1alpha1.Incident{Trigger: v1alpha1.HealthFailed, Outcome: v1alpha1.OutcomeRecovered}),
		job("crashed", v1alpha1.Incident{Trigger: v1alpha1.PodFailed}),
	}))
}
