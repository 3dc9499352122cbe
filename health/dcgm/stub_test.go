// A binary without DCGM.

//go:build !linux || !cgo || nodcgm

package dcgm

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestWithoutDCGM(t *testing.T) {
	r := NewReader(Options{Address: Address{Mode: Embedded}})
	s := r.Sample(context.Background(), time.Unix(0, 0))
	if s.Reachable || !strings.Contains(s.Message, "built without DCGM") {
		t.Errorf("got %+v", s)
	}
	if err := r.Close(context.Background()); err != nil || Built {
		t.Error(err, Built)
	}
}
