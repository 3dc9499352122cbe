// The rules of evaluation, one scene each.

package health

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDebounce(t *testing.T) {
	n := newNode().poll()
	n.set(link0, FieldLinkState, 2).poll().want(t, "one poll")
	n.set(link0, FieldLinkState, 3).poll()
	n.set(link0, FieldLinkState, 2).poll().want(t, "one poll again")
	n.silent(2).want(t, "polls that fail")
	n.blank(link0, FieldLinkState).poll().want(t, "a poll that reads nothing")
	n.set(link0, FieldLinkState, 2).poll().want(t, "the second poll", "nvlink/GPU-0/0 NVLinkDown Failed")
}

func TestALinkThatComesBack(t *testing.T) {
	n := newNode().poll().set(link0, FieldLinkState, 2).polls(2)
	n.set(link0, FieldLinkState, 3).polls(19).want(t, "quiet for less than ten minutes", "nvlink/GPU-0/0 NVLinkDown Failed")
	n.set(link0, FieldLinkState, 2).poll()
	n.set(link0, FieldLinkState, 3).polls(19).want(t, "it was down in between", "nvlink/GPU-0/0 NVLinkDown Failed")
	n.polls(1).want(t, "quiet for ten minutes")
}

func TestLinksThatAreNotJudged(t *testing.T) {
	down := func(n *node) *node { return n.set(link0, FieldLinkState, 2).polls(5) }
	n := newNode()
	n.state = State{}
	down(n).want(t, "never up: nobody bridged it")
	down(newNode().poll().set(gpu0, FieldMIG, 1)).want(t, "a GPU in MIG mode")
	n = newNode().polls(3).set(gpu0, FieldMIG, 1)
	down(n).set(gpu0, FieldMIG, 0).polls(2).want(t, "and in it no longer", "nvlink/GPU-0/0 NVLinkDown Failed")
	n = newNode().poll().reboot()
	down(n).want(t, "links train after boot")
	n.polls(20).want(t, "and are judged when that is over", "nvlink/GPU-0/0 NVLinkDown Failed")
	n = newNode().poll()
	n.DriverID = "driver-2"
	down(n).want(t, "they train again when the driver is loaded")
	n = newNode().poll().reboot().polls(4).add(gpu0, 1212, 4).silent(30)
	n.polls(3).want(t, "errors of the training that are read when it is long over")
	n.add(gpu0, 1212, 1).poll().want(t, "and one that is not of it", "gpu/GPU-0 NVLinkRecoveryFailed Failed")
}

func TestCounters(t *testing.T) {
	const recovery = Field(439)
	n := newNode()
	n.set(gpu0, recovery, 7).poll().want(t, "it went down: the engine was started again")
	n.poll().want(t, "nothing new")
	n.add(gpu0, recovery, 1).poll().want(t, "one more", "gpu/GPU-0 NVLinkRecovery Degraded")
	n.add(gpu0, recovery, 1).poll().want(t, "two", "gpu/GPU-0 NVLinkRecovery Degraded")
	n.add(gpu0, recovery, 1).poll().want(t, "three within ten minutes", "gpu/GPU-0 NVLinkRecovery Failed")
	n.polls(300).want(t, "a link that failed does not heal by rest", "gpu/GPU-0 NVLinkRecovery Failed")
	n.reboot().poll().want(t, "links still train", "gpu/GPU-0 NVLinkRecovery Failed")
	n.polls(25).want(t, "a new boot, and nothing more to recover")
}

func TestCountersApart(t *testing.T) {
	n := newNode()
	for range 5 {
		n.add(gpu0, 439, 1).polls(11)
	}
	n.want(t, "five, five and a half minutes apart", "gpu/GPU-0 NVLinkRecovery Degraded")
	n.polls(109).want(t, "not an hour yet", "gpu/GPU-0 NVLinkRecovery Degraded")
	n.polls(20).want(t, "an hour without another")
}

func TestCountersAfterSilence(t *testing.T) {
	n := newNode()
	n.silent(119)
	n.add(gpu0, 439, 4).poll().want(t, "four within an hour", "gpu/GPU-0 NVLinkRecovery Degraded")
	n = newNode()
	n.silent(119)
	n.add(gpu0, 409, 60*60*99).polls(3).want(t, "99 a second, over an hour")
}

