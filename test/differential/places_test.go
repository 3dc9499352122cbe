package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestFirstDifference(t *testing.T) {
	same := `{"Decision":{"Status":{"state":"Running"}},"Plan":{"Lift":null}}`
	tests := map[string]struct {
		was, is []string
		want    []string
	}{
		"of a field": {
			[]string{same, `{"Decision":{"Status":{"state":"Running"}}}`}, []string{same, `{"Decision":{"Status":{"state":"Failed"}}}`},
			[]string{"Decision.Status.state"},
		},
		"of one that the other has not": {
			[]string{same}, []string{`{"Decision":{"Status":{"state":"Running","message":"up"}},"Plan":{"Lift":null}}`},
			[]string{"Decision.Status.message"},
		},
		"in the elements of a list": {
			[]string{`{"Plan":{"Lift":[{"Pod":"a"},{"Pod":"b"}]}}`}, []string{`{"Plan":{"Lift":[{"Pod":"a"},{"Pod":"c"}]}}`},
			[]string{"Plan.Lift.Pod"},
		},
		"of the length of a list": {
			[]string{`{"Plan":{"Lift":[{"Pod":"a"}]}}`}, []string{`{"Plan":{"Lift":[]}}`},
			[]string{"Plan.Lift"},
		},
		"in the first pass that differs alone": {
			[]string{`{"Plan":{"Create":true}}`, `{"Plan":{"Admit":true}}`}, []string{`{"Plan":{"Create":false}}`, `{"Plan":{"Admit":false}}`},
			[]string{"Plan.Create"},
		},
		"of the number of passes": {[]string{same}, []string{same, same}, []string{"the number of passes"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := firstDifference(tc.was, tc.is)
			check.Equal(t, "error", nil, err)
			check.Equal(t, "places", tc.want, got)
		})
	}
}

// What differs without a reason is an error.
func TestJudge(t *testing.T) {
	found := places{"Plan.Lift": {3, 7}}
	meant := list{Differences: []difference{{At: "Plan.Lift", Reason: "lifted before"}}}
	check.Equal(t, "what is meant", nil, found.judge(meant))
	if err := found.judge(list{}); err == nil || err.Error() != "Plan.Lift differs in 2 of the histories that were looked into, first in that of seed 3" {
		t.Errorf("what is not: %v", err)
	}
}
