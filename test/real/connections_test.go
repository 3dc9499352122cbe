// Connections that a pod opens.

package real

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// countConnections returns how many TCP connections a rank's pod opens from now on: within the pod, and to others than the manager.
func (s *scenario) countConnections(rank int) (opened func() (inside, outside int)) {
	s.t.Helper()
	pids, err := ground.Programs(s.ctx, s.key(rank))
	s.must(err)
	iptables := func(args ...string) string {
		s.t.Helper()
		command := append([]string{"--net", "--target", strconv.Itoa(pids[0]), "iptables", "--wait"}, args...)
		out, err := exec.CommandContext(s.ctx, "nsenter", command...).CombinedOutput()
		if err != nil {
			s.t.Fatalf("nsenter %s: %v: %s", strings.Join(command, " "), err, out)
		}
		return string(out)
	}
	begins := []string{"--append", "OUTPUT", "--protocol", "tcp", "--syn"}
	iptables(append(begins, "--out-interface", "lo")...)
	iptables(append(begins, "!", "--out-interface", "lo", "!", "--dport", strconv.Itoa(supervisorsPort))...)
	return func() (inside, outside int) {
		s.t.Helper()
		rules := strings.Split(strings.TrimSpace(iptables("--list", "OUTPUT", "--numeric", "--verbose", "--exact")), "\n")
		for i, count := range []*int{&inside, &outside} { // after two lines of headers
			_, err := fmt.Sscan(rules[len(rules)-2+i], count)
			s.must(err)
		}
		return inside, outside
	}
}
