//go:build linux

package machines

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/machines/boot"
)

// Network is a /16 of addresses: machine n, from 1 to MaxMachines, has the address 10.S.0.n and its
// pods have 10.S.n.0/24. A router of its own joins the machines and the host, whose address is
// 10.S.255.1. Nothing in it has a way to the world.
type Network struct {
	// second is the second byte of every address.
	second byte
	router int
}

// MaxMachines is how many machines fit in a network.
const MaxMachines = 250

const (
	hostByte   = 255
	bridgeName = "rack"
	uplinkName = "host"
)

// NewNetwork returns the network 10.second.0.0/16, whose router is the process of that id.
func NewNetwork(second byte, router int) *Network { return &Network{second: second, router: router} }

func (n *Network) address(third, fourth byte) net.IP { return net.IPv4(10, n.second, third, fourth) }

func (n *Network) subnet(third, fourth byte, bits int) *net.IPNet {
	return &net.IPNet{IP: n.address(third, fourth).To4(), Mask: net.CIDRMask(bits, 32)}
}

// Host is the host's address, as machines and pods see it.
func (n *Network) Host() net.IP { return n.address(hostByte, 1) }

// CIDR is the whole network.
func (n *Network) CIDR() *net.IPNet { return n.subnet(0, 0, 16) }

// Machine is the address of a machine.
func (n *Network) Machine(number int) net.IP { return n.address(0, byte(number)) }

// Pods are the addresses of a machine's pods.
func (n *Network) Pods(number int) *net.IPNet { return n.subnet(byte(number), 0, 24) }

func (n *Network) gateway() net.IP { return n.address(0, 254) }

// IsFree reports whether the host has no route into 10.second.0.0/16 yet.
func IsFree(second byte) (bool, error) {
	routes, err := netlink.RouteList(nil, unix.AF_INET)
	if err != nil {
		return false, fmt.Errorf("listing the host's routes: %w", err)
	}
	wanted := NewNetwork(second, 0).CIDR()
	for _, route := range routes {
		if route.Dst != nil && route.Dst.IP != nil && !route.Dst.IP.IsUnspecified() &&
			(wanted.Contains(route.Dst.IP) || route.Dst.Contains(wanted.IP)) {
			return false, nil
		}
	}
	return true, nil
}

// Connect joins the router to the host and makes it ready for machines.
func (n *Network) Connect() error {
	hostLink := fmt.Sprintf("lockstep%d", n.second)
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: hostLink}, PeerName: uplinkName, PeerNamespace: netlink.NsPid(n.router),
	})
	if err != nil {
		return fmt.Errorf("plugging the host into the router: %w", err)
	}
	host := &netlink.Handle{}
	if err := configure(host, hostLink, n.subnet(hostByte, 1, 30)); err != nil {
		return err
	}
	if err := host.RouteAdd(&netlink.Route{Dst: n.CIDR(), Gw: n.address(hostByte, 2)}); err != nil {
		return fmt.Errorf("routing to the machines: %w", err)
	}
	return n.within(n.router, func(router *netlink.Handle) error {
		if err := configure(router, uplinkName, n.subnet(hostByte, 2, 30)); err != nil {
			return err
		}
		// A bridge without an address of its own takes the lowest of its ports, and another one when that machine is powered off: the
		// others then send to an address that nobody has, until they ask again half a minute later.
		address := net.HardwareAddr{0x02, 0, 10, n.second, 0, 254}
		if err := router.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName, HardwareAddr: address}}); err != nil {
			return fmt.Errorf("making the router's bridge: %w", err)
		}
		return configure(router, bridgeName, &net.IPNet{IP: n.gateway(), Mask: net.CIDRMask(24, 32)})
	})
}

// Attach plugs a machine into the network: the process is its init.
func (n *Network) Attach(number, pid int) error {
	err := n.within(n.router, func(router *netlink.Handle) error { return n.plug(router, number, pid) })
	if err != nil {
		return err
	}
	return n.within(pid, func(machine *netlink.Handle) error {
		if err := configure(machine, "lo", nil); err != nil {
			return err
		}
		address := &net.IPNet{IP: n.Machine(number), Mask: net.CIDRMask(24, 32)}
		if err := configure(machine, boot.Uplink, address); err != nil {
			return err
		}
		if err := machine.RouteAdd(&netlink.Route{Gw: n.gateway()}); err != nil {
			return fmt.Errorf("routing from machine %d: %w", number, err)
		}
		return nil
	})
}

