// Rendezvous: where rank 0 is.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

const defaultPort = "29500"

// chooseRendezvous settles -rendezvous and -listen.
func (c *config) chooseRendezvous(env func(string) string, hosts string) error {
	root := "" // host:port of rank 0, where that is known beforehand
	switch {
	case c.peers != "":
		root = strings.Split(c.peers, ",")[0]
	case env("MASTER_ADDR") != "":
		root = net.JoinHostPort(env("MASTER_ADDR"), orDefault(env("MASTER_PORT"), defaultPort))
	case env(hosts) != "":
		root = net.JoinHostPort(strings.Split(env(hosts), ",")[0], defaultPort)
	}
	if c.rendezvous == "auto" {
		switch {
		case c.peers != "":
			c.rendezvous = "peers"
		case root != "":
			c.rendezvous = "hosts"
		default:
			c.rendezvous = "shared"
		}
	}
	switch c.rendezvous {
	case "peers", "hosts":
		_, port, err := net.SplitHostPort(root)
		if err != nil {
			return fmt.Errorf("-rendezvous=%s: rank 0's address is %q: set -peers to host:port of every rank, or MASTER_ADDR, or %s", c.rendezvous, root, hosts)
		}
		c.listen = orDefault(c.listen, ":"+port)
		c.peers = root
	case "shared":
		c.listen = orDefault(c.listen, ":"+defaultPort)
		c.peers = ""
		c.advertise = orDefault(orDefault(c.advertise, env("POD_IP")), hostname())
	default:
		return fmt.Errorf("-rendezvous is %q: set it to peers, hosts, shared or auto", c.rendezvous)
	}
	return nil
}

func orDefault(v, d string) string {
	if v == "" {
		return d
	}
	return v
}

// rootAddr is where rank 0 is, as of now.
func (c *config) rootAddr() (string, error) {
	if c.peers != "" {
		return c.peers, nil
	}
	files, err := filepath.Glob(filepath.Join(c.shared, "rendezvous", "rank-0.inc-*"))
	if err != nil {
		return "", err
	}
	best, addr := -1, ""
	for _, f := range files {
		var n int
		var a string
		if _, err := fmt.Sscanf(filepath.Base(f), "rank-0.inc-%d", &n); err != nil || n <= best {
			continue
		}
		b, err := os.ReadFile(f)
		if err == nil && json.Unmarshal(b, &a) == nil {
			best, addr = n, a
		}
	}
	if addr == "" {
		return "", errors.New("it has not written its address to " + filepath.Join(c.shared, "rendezvous"))
	}
	return addr, nil
}

// announce writes rank 0's address, in a file of its incarnation: a stale rank 0 cannot
// replace that of its successor.
func (c *config) announce(listening string) error {
	if c.peers != "" {
		return nil
	}
	addr := c.advertise
	if _, _, err := net.SplitHostPort(addr); err != nil {
		_, port, err := net.SplitHostPort(listening)
		if err != nil {
			return err
		}
		addr = net.JoinHostPort(addr, port)
	}
	b, err := json.Marshal(addr)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(c.shared, "rendezvous", fmt.Sprintf("rank-0.inc-%d", c.incarnation)), b)
}
