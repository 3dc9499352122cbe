package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestIncidentsOfAListAreCounted(t *testing.T) {
	m, err := (&failures{nodes: 100}).count([]byte("\ufeff" + `time,node,cause,effect,repair
2026-01-11T00:00:00Z,n1,GPU,DeviceFailure,24h
2026-01-01T00:00:00Z,n2,GPU,DeviceFailure,1d6h
2026-01-05T12:00:00+02:00,n2,NCCL,ProcessExit,
`))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "model", &lab.Model{
		Source: "incidents from 2026-01-01 to 2026-01-11", Nodes: 100, Days: 10,
		Causes: []lab.Counted{{Name: "GPU", Failures: 2, Effect: lab.DeviceFailure, Repair: "27h0m0s"}, {Name: "NCCL", Failures: 1, Effect: lab.ProcessExit}},
	}, m)
}

// Where a row does not tell for how long the node was away, --repair does.
func TestARepairIsAssumedWhereAListTellsNone(t *testing.T) {
	const rows = "time,cause,effect,repair\n2026-01-01T00:00:00Z,x,NodeLoss,2h\n2026-01-11T00:00:00Z,x,NodeLoss,\n"
	m, err := (&failures{nodes: 1, repair: 6 * time.Hour}).count([]byte(rows))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "mean", "4h0m0s", m.Causes[0].Repair)
	check.Equal(t, "assumed", 6*time.Hour, m.AssumedRepair)
}

func TestAListOfIncidentsNamesWhatIsWrong(t *testing.T) {
	const header = "time,cause,effect\n"
	for name, tc := range map[string]struct{ text, want string }{
		"empty":        {"", "it has to have a line that names the columns time,cause,effect,repair, and a line for each incident"},
		"column":       {"time,cause\n2026-01-01T00:00:00Z,x\n", "column effect is missing: the first line has to name time,cause,effect,repair"},
		"no incident":  {header, "and a line for each incident"},
		"time":         {header + "today,x,ProcessExit\n", `incident 1: time is "today", and has to be like`},
		"fields":       {header + "2026-01-01T00:00:00Z,x\n", "line 2: wrong number of fields"},
		"quotes":       {header + "2026-01-01T00:00:00Z,a \"b\" c,ProcessExit\n", "line 2, column 24: bare \" in non-quoted-field"},
		"one day":      {header + "2026-01-01T00:00:00Z,x,ProcessExit\n", "within one day"},
		"no cause":     {header + "2026-01-01T00:00:00Z,,ProcessExit\n2026-02-01T00:00:00Z,,ProcessExit\n", "causes[0].name is empty"},
		"effect":       {header + "2026-01-01T00:00:00Z,x,Boom\n2026-02-01T00:00:00Z,x,Boom\n", `cause "x" has effect "Boom"`},
		"effects":      {header + "2026-01-01T00:00:00Z,x,ProcessExit\n2026-02-01T00:00:00Z,x,PodLoss\n", `incident 2: cause "x" has effect PodLoss, and had ProcessExit before: give each effect its own cause`},
		"wrong repair": {"time,cause,effect,repair\n2026-01-01T00:00:00Z,x,NodeLoss,long\n", `incident 1: repair is "long", and has to be a time such as 24h or 2d`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&failures{nodes: 1}).count([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
