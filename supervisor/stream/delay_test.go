package stream

import (
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	c := New(Options{})
	for failures, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		most := time.Duration(seconds) * time.Second
		for range 1000 {
			if d := c.delay(failures); d < most/2 || d > most {
				t.Fatalf("after %d failures the delay is %s, want %s to %s", failures, d, most/2, most)
			}
		}
	}
	if d := c.delay(1_000_000); d > 30*time.Second {
		t.Errorf("after a week the delay is %s", d)
	}
}
