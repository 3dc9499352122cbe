package main

import (
	"bytes"
	"strings"
	"testing"

	kcheck "github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	"github.com/lockstep-dev/lockstep/test/check"
)

var twoFindings = kcheck.Report{Problems: 1, Warnings: 1, Skipped: 1, Checks: []kcheck.Result{
	{Check: "volcano", Saw: "v1.14.2", Findings: []kcheck.Finding{{
		Severity: kcheck.Warning, Subject: "Volcano/v1.14.2", What: "Pods that return to held nodes wait for the scheduler, since Lockstep binds none itself here.",
		Fix: "Use Volcano 1.14.1, if recoveries are to be faster.",
	}}},
	{Check: "webhooks", Lacks: []kcheck.Resource{kcheck.MutatingWebhooks, kcheck.ValidatingWebhooks}},
	{Check: "queues", Saw: "1 queue of 3 TrainingJobs"},
	{Check: "taints", Saw: "1 taint of Lockstep's on 4 nodes", Findings: []kcheck.Finding{{
		Severity: kcheck.Problem, Subject: "Node/gpu-1", What: "The taint hold.lockstep.dev/llama-0123=standing keeps jobs away, and the TrainingJob that held the node does not exist.",
		Fix: "Remove it.", Command: "kubectl taint node gpu-1 hold.lockstep.dev/llama-0123:NoSchedule-",
	}}},
}}

func TestTheReportIsPrinted(t *testing.T) {
	var out bytes.Buffer
	if err := printReport(&out, twoFindings); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "report", `CHECK      RESULT      OF
volcano    1 warning   v1.14.2
webhooks   skipped     needs mutatingwebhookconfigurations and 1 more
queues     ok          1 queue of 3 TrainingJobs
taints     1 problem   1 taint of Lockstep's on 4 nodes

Warning: Volcano/v1.14.2
  Pods that return to held nodes wait for the scheduler, since Lockstep binds
  none itself here.
  To do: Use Volcano 1.14.1, if recoveries are to be faster.

Problem: Node/gpu-1
  The taint hold.lockstep.dev/llama-0123=standing keeps jobs away, and the
  TrainingJob that held the node does not exist.
  To do: Remove it.
    kubectl taint node gpu-1 hold.lockstep.dev/llama-0123:NoSchedule-

4 checks, 1 skipped: 1 problem, 1 warning.
`, out.String())
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown format":    {[]string{"-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: it has to be json or yaml`},
		"an argument too many": {[]string{"llama"}, `unknown command "llama"`},
		"nobody answers":       {[]string{"--server", "https://127.0.0.1:1"}, "unable to connect to the server: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lockstep(append([]string{"check"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