func TestRates(t *testing.T) {
	flood := func(perPoll int64) *node {
		n := newNode().polls(3)
		for range 5 {
			n.add(gpu0, 409, perPoll).poll()
		}
		return n
	}
	flood(99*30).want(t, "99 a second")
	flood(100*30).want(t, "100 a second", "gpu/GPU-0 NVLinkCRCFlood Failed")

	burst := newNode().polls(3).add(gpu0, 409, 100*60*5)
	for range 20 {
		burst.poll().after(-2 * every / 3) // polled every ten seconds
	}
	burst.want(t, "one burst, in six polls of its minute")

	replays := func(generation, perPoll int64) *node {
		n := newNode().set(gpu0, fieldPCIeGeneration, generation).set(gpu0, 235, generation).polls(3)
		for range 5 {
			n.add(gpu0, 202, perPoll).poll()
		}
		return n
	}
	replays(5, 15).want(t, "30 a minute, and 31 are well for generation 5 by 16")
	replays(5, 16).want(t, "32 a minute", "gpu/GPU-0 PCIeReplay Degraded")
	replays(3, 4).want(t, "8 a minute, and 8 are well for generation 3")
	replays(3, 5).want(t, "10 a minute", "gpu/GPU-0 PCIeReplay Degraded")
}

func TestPCIe(t *testing.T) {
	n := newNode().poll()
	n.set(gpu0, fieldPCIeGeneration, 1).set(gpu0, fieldUtilisation, 0).polls(5).want(t, "an idle link saves power")
	n.set(gpu0, fieldUtilisation, 95).polls(3).want(t, "under load it may not", "gpu/GPU-0 PCIeGeneration Degraded")
	n.set(gpu0, fieldUtilisation, 0).polls(5).want(t, "idle says nothing", "gpu/GPU-0 PCIeGeneration Degraded")
	n.set(gpu0, fieldPCIeGeneration, 5).polls(3).want(t, "full speed")
	narrow := newNode()
	narrow.state = State{}
	narrow.set(gpu0, fieldPCIeWidth, 8).polls(10).want(t, "a slot of eight lanes was never wider")
}

func TestFabricMask(t *testing.T) {
	for mask, want := range map[int64][]string{
		0xaa | 1<<8: nil, // each part says that it is well
		0xa9 | 1<<8: {"gpu/GPU-0 FabricDegradedBandwidth Degraded"},
		0xa6 | 1<<8: {"gpu/GPU-0 FabricRouteRecovery Degraded"},
		0x9a | 1<<8: {"gpu/GPU-0 FabricRouteUnhealthy Failed"},
		0x6a | 1<<8: {"gpu/GPU-0 FabricAccessTimeout Degraded"},
		0xaa | 5<<8: {"gpu/GPU-0 FabricMisconfigured Failed"},
		0:           nil, // not supported
	} {
		newNode().set(gpu0, 174, mask).polls(2).want(t, "mask", want...)
	}
}

// The cases of DCGM's own tests (common/tests/DcgmUtilitiesTests.cpp).
func TestBitErrorRate(t *testing.T) {
	for _, tc := range []struct {
		mantissa, exponent int64
		ill                bool
	}{{15, 255, false}, {1, 12, false}, {2, 12, true}, {10, 13, false}, {11, 13, true}, {1, 11, true}, {0, 0, false}} {
		n := newNode().set(gpu0, 1217, tc.mantissa<<8|tc.exponent).polls(2)
		if ill := len(n.faults()) > 0; ill != tc.ill {
			t.Errorf("%de-%d is ill: %t, want %t", tc.mantissa, tc.exponent, ill, tc.ill)
		}
	}
	newNode().set(gpu0, 1215, 15<<8|238).polls(2).want(t, "the floor of Blackwell")
	newNode().set(gpu0, 1215, 1<<8|15).polls(2).want(t, "symbol errors", "gpu/GPU-0 NVLinkSymbolBER Degraded")
}

