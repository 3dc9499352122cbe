package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestSuspendAndResume(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	running, suspended := jobIn("default", "llama", v1alpha1.StateRunning), jobIn("default", "mamba", v1alpha1.StateSuspended)
	suspended.Spec.Suspend = true
	over := jobIn("default", "t5", v1alpha1.StateCompleted)
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue}}
	const (
		onServer  = "PATCH " + theJobs + "/llama?dryRun=All&fieldManager=kubectl-lockstep " + `{"spec":{"suspend":true}}`
		suspends  = "PATCH " + theJobs + "/llama?fieldManager=kubectl-lockstep " + `{"spec":{"suspend":true}}`
		resumes   = "PATCH " + theJobs + "/mamba?fieldManager=kubectl-lockstep " + `{"spec":{"suspend":false}}`
		resource  = "trainingjob.lockstep.dev/"
		hasEnded  = "TrainingJob t5 has ended (Completed), and cannot be suspended: create a new one to train again"
		notServed = `trainingjobs.lockstep.dev "bert" is forbidden. The ClusterRole edit has all rights that this verb needs: ask an administrator to bind it to you`
	)
	for name, tc := range map[string]struct {
		args    []string
		says    string // the first line
		effect  bool
		written string
		err     string
	}{
		"suspend":           {[]string{"suspend", "llama"}, resource + "llama suspended", true, suspends, ""},
		"resume":            {[]string{"resume", "tj/mamba"}, resource + "mamba resumed", true, resumes, ""},
		"server dry run":    {[]string{"suspend", "llama", "--dry-run=server"}, resource + "llama suspended (server dry run)", false, onServer, ""},
		"client dry run":    {[]string{"suspend", "llama", "--dry-run=client"}, resource + "llama suspended (dry run)", false, "", ""},
		"suspended already": {[]string{"suspend", "mamba"}, resource + "mamba is suspended already", false, "", ""},
		"not suspended":     {[]string{"resume", "llama"}, resource + "llama is not suspended", false, "", ""},
		"ended":             {[]string{"suspend", "t5", "llama"}, resource + "llama suspended", true, suspends, hasEnded},
		"no right":          {[]string{"suspend", "bert"}, "", false, "", notServed},
		"no name":           {[]string{"resume"}, "", false, "", errNoName.Error()},
		"no such dry run":   {[]string{"resume", "llama", "--dry-run=yes"}, "", false, "", "invalid argument \"yes\" for \"--dry-run\" flag: it has to be none, client or server\nSee 'kubectl lockstep resume --help' for usage"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{objects: map[string]any{
				theJobs + "/llama": running, theJobs + "/mamba": suspended, theJobs + "/t5": over,
				theJobs + "/bert": refusal(403, metav1.StatusReasonForbidden, `trainingjobs.lockstep.dev "bert" is forbidden`),
			}}
			out, err := lockstep(append(tc.args, s.serve(t, core, product))...)
			message := ""
			if err != nil {
				message = err.Error()
			}
			check.Equal(t, "error", tc.err, message)
			first, rest, _ := strings.Cut(out, "\n")
			check.Equal(t, "says", tc.says, first)
			check.Equal(t, "says what happens", tc.effect, rest != "")
			check.Equal(t, "written", tc.written, strings.Join(s.written, "\n"))
		})
	}
}
