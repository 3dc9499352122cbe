package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestReports(t *testing.T) {
	n := newNode().poll()
	n.xid(gpu0, 79).set(link0, FieldLinkState, 2).set(aPort, FieldPortState, 1).set(sw0, 856, 12028).poll()
	at := metav1.NewTime(n.Time)
	n.add(gpu1, 1212, 2).poll()
	now := metav1.NewTime(n.Time)
	want := []v1alpha1.HealthReport{
		{Source: "dcgm", Entity: "gpu/GPU-0", Signal: "XID79", State: v1alpha1.HealthStateFailed, Since: at, Message: "XID 79 (GPU has fallen off the bus)"},
		{Source: "dcgm", Entity: "gpu/GPU-1", Signal: "NVLinkRecoveryFailed", State: v1alpha1.HealthStateFailed, Since: now, Message: "field 1212 NVLINK_RECOVERY_FAILED_TOTAL: 1002, 2 more in 10m; ill where it rises by 1 or more in 10m"},
		{Source: "dcgm", Entity: "nic/mlx5_0/1", Signal: "IBPortDown", State: v1alpha1.HealthStateFailed, Since: now, Message: "the port's state: 1; ill where it is not 4"},
		{Source: "dcgm", Entity: "nvlink/GPU-0/0", Signal: "NVLinkDown", State: v1alpha1.HealthStateFailed, Since: now, Message: "the link's state: 2; ill where it is 2"},
		{Source: "dcgm", Entity: "switch/0", Signal: "SXIDFatal", State: v1alpha1.HealthStateFailed, Since: at, Message: "field 856 SXID_FATAL_ERROR: 12028; ill where it is above 0"},
	}
	if diff := cmp.Diff(want, Reports(n.state)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	n.add(gpu1, 1212, 1).poll()
	if diff := cmp.Diff(want, Reports(n.state)); diff != "" {
		t.Errorf("what stays is not written again (-want +got):\n%s", diff)
	}
	source := v1alpha1.HealthSource{
		Name: "dcgm", State: v1alpha1.HealthHealthy, Message: "a remark", Version: "4.6.0", HeartbeatTime: &metav1.Time{Time: n.Time},
		BootID: "boot-1", DriverID: "driver-1",
		Expected: []string{"gpu/GPU-0", "gpu/GPU-1", "nic/mlx5_0/1", "nic/mlx5_1/1", "nvlink/GPU-0/0"},
	}
	if diff := cmp.Diff(source, Source(n.state, "a remark")); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}

// The last version that was told is kept while DCGM does not answer, and across a restart of the agent.
func TestTheEnginesVersionIsKept(t *testing.T) {
	n := newNode().poll()
	n.silent(4)
	n.state = Restore(nil, Source(n.state, ""), nil)
	n.silent(1)
	if v := Source(n.state, "").Version; v != "4.6.0" {
		t.Errorf("version %q, want 4.6.0", v)
	}
	n.state.EngineVersion = strings.Repeat("4", 100)
	if v := Source(n.state, "").Version; len(v) != maxVersion {
		t.Errorf("a version of %d letters, and the API takes %d", len(v), maxVersion)
	}
}

func TestMoreReportsThanThereIsRoomFor(t *testing.T) {
	s := State{Faults: map[Entity]map[string]Fault{}}
	for i := range 2000 {
		state := v1alpha1.HealthStateDegraded
		if i >= 1500 {
			state = v1alpha1.HealthStateFailed
		}
		put(s.Faults, Entity{KindNVLink, fmt.Sprintf("GPU-0/%04d", i)}, "NVLinkDown", Fault{State: state, Message: strings.Repeat("é", 1000)})
	}
	reports := Reports(s)
	failed := slices.DeleteFunc(slices.Clone(reports), func(r v1alpha1.HealthReport) bool { return r.State != v1alpha1.HealthStateFailed })
	if len(reports) != MaxReports || len(failed) != 500 || !slices.IsSortedFunc(reports, compareReports) {
		t.Errorf("%d reports, %d of them failed", len(reports), len(failed))
	}
	if m := reports[0].Message; len(m) > maxMessage || !utf8.ValidString(m) {
		t.Errorf("message of %d bytes", len(m))
	}
}

// An agent that starts right after a boot, and once more before DCGM answers, knows that the boot was new.
func TestTwoRestartsAroundABoot(t *testing.T) {
	restart := func(n *node) *node {
		n.state = Restore(Reports(n.state), Source(n.state, ""), nil)
		return n
	}
	n := newNode().xid(gpu0, 79).poll().reboot()
	restart(n).silent(2)
	restart(n).silent(2)
	n.want(t, "nothing has been read yet", "gpu/GPU-0 XID79 Failed")
	n.poll().want(t, "a new boot, and nothing to recover")

	n = newNode().xid(gpu0, 79).poll().reboot()
	n.xid(gpu1, 74).after(time.Minute).set(gpu0, 1523, 1).set(gpu1, 1523, 1).poll()
	restart(n).set(gpu0, 1523, 0).set(gpu1, 1523, 0).poll()
	n.want(t, "faults of two boots: the later one counts for both", "gpu/GPU-0 XID79 Failed", "gpu/GPU-1 XID74 Failed")
}

// The driver was loaded again while no agent ran: the source remembers which one it was.
func TestRestartAroundADriver(t *testing.T) {
	n := newNode().xid(gpu0, 79).poll()
	n.state = Restore(Reports(n.state), Source(n.state, ""), nil)
	n.polls(3).want(t, "the same driver", "gpu/GPU-0 XID79 Failed")
	n.state = Restore(Reports(n.state), Source(n.state, ""), nil)
	n.DriverID = "driver-2"
	n.poll().want(t, "another one")
	n.set(link0, FieldLinkState, 2).polls(10).want(t, "links train after it")
}

// What is gone for good, and was acknowledged, does not come back with the next agent.
func TestAcknowledgedIsNoLongerExpected(t *testing.T) {
	n := newNode().poll()
	n.unplug(gpu0).unplug(link0).unplug(aPort).polls(3).want(t, "gone", "gpu/GPU-0 GPULost Failed", "nic/mlx5_0/1 IBPortMissing Failed")
	n.state = Acknowledge(n.state, n.Time)
	if diff := cmp.Diff([]string{"gpu/GPU-1", "nic/mlx5_1/1"}, Source(n.state, "").Expected); diff != "" {
		t.Errorf("expected (-want +got):\n%s", diff)
	}
	n.state = Restore(Reports(n.state), Source(n.state, ""), nil)
	n.polls(5).want(t, "a new agent")
}

// The same where the agent learns of the acknowledgement as it starts, as after a repair for which its node was off.
func TestAcknowledgedWhileNoAgentRan(t *testing.T) {
	n := newNode().poll()
	n.unplug(gpu0).unplug(link0).unplug(aPort).polls(3)
	n.state = Acknowledge(Restore(Reports(n.state), Source(n.state, ""), nil), n.Time)
	n.reboot().polls(30).want(t, "after it")
	if diff := cmp.Diff([]string{"gpu/GPU-1", "nic/mlx5_1/1"}, Source(n.state, "").Expected); diff != "" {
		t.Errorf("expected (-want +got):\n%s", diff)
	}
}

// Another machine has taken the name of a node, or all GPUs were replaced: what was known of the GPUs before is not of these, and what else was known of the node stays.
func TestOtherGPUs(t *testing.T) {
	gpuX := Entity{KindGPU, "GPU-x"}
	n := newNode().xid(gpu0, 79).set(aPort, FieldPortState, 1).polls(30)
	n.want(t, "before", "gpu/GPU-0 XID79 Failed", "nic/mlx5_0/1 IBPortDown Failed")
	n.state = Restore(Reports(n.state), Source(n.state, ""), nil)
	n.unplug(gpu0).unplug(gpu1).unplug(link0).plug(gpuX).reboot().polls(30).want(t, "of the machine before", "nic/mlx5_0/1 IBPortDown Failed")
	if diff := cmp.Diff([]string{"gpu/GPU-x", "nic/mlx5_0/1", "nic/mlx5_1/1"}, Source(n.state, "").Expected); diff != "" {
		t.Errorf("expected (-want +got):\n%s", diff)
	}
	n.plug(gpu1).poll().unplug(gpuX).polls(30).want(t, "one of them stayed", "gpu/GPU-x GPULost Failed", "nic/mlx5_0/1 IBPortDown Failed")
}