func TestBlankFields(t *testing.T) {
	n := newNode()
	n.blank(gpu1, 1212).polls(2)
	n.wantKnown(t, "two polls", true)
	n.poll().want(t, "blank is no fault")
	n.wantKnown(t, "three polls", false)
	n.silent(1)
	n.wantKnown(t, "silence says nothing of blanks", false)
	n.set(gpu1, 1212, 1000).poll()
	n.wantKnown(t, "it is read again", true)

	n = newNode()
	n.state = State{}
	n.blank(gpu1, 1212).polls(9)
	n.wantKnown(t, "always blank is not supported", true)
	n.set(gpu0, FieldMIG, 1).blank(gpu0, 429).polls(9)
	n.wantKnown(t, "a GPU in MIG mode has no links", true)
	n.set(gpu0, FieldMIG, 0).set(gpu0, 429, 5).poll().blank(gpu0, 429).polls(3)
	n.wantKnown(t, "out of it, it had", false)
	n.reboot().poll()
	n.wantKnown(t, "a new driver may not support it", true)
	n.plug(gpu0).polls(30).unplug(link0).polls(3)
	n.wantKnown(t, "a link of which nothing is said", false)
}

func TestSilence(t *testing.T) {
	n := newNode()
	n.silent(2)
	n.wantKnown(t, "two polls", true)
	n.silent(1)
	n.wantKnown(t, "three polls", false)
	n.want(t, "silence is no fault")
	n.poll()
	n.wantKnown(t, "it answers", true)

	n.xid(gpu0, 79).set(gpu1, 1523, 1).poll()
	n.set(gpu1, 1523, 0).silent(50)
	n.want(t, "silence heals nothing", "gpu/GPU-0 XID79 Failed", "gpu/GPU-1 GPUResetNeeded Failed")
	n.poll().want(t, "the driver's word does", "gpu/GPU-0 XID79 Failed")

	n = newNode()
	n.set(aPort, FieldPortState, 1)
	n.silent(3)
	n.want(t, "ports are read without DCGM", "nic/mlx5_0/1 IBPortDown Failed")
}

func TestStickyXID(t *testing.T) {
	const fault = "gpu/GPU-0 XID79 Failed"
	n := newNode().xid(gpu0, 79).poll()
	n.want(t, "at once", fault)
	n.polls(5000).want(t, "two days in which nothing happened", fault)
	n.set(gpu0, 1523, 2).reboot().poll().want(t, "a new boot, and the driver wants another", "gpu/GPU-0 GPURebootNeeded Failed", fault)
	n.set(gpu0, 1523, 0).poll().want(t, "and wants nothing any more")

	n = newNode().xid(gpu0, 79).poll().blank(gpu0, 1523).reboot().poll()
	n.want(t, "the driver says nothing", fault)
	n.set(gpu0, 1523, 0).poll().want(t, "now it does")

	n = newNode().xid(gpu0, 79).poll()
	n.DriverID = "driver-2"
	n.poll().want(t, "the driver was loaded again")
}

func TestAFieldThatSaysNothingAfterABoot(t *testing.T) {
	n := newNode().set(sw0, 856, 12028).poll()
	n.blank(sw0, 856).polls(50).want(t, "blank is not well", "switch/0 SXIDFatal Failed")
	n.state = Restore(Reports(n.state), Source(n.state, ""), n.state.Expected())
	n.polls(50).want(t, "nor is it after a restart", "switch/0 SXIDFatal Failed")
	n.reboot().polls(2).want(t, "it may only be late", "switch/0 SXIDFatal Failed")
	n.set(gpu1, 1523, 2).polls(2).want(t, "a GPU of the node is not well", "gpu/GPU-1 GPURebootNeeded Failed", "switch/0 SXIDFatal Failed")
	n.set(gpu1, 1523, 0).poll().want(t, "a new boot, and nothing to recover")
}

func TestGPUThatVanishes(t *testing.T) {
	n := newNode().poll()
	n.unplug(gpu0).unplug(link0).polls(2).want(t, "two polls")
	n.silent(4)
	n.poll().want(t, "the third poll that answers", "gpu/GPU-0 GPULost Failed")
	n.wantKnown(t, "its link is gone with it", true)
	n.plug(gpu0).polls(50).want(t, "it comes and goes", "gpu/GPU-0 GPULost Failed")
	n.unplug(gpu0).reboot().polls(50).want(t, "a reboot did not bring it back", "gpu/GPU-0 GPULost Failed")
	n.plug(gpu0).reboot().polls(30).want(t, "this one did")

	n.unplug(gpu0).unplug(gpu1).polls(10).want(t, "an engine that sees none is blind")
	n.wantKnown(t, "and that is said", false)
}

func TestAGPUThatIsLostAndListed(t *testing.T) {
	n := newNode().poll()
	n.Values[gpu0] = map[Field]Value{FieldGPUStatus: {Int: 4}}
	n.unplug(link0).polls(10).want(t, "the engine says so", "gpu/GPU-0 GPUStatusLost Failed")
	n.wantKnown(t, "nothing more can be known of it", true)
}

