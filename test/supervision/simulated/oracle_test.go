package simulated

import (
	"strings"
	"testing"
)

func TestOracle(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(*Oracle)
		says string // empty where nothing is wrong
	}{
		"a restart together": {play: func(o *Oracle) {
			o.Started("0", 1)
			o.Started("1", 1)
			o.Saw("0", 2)
			o.Stopped("0", 1)
			o.Stopped("1", 1)
			o.Started("0", 2)
			o.Started("1", 2)
		}},
		"one rank restarts in its epoch": {play: func(o *Oracle) {
			o.Started("0", 1)
			o.Started("1", 1)
			o.Stopped("0", 1)
			o.Started("0", 1)
		}},
		"two programs of a rank": {func(o *Oracle) {
			o.Started("0", 1)
			o.Started("0", 1)
		}, "0 starts a program in epoch 1, and has one that runs in epoch 1"},
		"two epochs": {func(o *Oracle) {
			o.Started("0", 1)
			o.Started("1", 1)
			o.Stopped("0", 1)
			o.Started("0", 2)
		}, "0 starts a program in epoch 2, while that of 1 runs in epoch 1"},
		"an earlier epoch": {func(o *Oracle) {
			o.Saw("0", 3)
			o.Started("0", 2)
		}, "0 starts a program in epoch 2, and has heard of epoch 3"},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOracle()
			tc.play(o)
			if got := strings.Join(o.Broken(), "; "); got != tc.says {
				t.Errorf("it says %q, want %q", got, tc.says)
			}
		})
	}
}
