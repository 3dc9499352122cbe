// Gangs whose GPUs spin: all ranks have launched a collective, and none completes it.

package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/dcgmsim"
)

// allSpin is a hang that NCCL RAS does not see, since all ranks have launched as many collectives, nor the use of processors, since each rank polls for the others.
var allSpin = hang{
	name:   "no packet between ranks whose GPUs spin",
	choose: (*stalledGang).allRanks,
	strike: func(g *stalledGang, _ []int) { g.must(ground.SeparatePods(g.ctx, ground.Nodes.NodeNames()...)) },
	lift:   func(g *stalledGang) { g.must(ground.JoinPods(g.ctx, ground.Nodes.NodeNames()...)) },
	reason: "Spinning", class: v1alpha1.ClassMaintenance,
	kept: func(*stalledGang, int, bool) string { return inScript },
}

// TestAGangWhoseGPUsSpin has a gang hang in a collective, as one of NCCL does: every process uses a processor. That the GPUs move no data is the second witness.
func TestAGangWhoseGPUsSpin(t *testing.T) {
	states, remove, err := ground.InstallAgent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	g := newStalledGang(t, func(s *scenario) { s.setEnv("PLAY_GPUS", "1") })
	g.playGPUs(states)
	g.addRule()
	g.play(allSpin)
}

// playGPUs has the DCGM of each node say how its GPUs are used by what the programs that hold them say that they do.
func (g *stalledGang) playGPUs(states map[string]*dcgmsim.State) {
	folder, ticker := filepath.Join(ground.SharedFolder(), g.folder, "gpus"), time.NewTicker(time.Second)
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			for node, state := range states {
				state.Together(func() { playNode(state, folder, node) })
			}
		}
	}()
	g.t.Cleanup(func() {
		ticker.Stop()
		close(stop)
		<-ended
	})
}

// playNode has a DCGM say how the GPUs of its node are used. A GPU of which no program has said anything executes no kernel.
func playNode(state *dcgmsim.State, folder, node string) {
	for gpu := range GPUsPerNode {
		kernels, memory := 0, 0
		if said, err := os.ReadFile(filepath.Join(folder, GPU(node, gpu))); err == nil {
			_, _ = fmt.Sscan(string(said), &kernels, &memory)
		}
		state.SetField(dcgmsim.GPU, gpu, 203, kernels)
		state.SetField(dcgmsim.GPU, gpu, 204, memory)
	}
}