func TestAcknowledgement(t *testing.T) {
	n := newNode().xid(gpu0, 79).poll().unplug(gpu1).set(gpu0, 395, 1).polls(3)
	n.want(t, "three faults", "gpu/GPU-0 RowRemapFailed Failed", "gpu/GPU-0 XID79 Failed", "gpu/GPU-1 GPULost Failed")
	told := XID{GPU: gpu0.ID, Code: 79, Time: n.state.Faults[gpu0]["XID79"].Since}
	n.state = Acknowledge(n.state, n.Time)
	n.want(t, "acknowledged")
	n.XIDs = []XID{told}
	n.poll().want(t, "what still holds is found again; an XID that is told again is not", "gpu/GPU-0 RowRemapFailed Failed")
	n.state = Acknowledge(n.state, n.Time.Add(-every))
	n.want(t, "the same acknowledgement does not clear what is new", "gpu/GPU-0 RowRemapFailed Failed")
	n.polls(20).xid(gpu0, 79).poll().want(t, "another one", "gpu/GPU-0 RowRemapFailed Failed", "gpu/GPU-0 XID79 Failed")
}

func TestXIDsToldTwice(t *testing.T) {
	n := newNode()
	n.table = override(t, "rows: [{id: 'xid:94', state: Degraded}]")
	one := XID{GPU: gpu0.ID, Code: 94, Time: n.Time}
	for range 3 {
		n.XIDs = []XID{one}
		n.poll()
	}
	n.want(t, "one XID, told three times", "gpu/GPU-0 XID94 Degraded")
	n.polls(4).want(t, "two minutes later")
	n.xid(gpu0, 94).poll().polls(10).xid(gpu0, 94).poll()
	n.want(t, "three in a day", "gpu/GPU-0 XID94 Degraded", "gpu/GPU-0 XID94Repeated Degraded")
	n.polls(10).want(t, "the memory is worn out", "gpu/GPU-0 XID94Repeated Degraded")

	n = newNode().xid(gpu0, 94).xid(gpu0, 63).add(gpu0, 311, 1).set(gpu0, 396, 1).poll()
	n.want(t, "a contained error, by default: the program's exit is all that there is to mend")
	n.xid(gpu0, 94).poll().xid(gpu0, 94).poll().want(t, "three in a day, by default", "gpu/GPU-0 XID94Repeated Degraded")

	n = newNode()
	n.XIDs = []XID{{GPU: gpu0.ID, Code: 79, Time: n.BootTime.Add(-time.Minute)}}
	n.poll().want(t, "an XID of an earlier boot")
	n.xid(Entity{}, 79).poll().want(t, "an XID of no GPU is the node's", "node XID79 Failed")
}

func TestNVLink5XIDs(t *testing.T) {
	n := newNode().xid(gpu0, 145).poll()
	n.want(t, "alone", "gpu/GPU-0 XID145 Degraded")
	n.set(gpu1, 1523, 1).poll().want(t, "another GPU", "gpu/GPU-0 XID145 Degraded", "gpu/GPU-1 GPUResetNeeded Failed")
	n.set(gpu1, 1523, 0).set(link0, FieldLinkState, 2).polls(2)
	n.want(t, "with a link that is down", "gpu/GPU-0 XID145 Failed", "nvlink/GPU-0/0 NVLinkDown Failed")
	n.set(link0, FieldLinkState, 3).polls(30).want(t, "it does not get better", "gpu/GPU-0 XID145 Failed")
}

func TestPorts(t *testing.T) {
	n := newNode().poll()
	n.unplug(aPort).polls(3).want(t, "a port that is gone", "nic/mlx5_0/1 IBPortMissing Failed")
	n.plug(aPort).poll().want(t, "and back")
	n.unplug(aPort).unplug(aPort1).polls(3).want(t, "all are gone: nothing was read")
	n.wantKnown(t, "and that is said", false)

	n = newNode()
	n.state = State{}
	n.set(aPort, FieldPortState, 1).polls(9).want(t, "a port without a cable")
	n.unplug(aPort).polls(9).want(t, "that goes away")
}

