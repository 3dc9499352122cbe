// The attackers as a process of their own, with the lowest priority: the cluster gets the cores that both want, as on other machines.

package tenants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// attackVariable is the environment variable with the attackOrder, as JSON. A process of this test that has it attacks.
const attackVariable = "LOCKSTEP_ATTACK"

// attackOrder configures the process of the attackers.
type attackOrder struct {
	Kubeconfig string
	Ports      addresses
}

// attackAlone attacks until its standard input ends, and it has done something of each kind, and prints what it has done.
func attackAlone(told string) int {
	var order attackOrder
	err := json.Unmarshal([]byte(told), &order)
	if err == nil {
		var a *attacker
		if a, err = newAttacker(order.Kubeconfig, order.Ports); err == nil {
			ctx, stop := context.WithCancel(context.Background())
			go func() {
				defer stop()
				_, _ = io.Copy(io.Discard, os.Stdin)
				_ = poll(ctx, func(context.Context) error { return complete(a.counts.list()) })
			}()
			a.attack(ctx)
			err = json.NewEncoder(os.Stdout).Encode(a.counts.list())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tenants: attack:", err)
		return 1
	}
	return 0
}

// startAttack starts the attackers. The returned function ends the attack, and returns what they have done.
func startAttack(t *testing.T, kubeconfig string) (end func() map[string]int64) {
	t.Helper()
	order, err := json.Marshal(attackOrder{kubeconfig, ports})
	must(t, err, "tell the attackers what to do")
	self, err := os.Executable()
	must(t, err, "find this test")
	process := exec.CommandContext(t.Context(), "nice", "-n", "19", self)
	process.Env, process.Stderr = append(os.Environ(), attackVariable+"="+string(order)), os.Stderr
	var out bytes.Buffer
	process.Stdout = &out
	input, err := process.StdinPipe()
	must(t, err, "connect the attackers")
	must(t, process.Start(), "start the attackers")
	return func() map[string]int64 {
		must(t, input.Close(), "end the attack")
		must(t, process.Wait(), "wait for the attackers")
		var did map[string]int64
		must(t, json.Unmarshal(out.Bytes(), &did), "read what they have done")
		return did
	}
}
