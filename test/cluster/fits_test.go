package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestTheOracleSeesANodeThatGetsTooMuch(t *testing.T) {
	t.Parallel()
	topology := pool(t, Topology{Name: "fits", Racks: 1, NodesPerRack: 2, GPUsPerNode: 8})
	oracle, err := shared.WatchFit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = oracle.Stop() }()
	if err := shared.Occupy(t.Context(), 8, topology.NodeNames()...); err != nil {
		t.Fatal(err)
	}
	if err := shared.Occupy(t.Context(), 1, topology.Node(0, 1)); err != nil {
		t.Fatal(err)
	}
	err = eventually(t.Context(), "the oracle has seen the pods", func(context.Context) error {
		if _, broken := oracle.Seen(); broken == nil {
			return errors.New("nothing is broken yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	bindings, broken := oracle.Seen()
	if message := broken.Error(); bindings < 3 || !strings.Contains(message, "node fits-r0-n1 has 8 of nvidia.com/gpu") || strings.Contains(message, "fits-r0-n0") {
		t.Errorf("%d bindings: %s", bindings, message)
	}
}
