package real

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/losses"
)

// Undisturbed trains on this host, with the same program and numbers and without a cluster, and
// returns the losses.
func (g *Ground) Undisturbed(ctx context.Context, ranks, steps int) (losses.Log, error) {
	dir, err := os.MkdirTemp(g.dir, "undisturbed-")
	if err != nil {
		return nil, err
	}
	port, err := g.Port() // which no rank is given for its HTTP
	if err != nil {
		return nil, err
	}
	root := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	peers := strings.TrimSuffix(strings.Repeat(root+",", ranks), ",")
	group, ctx := errgroup.WithContext(ctx)
	for rank := range ranks {
		group.Go(func() error {
			command := exec.CommandContext(ctx, g.Trainer(), "-rank="+strconv.Itoa(rank), "-peers="+peers, "-http=127.0.0.1:0",
				"-run=undisturbed", "-steps="+strconv.Itoa(steps), "-checkpoint-every="+strconv.Itoa(steps+1),
				"-local="+filepath.Join(dir, "local-"+strconv.Itoa(rank)), "-shared="+filepath.Join(dir, "shared"))
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("rank %d: %w\n%s", rank, err, out)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return losses.Read(filepath.Join(dir, "shared", "loss"))
}
