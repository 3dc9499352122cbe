// Connections that a pod opens, and the steps beside.

package real

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// lastPrinted is the last step that rank 0 has printed.
func (s *scenario) lastPrinted(pod corev1.Pod) int {
	s.t.Helper()
	log, err := s.Log(s.ctx, pod, 200)
	s.must(err)
	printed := steps.FindAllStringSubmatch(log, -1)
	if len(printed) == 0 {
		s.t.Fatalf("%s has printed no step", pod.Name)
	}
	step, err := strconv.Atoi(printed[len(printed)-1][1])
	s.must(err)
	return step
}
