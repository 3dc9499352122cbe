package real

import (
	"context"
	"os"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestUp(t *testing.T) {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Dir: "/tmp/ltrun", Keep: true, CRDs: []string{"../../config/crd"}, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if err := c.AddTopology(ctx, cluster.Topology{Name: "real", Racks: 1, NodesPerRack: 2, GPUsPerNode: 2, Real: true}); err != nil {
		t.Error(err)
	}
	if os.Getenv("HOLD") != "" {
		select {}
	}
}
