// What is read of an engine that works.

//go:build linux && cgo && !nodcgm

package dcgm

import (
	"testing"

	"github.com/lockstep-dev/lockstep/health"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

func TestAField(t *testing.T) {
	r := aRig(t)
	r.engine.SetField(dcgmsim.GPU, 0, 202, 7)
	r.engine.SetField(dcgmsim.GPU, 1, 202, 0)
	s := r.sample()
	r.equal("replays of a", "7", reads(s, health.KindGPU, "GPU-a", 202))
	r.equal("replays of b", "0", reads(s, health.KindGPU, "GPU-b", 202))
}
