package installation

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/check"
	equal "github.com/lockstep-dev/lockstep/test/check"
)

func none(found []check.Finding) bool { return len(found) == 0 }

func TestNothingIsFoundOnAGoodCluster(t *testing.T) {
	await(t, "nothing is found", none)
	stdout, stderr, code, err := run(t.Context())
	if err != nil || code != 0 || stderr != "" || !strings.Contains(stdout, " 0 skipped: 0 problems, 0 warnings.") {
		t.Errorf("exit code %d, error %v, %s\n%s", code, err, stderr, stdout)
	}
}

// The manager was started before the CRDs, and waited for them (see startManager).
func TestTheManagerIsReadyOnceItsCRDsAreThere(t *testing.T) {
	world{t}.await("the manager is ready", func(ctx ctxT) (bool, error) {
		status, err := probe(ctx, "readyz")
		return status == http.StatusOK, err
	})
}

// Each mistake is made, found, and undone; then nothing is found again. What is found beside it is named, too.
func TestEachMistakeIsFound(t *testing.T) {
	await(t, "nothing is found before", none)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			w := world{t}
			w.must(report(t.Context()), "have the agents report") // all mistakes together may take longer than agents may be silent
			undo := m.make(w)
			wanted := func(found []check.Finding) bool {
				return len(found) == len(m.found) && !slices.ContainsFunc(m.found, func(want finding) bool {
					return !slices.ContainsFunc(found, want.is)
				})
			}
			await(t, m.name+" is found", wanted)
			undo()
			await(t, "nothing is found after", none)
		})
	}
}

// A mistake shows in the exit code and in the text, with what to do.
func TestTheReportOfAProblem(t *testing.T) {
	await(t, "nothing is found before", none)
	w := world{t}
	undo := w.setMembers(pool.HyperNode(1, 0), nil, "gone-r0-n0")
	defer undo()
	await(t, "the HyperNode and its nodes are found", func(found []check.Finding) bool { return len(found) == 2 })
	stdout, stderr, code, err := run(t.Context())
	if err != nil || code != 2 {
		t.Fatalf("exit code %d, error %v\n%s%s", code, err, stdout, stderr)
	}
	equal.Equal(t, "standard error", "", stderr)
	for _, want := range []string{
		"hypernodes       2 problems", "Problem: HyperNode/gpu-r0\n  No node is in it.\n", "Problem: Node/gpu-r0-n0\n", "  To do: ", "2 problems, 0 warnings.",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// Somebody with the ClusterRole for it may make every check, and somebody without is told which rights are missing.
func TestWhatMayNotBeReadIsTold(t *testing.T) {
	w := world{t}
	kubeconfig := w.userWith("checker", "lockstep-check")
	await(t, "nothing is found with the role", none, "--kubeconfig", kubeconfig)

	stdout, stderr, code, err := run(t.Context(), "--kubeconfig", w.userWith("nobody", ""))
	if err != nil || code != 2 || stderr != "" {
		t.Errorf("exit code %d, error %v, %s", code, err, stderr)
	}
	for _, want := range []string{"Problem: Rights\n", "list nodes,", "list leases.coordination.k8s.io,", "hypernodes       skipped     needs hypernodes and 1 more", "lockstep-check"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := len(strings.TrimRight(line, "\n")); n > 80 && !strings.Contains(line, "kubectl ") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

// Somebody with the ClusterRole for them may ask all that the other verbs answer, and somebody without is told which role that is.
func TestTheRoleOfTheOtherVerbs(t *testing.T) {
	w := world{t}
	asked := job("default")
	asked.Name = "asked"
	defer w.create(asked)()
	with, without := w.userWith("explainer", "lockstep-explain"), w.userWith("stranger", "")
	for _, args := range [][]string{{"map"}, {"map", "asked"}, {"why", "asked"}, {"why", "asked", "worker-0"}, {"timeline", "asked"}} {
		stdout, stderr, code, err := runPlugin(t.Context(), append(args, "-n", "default", "--kubeconfig", with)...)
		if err != nil || code != 0 || strings.Contains(stdout, "could not be read") {
			t.Errorf("%v with the role: exit code %d, error %v\n%s%s", args, code, err, stdout, stderr)
		}
		_, stderr, code, err = runPlugin(t.Context(), append(args, "-n", "default", "--kubeconfig", without)...)
		if err != nil || code != 1 || !strings.Contains(stderr, "is forbidden") || !strings.Contains(stderr, "The ClusterRole lockstep-explain has all rights") {
			t.Errorf("%v without it: exit code %d, error %v\n%s", args, code, err, stderr)
		}
	}
	stdout, _, _, err := runPlugin(t.Context(), "__complete", "why", "--kubeconfig", with, "-n", "default", "ask")
	if err != nil || !strings.HasPrefix(stdout, "asked\n") {
		t.Errorf("completion: %v, %s", err, stdout)
	}
}
