// The cluster's data folder, and the clearing away of those whose owner was killed.

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ownerFile is locked for as long as the process that owns the folder lives.
const ownerFile = "owner"

const dirPattern = "lockstep-cluster-run-*"

func (c *Cluster) makeDir(ctx context.Context) error {
	sweep()
	var err error
	if c.options.Dir == "" {
		c.dir, err = os.MkdirTemp("", dirPattern)
	} else {
		c.dir, err = filepath.Abs(c.options.Dir)
		if err == nil {
			err = makeEmpty(c.dir)
		}
	}
	if err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	if c.options.Keep {
		return nil
	}
	unlock, err := lockFile(ctx, filepath.Join(c.dir, ownerFile))
	if err != nil {
		return fmt.Errorf("locking the data folder: %w", err)
	}
	c.releases = append(c.releases, unlock)
	return nil
}

// makeEmpty makes a folder, or takes one that holds nothing: Stop removes all that is in it.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: name a new folder", dir)
	}
	return err
}

// sweep removes the temporary folders of clusters whose process was killed before it could. It
// leaves folders that were to be kept, which have no owner file, and does what it can without fuss.
func sweep() {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), dirPattern, ownerFile))
	if err != nil {
		return
	}
	for _, owner := range left {
		// One just made may not be locked yet.
		if info, err := os.Stat(owner); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		unlock, err := TryLock(owner)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Dir(owner))
		unlock()
	}
}
