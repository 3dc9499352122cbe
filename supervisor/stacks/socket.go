// The socket on which a supervisor is asked for the stacks.

package stacks

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

const socket = "stacks.sock"

// Serve answers each connection to the socket in a folder, one after the other, until the context ends.
func Serve(ctx context.Context, folder string, take func() string) error {
	path := filepath.Join(folder, socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.SetDeadline(time.Now().Add(2 * patience))
			_, _ = io.WriteString(connection, take())
			connection.Close()
		}
	}()
	return nil
}

// Ask asks the supervisor whose socket is in a folder.
func Ask(folder string) (string, error) {
	connection, err := net.DialTimeout("unix", filepath.Join(folder, socket), patience)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	text, err := io.ReadAll(io.LimitReader(connection, processes*limit))
	return string(text), err
}