// plug makes the cable between the router and a machine, and the way to the machine's pods.
func (n *Network) plug(router *netlink.Handle, number, pid int) error {
	port := fmt.Sprintf("m%d", number)
	if old, err := router.LinkByName(port); err == nil {
		// The kernel has not yet taken away that of the machine's previous boot.
		if err := router.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("unplugging machine %d: %w", number, err)
		}
	}
	bridge, err := router.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the router's bridge: %w", err)
	}
	err = router.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: bridge.Attrs().Index},
		PeerName:  boot.Uplink, PeerNamespace: netlink.NsPid(pid),
	})
	if err != nil {
		return fmt.Errorf("plugging in machine %d: %w", number, err)
	}
	if err := configure(router, port, nil); err != nil {
		return err
	}
	if err := router.RouteReplace(&netlink.Route{Dst: n.Pods(number), Gw: n.Machine(number)}); err != nil {
		return fmt.Errorf("routing to the pods of machine %d: %w", number, err)
	}
	return nil
}

// Cut drops every packet from a machine and its pods to the host, where the control plane is. Nobody
// is told; traffic between machines goes on.
func (n *Network) Cut(number int) error {
	return n.changeRules(number, 0, (*netlink.Handle).RuleAdd)
}

// Mend takes back what Cut did.
func (n *Network) Mend(number int) error {
	return n.changeRules(number, 0, (*netlink.Handle).RuleDel)
}

// CutPort drops every packet between a machine, with its pods, and one port of the host, in both directions.
func (n *Network) CutPort(number int, port uint16) error {
	return n.changeRules(number, port, (*netlink.Handle).RuleAdd)
}

// MendPort takes back what CutPort did.
func (n *Network) MendPort(number int, port uint16) error {
	return n.changeRules(number, port, (*netlink.Handle).RuleDel)
}

// changeRules changes what the router drops: all to the host, or what goes to and from one port of it where that is not 0.
func (n *Network) changeRules(number int, port uint16, change func(*netlink.Handle, *netlink.Rule) error) error {
	host := &net.IPNet{IP: n.Host(), Mask: net.CIDRMask(32, 32)}
	return n.within(n.router, func(router *netlink.Handle) error {
		for _, machine := range []*net.IPNet{{IP: n.Machine(number), Mask: net.CIDRMask(32, 32)}, n.Pods(number)} {
			rules := []*netlink.Rule{dropping(machine, host)}
			if port > 0 {
				rules = append(rules, dropping(host, machine))
				rules[0].Dport, rules[1].Sport = netlink.NewRulePortRange(port, port), netlink.NewRulePortRange(port, port)
			}
			for _, rule := range rules {
				if err := changeRule(router, rule, change); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// CutPods drops every packet from other machines and their pods to the pods of a machine. No sender gets an error. Packets of the host pass.
func (n *Network) CutPods(number int) error { return n.changePods(number, (*netlink.Handle).RuleAdd) }

// MendPods takes back what CutPods did.
func (n *Network) MendPods(number int) error { return n.changePods(number, (*netlink.Handle).RuleDel) }

func (n *Network) changePods(number int, change func(*netlink.Handle, *netlink.Rule) error) error {
	rule := dropping(nil, n.Pods(number))
	rule.IifName = bridgeName
	return n.within(n.router, func(router *netlink.Handle) error { return changeRule(router, rule, change) })
}

// changeRule makes a change to a rule that may have been made before.
func changeRule(router *netlink.Handle, rule *netlink.Rule, change func(*netlink.Handle, *netlink.Rule) error) error {
	err := change(router, rule)
	if err != nil && !errors.Is(err, syscall.EEXIST) && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("changing the router's rule from %s to %s: %w", rule.Src, rule.Dst, err)
	}
	return nil
}

// dropping is a rule that drops what goes from one place to another.
func dropping(from, to *net.IPNet) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Src, rule.Dst = from, to
	rule.Type, rule.Priority, rule.Family = unix.RTN_BLACKHOLE, 100, unix.AF_INET
	return rule
}

// within calls do with a handle on the network namespace of a process.
func (n *Network) within(pid int, do func(*netlink.Handle) error) error {
	namespace, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("finding the network of process %d: %w", pid, err)
	}
	defer namespace.Close()
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return fmt.Errorf("entering the network of process %d: %w", pid, err)
	}
	defer handle.Close()
	return do(handle)
}

// configure gives an interface its address, if any, and puts it up.
func configure(handle *netlink.Handle, name string, address *net.IPNet) error {
	link, err := handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding the interface %s: %w", name, err)
	}
	if address != nil {
		if err := handle.AddrAdd(link, &netlink.Addr{IPNet: address}); err != nil {
			return fmt.Errorf("giving %s the address %s: %w", name, address, err)
		}
	}
	if err := handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("putting %s up: %w", name, err)
	}
	return nil
}
