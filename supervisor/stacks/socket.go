// The socket on which a supervisor is asked for the stacks.

package stacks

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	socket = "stacks.sock"
	// whole ends an answer.
	whole = "\x00"
	// askWithin is how long an answer takes at most.
	askWithin = 30 * time.Second
)

// Serve answers each connection to the socket in a folder, one after the other, until the context ends. A connection says whether to use force.
func Serve(ctx context.Context, folder string, take func(force bool) string) error {
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
		for ctx.Err() == nil {
			connection, err := listener.Accept()
			if err != nil {
				time.Sleep(pause) // too many files are open, or the context has ended
				continue
			}
			answer(connection, take)
		}
	}()
	return nil
}

func answer(connection net.Conn, take func(force bool) string) {
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(patience))
	force := make([]byte, 1)
	if _, err := io.ReadFull(connection, force); err != nil {
		return
	}
	text := take(force[0] == '!')
	_ = connection.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(connection, text+whole)
}

// Ask asks the supervisor whose socket is in a folder.
func Ask(folder string, force bool) (string, error) {
	connection, err := net.DialTimeout("unix", filepath.Join(folder, socket), patience)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(askWithin)); err != nil {
		return "", err
	}
	how := "?"
	if force {
		how = "!"
	}
	if _, err := io.WriteString(connection, how); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(connection, most*2*limit))
	if err != nil {
		return "", err
	}
	said, complete := strings.CutSuffix(string(text), whole)
	if !complete {
		return "", errors.New("the supervisor has not answered to the end")
	}
	return said, nil
}
