// Where the host engine is.

package dcgm

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
)

// Mode is a way to reach a host engine.
type Mode string

// The ways.
const (
	// Embedded runs a host engine within this process.
	Embedded Mode = "embedded"
	// Unix is a socket in the file system.
	Unix Mode = "unix"
	// TCP is a host and a port.
	TCP Mode = "tcp"
	// VSock is a virtual machine's socket; it needs DCGM 4.5.
	VSock Mode = "vsock"
)

// defaultPort is DCGM_HE_PORT_NUMBER (dcgm_structs.h).
const defaultPort = "5555"

// Address is where a host engine is.
type Address struct {
	Mode Mode
	// Target is the path of a Unix socket, or host:port, or cid:port.
	Target string
}

// ParseAddress reads embedded, unix:///path, tcp://host:port, host:port, host, or
// vsock://cid:port. The port is 5555 where none is given.
func ParseAddress(s string) (Address, error) {
	scheme, rest, found := strings.Cut(s, "://")
	switch {
	case s == "":
		return Address{}, errors.New("no address of a DCGM host engine")
	case s == string(Embedded):
		return Address{Mode: Embedded}, nil
	case !found && strings.HasPrefix(s, "/"):
		return unixAddress(s)
	case !found:
		return tcpAddress(s)
	}
	switch Mode(strings.ToLower(scheme)) {
	case Unix:
		return unixAddress(rest)
	case TCP:
		return tcpAddress(rest)
	case VSock:
		if rest == "" {
			return Address{}, fmt.Errorf("%q names no virtual machine", s)
		}
		return Address{Mode: VSock, Target: rest}, nil
	}
	return Address{}, fmt.Errorf("%q: a DCGM host engine is reached by unix://, tcp://, vsock:// or embedded", s)
}

func unixAddress(file string) (Address, error) {
	if !path.IsAbs(file) || strings.ContainsRune(file, 0) {
		return Address{}, fmt.Errorf("unix://%s: the path of the socket has to be absolute", file)
	}
	return Address{Mode: Unix, Target: file}, nil
}

func tcpAddress(s string) (Address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.Trim(s, "[]"), defaultPort
		if strings.ContainsRune(host, ':') && !strings.HasPrefix(s, "[") {
			return Address{}, fmt.Errorf("%q: an IPv6 address stands in brackets", s)
		}
	}
	if host == "" || port == "" || strings.ContainsAny(host, "/ \x00[]") || strings.Trim(port, "0123456789") != "" {
		return Address{}, fmt.Errorf("%q is not host:port", s)
	}
	return Address{Mode: TCP, Target: net.JoinHostPort(host, port)}, nil
}

// String is the address as ParseAddress reads it.
func (a Address) String() string {
	if a.Mode == Embedded {
		return string(Embedded)
	}
	return string(a.Mode) + "://" + a.Target
}
