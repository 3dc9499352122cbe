package health

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func override(t *testing.T, text string) *Table {
	t.Helper()
	table, err := ParseOverrides(Default(), map[string][]byte{"mine.yaml": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func row(t *testing.T, table *Table, id string) Row {
	t.Helper()
	r, ok := table.Row(id)
	if !ok {
		t.Fatalf("no row %s", id)
	}
	return *r
}

func TestOverrides(t *testing.T) {
	n := len(Default().Rows())
	byDefault := row(t, Default(), "439")
	table := override(t, "rows:\n- {id: '439', state: None, escalate: null}\n- {id: '202', disabled: true}\n- {id: 'xid:63', state: None}\n- {id: link-state/down, polls: 4}\n")
	want := byDefault
	want.State, want.Escalate = Observed, nil
	if diff := cmp.Diff(want, row(t, table, "439"), cmp.AllowUnexported(Row{}, what{})); diff != "" {
		t.Errorf("what is not given stays (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(byDefault, row(t, Default(), "439"), cmp.AllowUnexported(Row{}, what{})); diff != "" {
		t.Errorf("the default has changed:\n%s", diff)
	}
	if len(table.Rows()) != n || !row(t, table, "202").Disabled || row(t, table, "link-state/down").Polls != 4 {
		t.Errorf("%d rows, want %d; row 202 is disabled: %t", len(table.Rows()), n, row(t, table, "202").Disabled)
	}

	table = override(t, "rows:\n- {id: '409', when: {rate: {atLeast: 5, per: 1m}}, state: Degraded}\n- {id: '150/hot', name: GPU_TEMP_CELSIUS, entity: gpu, signal: Hot, when: {above: 90}, polls: 3, state: Degraded}\n")
	if len(table.Rows()) != n+1 || row(t, table, "409").When.Increase != nil {
		t.Errorf("%d rows, want one more than %d; row 409 %+v", len(table.Rows()), n, row(t, table, "409").When)
	}
	m := newNode()
	m.table = table
	m.set(gpu0, 150, 91).polls(3).want(t, "a new row", "gpu/GPU-0 Hot Degraded")
	if !strings.Contains(Reports(m.state)[0].Message, "field 150 GPU_TEMP_CELSIUS: 91; ill where it is above 90") {
		t.Errorf("message %q", Reports(m.state)[0].Message)
	}
	if !slices.Contains(table.Fields(KindGPU), 150) || slices.Contains(Default().Fields(KindGPU), 150) || !slices.Contains(table.Fields(KindNIC), 1309) || !slices.Contains(table.Watched(), 1309) {
		t.Errorf("fields of a GPU %v, of a NIC %v", table.Fields(KindGPU), table.Fields(KindNIC))
	}
}

func TestARowThatIsTurnedOff(t *testing.T) {
	n := newNode().xid(gpu0, 79).xid(gpu0, 74).poll()
	n.table = override(t, "rows: [{id: 'xid:74', disabled: true}]")
	n.poll().want(t, "its fault is none", "gpu/GPU-0 XID79 Failed")
	n.state.Faults[gpu0]["OfAnotherVersion"] = Fault{State: v1alpha1.HealthStateFailed, Since: n.Time}
	n.poll().want(t, "one that no row knows stays", "gpu/GPU-0 OfAnotherVersion Failed", "gpu/GPU-0 XID79 Failed")
	n.state = Acknowledge(n.state, n.Time.Add(time.Second))
	n.poll().want(t, "until it is acknowledged")
}

func TestOverridesThatAreRefused(t *testing.T) {
	const rest = "name: x, entity: gpu, state: Degraded"
	for text, want := range map[string]string{
		"rows: 5":                                                          "mine.yaml:",
		"rules: []":                                                        `unknown field "rules"`,
		"rows: [7]":                                                        "row 1: not a row",
		"rows: [{state: None}]":                                            "row 1: id is missing",
		"rows: [{id: nonsense, signal: A}]":                                `row 1 (nonsense): id "nonsense" is neither`,
		"rows: [{id: 'xid:none'}]":                                         "not the number of an XID",
		"rows: [{id: '0'}]":                                                "neither a DCGM field's number",
		"rows: [{id: '439', limit: 3}]":                                    `unknown field "limit"`,
		"rows: [{id: '439', state: Broken}]":                               `state "Broken" is none of`,
		"rows: [{id: '439', state: Healthy}]":                              `state "Healthy" is none of`,
		"rows: [{id: '439', entity: rack}]":                                `entity "rack" is none of`,
		"rows: [{id: '439', signal: 'NVLink down'}]":                       "not one word",
		"rows: [{id: '439', signal: NVLinkReplay}]":                        "mine.yaml: row 1 (439): the signal NVLinkReplay of a gpu is that of row 429",
		"rows: [{id: '439', clears: Never}]":                               `clears "Never"`,
		"rows: [{id: '439', unless: [Monday]}]":                            `unless "Monday"`,
		"rows: [{id: '439', polls: -1}]":                                   "polls -1",
		"rows: [{id: '439', quietFor: fast}]":                              "invalid duration",
		"rows: [{id: '439', quietFor: -5m}]":                               "quietFor is not between",
		"rows: [{id: '439', when: {}}]":                                    "when has 0 conditions",
		"rows: [{id: '439', when: {above: 1, equals: [2]}}]":               "when has 2 conditions",
		"rows: [{id: '439', when: {increase: {atLeast: 0}}}]":              "increase.atLeast is less than 1",
		"rows: [{id: '439', when: {increase: {atLeast: 1, within: 48h}}}]": "between a second and a day",
		"rows: [{id: '439', when: {rate: {per: 1s}}}]":                     "either atLeast or laneLimit",
		"rows: [{id: '439', when: {rate: {atLeast: 5, per: 1ms}}}]":        "rate.per",
		"rows: [{id: '439', when: {missing: {}}}]":                         "when.missing is for",
		"rows: [{id: gpu-missing, when: {above: 1}}]":                      "when.missing is for",
		"rows: [{id: 'xid:79', when: {above: 1}}]":                         "its condition is increase",
		"rows: [{id: '174/new', signal: New, when: {bits: {shift: 60, width: 9, atLeast: 1}}, " + rest + "}]": "not within 0 and 62",
		"rows: [{id: '439', escalate: {state: Degraded, atLeast: 3}}]":                                        "from Degraded to Failed",
		"rows: [{id: '439', escalate: {state: Failed}}]":                                                      "either atLeast or with",
		"rows: [{id: '202', escalate: {state: Failed, atLeast: 3}}]":                                          "is for an increase",
		"rows: [{id: '439', disabled: true}, {id: '439', polls: 2}]":                                          "the same id as mine.yaml: row 1 (439)",
		"rows:\n- {id: '439', polls: 1, polls: 2}":                                                            "mine.yaml:",
		"rows: [{id: '9/new', when: {above: 1}, " + rest + "}]":                                               `signal "" is not`,
	} {
		table, err := ParseOverrides(Default(), map[string][]byte{"mine.yaml": []byte(text)})
		if err == nil || table != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mine.yaml") {
			t.Errorf("%s:\nerror %v\nwant  %s", text, err, want)
		}
	}
}

// All that is wrong is said at once, file by file.
func TestAllErrorsAtOnce(t *testing.T) {
	_, err := ParseOverrides(Default(), map[string][]byte{
		"b.yaml": []byte("rows: [{id: '439', polls: 2}, {id: '202', state: Broken, polls: -1}]"),
		"a.yaml": []byte("rows: [{id: what}]"),
		"c.yaml": []byte("rows: [{id: '439'}]"),
	})
	want := []string{"a.yaml: row 1 (what): ", "b.yaml: row 2 (202): state", "polls -1", "c.yaml: row 1 (439): the same id as b.yaml: row 1 (439)"}
	at := 0
	for _, w := range want {
		i := strings.Index(err.Error()[at:], w)
		if i < 0 {
			t.Fatalf("%q is not in its place in:\n%v", w, err)
		}
		at += i
	}
}

// What a user may write, and what is made of it, is the same whatever order files come in.
func TestFilesInAnyOrder(t *testing.T) {
	files := map[string][]byte{}
	entries, _ := defaults.ReadDir("defaults")
	for _, e := range entries {
		files[e.Name()], _ = defaults.ReadFile("defaults/" + e.Name())
	}
	table, err := ParseOverrides(Default(), maps.Clone(files)) // the default over itself is the default
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default().Rows(), table.Rows(), cmp.AllowUnexported(Row{}, what{})); diff != "" {
		t.Errorf("rows:\n%s", diff)
	}
}
