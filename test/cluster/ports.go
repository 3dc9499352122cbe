// Free ports for several control planes on one machine.

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports come from below the range that the kernel hands out to outgoing connections, which could
// otherwise take a port between our choosing it and the component's listening on it.
const (
	firstPort = 20000
	lastPort  = 29999
)

// claimPorts returns ports that are free, and that no other cluster takes before release is called.
func claimPorts(n int) (ports []int, release func(), err error) {
	dir, err := claimsFolder("ports")
	if err != nil {
		return nil, nil, err
	}
	var claims []func()
	release = func() {
		for _, unclaim := range claims {
			unclaim()
		}
	}
	for _, offset := range rand.Perm(lastPort - firstPort + 1) {
		port := firstPort + offset
		unclaim, err := TryLock(filepath.Join(dir, strconv.Itoa(port)))
		if errors.Is(err, ErrLocked) || errors.Is(err, os.ErrPermission) {
			continue
		}
		if err != nil {
			release()
			return nil, nil, err
		}
		if !isFree(port) {
			unclaim()
			continue
		}
		ports, claims = append(ports, port), append(claims, unclaim)
		if len(ports) == n {
			return ports, release, nil
		}
	}
	release()
	return nil, nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
}

// claimsFolder is where this user's clusters lock what only one of them can have.
func claimsFolder(what string) (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-cluster-%s-%d", what, os.Getuid()))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("making the folder of claimed %s: %w", what, err)
	}
	return dir, nil
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
