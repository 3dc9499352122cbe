package simulate

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestIncidentsOfAListAreCounted(t *testing.T) {
	m, err := (&failures{nodes: 100}).count(`time,node,cause,effect,repair
2026-01-11T00:00:00Z,n1,GPU,DeviceFailure,24h
2026-01-01T00:00:00Z,n2,GPU,DeviceFailure,24h
2026-01-05T12:00:00+02:00,n2,NCCL,ProcessExit,
`)
	check.Equal(t, "error", nil, err)
	check.Equal(t, "model", &lab.Model{
		Source: "incidents from 2026-01-01 to 2026-01-11", Nodes: 100, Days: 10,
		Causes: []lab.Counted{{Name: "GPU", Failures: 2, Effect: lab.DeviceFailure, Repair: "24h"}, {Name: "NCCL", Failures: 1, Effect: lab.ProcessExit}},
	}, m)
}

func TestAListOfIncidentsNamesWhatIsWrong(t *testing.T) {
	const header = "time,cause,effect\n"
	for name, tc := range map[string]struct {
		nodes int
		text  string
		want  string
	}{
		"nodes":     {0, header, "needs --counted-nodes"},
		"empty":     {1, "", "the first line has to name the columns"},
		"column":    {1, "time,cause\n", `column effect is missing: the first line is "time,cause"`},
		"time":      {1, header + "today,x,ProcessExit\n", `line 2: time is "today", and has to be like`},
		"fields":    {1, header + "2026-01-01T00:00:00Z,x\n", "wrong number of fields"},
		"one day":   {1, header + "2026-01-01T00:00:00Z,x,ProcessExit\n", "within one day"},
		"effect":    {1, header + "2026-01-01T00:00:00Z,x,Boom\n2026-02-01T00:00:00Z,x,Boom\n", `cause "x" has effect "Boom"`},
		"effects":   {1, header + "2026-01-01T00:00:00Z,x,ProcessExit\n2026-02-01T00:00:00Z,x,NodeLoss\n", "give each effect its own cause"},
		"no repair": {1, header + "2026-01-01T00:00:00Z,x,NodeLoss\n2026-02-01T00:00:00Z,x,NodeLoss\n", "needs repair"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&failures{nodes: tc.nodes}).count(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
