package simulate

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

// What a play does not tell is left out, and a sentence says why and what to do.
func TestWhatTellsNothingIsLeftOut(t *testing.T) {
	const advice = "Play longer (--for), more often (--plays), or with other --failures."
	for name, tc := range map[string]struct {
		args     []string
		want, no []string
	}{
		"no failures": {
			[]string{"--for", "1d", "--plays", "1"},
			[]string{"1 play from seed 1.", "No failure hit the job: the table is about its start and its checkpoints alone. " + advice},
			[]string{"failures ", "pod restarts", "detect", "back on own node", "none seen"},
		},
		"few failures": {
			[]string{"--for", "30d"},
			[]string{"No difference from whole-job restarts can be told: if there is one, it is less than 0.07 of the 388.2 GPU-hours lost.", advice, "pod restarts 0.8 0.0"},
			[]string{"none seen", "relocations", "slower training"},
		},
		"one play": {
			[]string{"--for", "365d", "--plays", "1"},
			[]string{"One play tells no difference between the jobs, as it may be luck: give --plays 2 or more."},
			[]string{"against whole-job", "0.00000"},
		},
		"many failures": {
			[]string{"--for", "3650d", "--plays", "3"}, []string{"against whole-job +0.0000"}, []string{"No difference", "+0.00000 "},
		},
		"a rule that did not apply": {
			[]string{"--for", "60d", "--sweep", "rules[node-may-return].afterSeconds=10s..60s"},
			[]string{"No incident was given to rule node-may-return, so its times make no difference. Incidents were given to: "}, []string{"ETTR against"},
		},
		"a sweep without failures": {
			[]string{"--for", "1d", "--plays", "1", "--sweep", "rules[node-may-return].afterSeconds=10s..60s"},
			[]string{"No incident was given to rule node-may-return, so its times make no difference. Incidents were given to: no rule. " + advice}, []string{"ETTR against"},
		},
		"a sweep of luck": {
			[]string{"--for", "60d", "--sweep", "unreachableNode.gangDownAfterSeconds=5s..60s"},
			[]string{"No difference between the values can be told: the ETTR is 0.98"}, []string{"ETTR against"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := simulate(append([]string{"-f", sample}, tc.args...)...)
			check.Equal(t, "error", nil, err)
			out = strings.Join(strings.Fields(out), " ")
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			for _, no := range tc.no {
				if strings.Contains(out, no) {
					t.Errorf("%q in\n%s", no, out)
				}
			}
		})
	}
}

// The file of jobs that is counted says nothing of how long a node was away, and the output says what is assumed.
func TestTheRepairOfCountedJobsIsSaid(t *testing.T) {
	jobs := fileOf(t, job+`spec: {tasks: [{name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}]}
status:
  placement: {hyperNode: rack, tier: 1, tasks: [{name: worker, nodes: [n1, n2]}]}
  incidents: [{id: 1, trigger: NodeGone, class: Infrastructure, startTime: "2026-01-02T03:04:05.000000Z", pods: [{name: a-1-worker-0, task: worker, index: 0, node: n1}]}]
`)
	out, err := simulate("-f", sample, "--failures", jobs, "--for", "10d", "--plays", "2", "--repair", "6h")
	check.Equal(t, "error", nil, err)
	if want := "A node is away for 6h where a failure does not tell it (--repair).\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	r := jsonOf(t, "-f", sample, "--failures", jobs, "--for", "10d", "--plays", "2")
	check.Equal(t, "assumed", 86400.0, r.Setup.AssumedRepairSeconds)
}