func TestRestore(t *testing.T) {
	n := newNode().xid(gpu0, 79).poll().set(link0, FieldLinkState, 2).add(gpu0, 439, 1).polls(2)
	faults := n.faults()
	again := func(expected []Entity) *node {
		m := newNode()
		m.Values, m.Time = maps.Clone(n.Values), n.Time
		m.state = Restore(Reports(n.state), Source(n.state, ""), expected)
		return m
	}
	again(nil).want(t, "as published", faults...)
	if diff := cmp.Diff(Reports(n.state), Reports(again(nil).state)); diff != "" {
		t.Errorf("reports (-before +after):\n%s", diff)
	}
	again(nil).polls(50).want(t, "what the first samples do not show is not healed", faults...)
	m := again(nil)
	m.poll().reboot().polls(3).want(t, "a reboot", "gpu/GPU-0 NVLinkRecovery Degraded", "nvlink/GPU-0/0 NVLinkDown Failed")

	m = again(nil)
	m.DriverID += "+"
	m.set(link0, FieldLinkState, 3).poll().add(gpu1, 1212, 1).polls(3).want(t, "a driver that was loaded with the agent gone: links train",
		"gpu/GPU-0 NVLinkRecovery Degraded", "nvlink/GPU-0/0 NVLinkDown Failed")

	m = newNode()
	m.DriverID += "+"
	m.poll().state = Restore(Reports(m.state), Source(m.state, ""), nil)
	m.poll().add(gpu1, 1212, 1).set(link0, FieldLinkState, 2).polls(3).want(t, "an agent that is started again while they train")
	m.polls(20).want(t, "which is over at some time", "nvlink/GPU-0/0 NVLinkDown Failed")

	m = again(nil)
	m.unplug(gpu1).polls(3)
	m.want(t, "a GPU that vanished with the agent", slices.Insert(faults, 2, "gpu/GPU-1 GPULost Failed")...)
}

func TestNothingIsChangedBehindOnesBack(t *testing.T) {
	n := newNode().xid(gpu0, 79).add(gpu0, 439, 1).poll()
	before, sample := n.state, n.Sample
	copied := Acknowledge(before, time.Time{}.Add(1))
	sample.Time = n.Time.Add(every)
	sample.XIDs = []XID{{GPU: gpu0.ID, Code: 79, Time: sample.Time}}
	first := Evaluate(before, sample, n.table)
	second := Evaluate(before, sample, n.table)
	all := []cmp.Option{cmp.AllowUnexported(State{}, track{}, rise{}), cmpopts.IgnoreFields(State{}, "table"), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(first, second, all...); diff != "" {
		t.Errorf("the same sample after the same state:\n%s", diff)
	}
	copied.acknowledged = before.acknowledged
	if diff := cmp.Diff(before, copied, all...); diff != "" {
		t.Errorf("the state before:\n%s", diff)
	}
}

// An agent that has just started knows nothing of the GPUs before DCGM has answered it once, be it that the agent before it did.
func TestNothingIsKnownBeforeDCGMHasAnswered(t *testing.T) {
	n := newNode()
	n.state = State{}
	n.silent(1).wantKnown(t, "the first poll fails", false)
	n.poll().wantKnown(t, "DCGM answers", true)
	n.silent(2).wantKnown(t, "two polls fail", true)
	n.silent(1).wantKnown(t, "the third one fails", false)
	n.poll()
	n.state = Restore(Reports(n.state), Source(n.state, ""), nil)
	n.silent(1).wantKnown(t, "the first poll of the next agent fails", false)
	n.poll().wantKnown(t, "and the second does not", true)
}

// Whatever ends a program, a kill by Lockstep included, leaves XIDs that blame it: 13 and 31 of its kernels, 43 and 45 of its
// channels, in bursts on every GPU that it held. None of them says anything against the node.
func TestTheEndOfAProgramIsNoFaultOfItsNode(t *testing.T) {
	for _, code := range []int64{13, 31, 32, 39, 40, 41, 43, 45, 68, 69} {
		n := newNode()
		for range 100 {
			n.xid(gpu0, code).xid(gpu1, code).after(time.Second)
		}
		n.poll().want(t, fmt.Sprintf("a burst of XID %d", code))
		n.wantKnown(t, "and the node is well", true)
		for range 100 {
			n.xid(gpu0, code).poll()
		}
		n.want(t, fmt.Sprintf("XID %d again and again", code))
		n.xid(gpu0, 79).xid(gpu0, code).poll().want(t, "what the device has remains", "gpu/GPU-0 XID79 Failed")
	}
}
