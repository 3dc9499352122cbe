// Locks held through files: the kernel lets go of them when the process ends, however it ends.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrLocked says that another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("locked by another")

// TryLock takes the lock on a file, or returns ErrLocked at once.
func TryLock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

// lockFile waits for the lock on a file for as long as the context lives.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		unlock, err = TryLock(path)
		if errors.Is(err, ErrLocked) {
			return false, nil
		}
		return err == nil, err
	})
	return unlock, err
}
