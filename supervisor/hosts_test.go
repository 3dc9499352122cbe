package supervisor

import (
	"testing"

	"github.com/lockstep-dev/lockstep/supervisor/epoch"
	"github.com/lockstep-dev/lockstep/supervisor/wire"
	"github.com/lockstep-dev/lockstep/test/check"
)

const (
	aHost     = "10.0.0.7 llm-1-master-0.llm-1 llm-1-master-0\n"
	itsLines  = hostsBegin + "\n" + aHost + hostsEnd + "\n"
	byKubelet = "127.0.0.1\tlocalhost\n10.0.0.7\tllm-1-master-spare-0.llm-1 llm-1-master-spare-0\n"
)

func TestHostsFile(t *testing.T) {
	check.Equal(t, "of no rank", byKubelet, hostsWith(byKubelet, ""))
	check.Equal(t, "before those of the kubelet", itsLines+byKubelet, hostsWith(byKubelet, aHost))
	check.Equal(t, "again", itsLines+byKubelet, hostsWith(itsLines+byKubelet, aHost))
	check.Equal(t, "but the container's own name", "", withoutName(aHost, "llm-1-master-0"))
	check.Equal(t, "of other containers", aHost, withoutName(aHost, "llm-1-master-spare-0"))
	check.Equal(t, "no more", byKubelet, hostsWith(itsLines+byKubelet, ""))
}

// The program is the rank that the order says, whatever the name of its pod, and finds rank 0 by its address.
func TestEnvironmentOfAPlace(t *testing.T) {
	for name, tc := range map[string]struct{ master, want string }{
		"the rank's name":         {"llm-1-master-0.llm-1", "10.0.0.7"},
		"its whole name":          {"llm-1-master-0.llm-1.research.svc.cluster.local", "10.0.0.7"},
		"another rank's":          {"llm-1-master-00.llm-1", "llm-1-master-00.llm-1"},
		"a name that begins so":   {"llm-1-master-0x", "llm-1-master-0x"},
		"an address":              {"10.0.0.1", "10.0.0.1"},
		"another one, of no rank": {"rendezvous.example", "rendezvous.example"},
	} {
		t.Run(name, func(t *testing.T) {
			order := &wire.Order{Epoch: 2, Hosts: aHost, Place: &wire.Place{Environment: []string{"RANK=0", "LOCKSTEP_TASK_INDEX=0"}}}
			got := environ([]string{"RANK=7", "MASTER_ADDR=" + tc.master}, epoch.Start{Epoch: 2, Order: order}, "")
			check.Equal(t, "environment", []string{
				"LOCKSTEP_EPOCH=2", "LOCKSTEP_RESUME=false", "LOCKSTEP_RESTART_REASON=", "LOCKSTEP_HYPERNODE=", "RANK=0", "LOCKSTEP_TASK_INDEX=0", "MASTER_ADDR=" + tc.want,
			}, sortedAs(got, "LOCKSTEP_EPOCH", "LOCKSTEP_RESUME", "LOCKSTEP_RESTART_REASON", "LOCKSTEP_HYPERNODE", "RANK", "LOCKSTEP_TASK_INDEX", "MASTER_ADDR"))
		})
	}
}

// sortedAs are variables in the order of some names.
func sortedAs(environ []string, names ...string) (out []string) {
	for _, name := range names {
		for _, v := range environ {
			if len(v) > len(name) && v[:len(name)+1] == name+"=" {
				out = append(out, v)
			}
		}
	}
	return out
}
