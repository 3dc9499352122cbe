// A sample: what was read of a node's devices in one poll. It is plain data: where it
// comes from (DCGM, sysfs) is in other rooms, and what it means is decided by Evaluate.

package health

import "time"

// Kind is a kind of entity that can be ill.
type Kind string

// The kinds of entities.
const (
	KindNode   Kind = "node"
	KindGPU    Kind = "gpu"    // ID: the GPU's UUID
	KindNVLink Kind = "nvlink" // ID: the GPU's UUID, a slash, and the link's index
	KindSwitch Kind = "switch" // ID: the NVSwitch's index
	KindNIC    Kind = "nic"    // ID: device, a slash, and port, such as mlx5_0/1
)

// Entity is one thing that can be ill.
type Entity struct {
	Kind Kind
	// ID names it among its kind; empty for the node itself.
	ID string
}

// Field is the numeric id of a DCGM field (dcgm_fields.h). Names of fields change between
// DCGM's versions, their ids do not. Fields that DCGM does not have are negative.
type Field int32

// Fields that come from elsewhere than DCGM's field table.
const (
	// FieldLinkState is dcgmNvLinkLinkState_t: 0 not supported, 1 disabled, 2 down, 3 up.
	FieldLinkState Field = -1
	// FieldGPUStatus is DcgmEntityStatus_t: 1 ok, 4 lost, 7 detached.
	FieldGPUStatus Field = -2
	// FieldMIG is 1 for a GPU in MIG mode, whose NVLinks are down by design.
	FieldMIG Field = -3
	// FieldPortState is the state of an InfiniBand or RoCE port: 4 is ACTIVE
	// (/sys/class/infiniband/*/ports/*/state).
	FieldPortState Field = -4
	// FieldPortLinkDowned is the port's counter link_downed.
	FieldPortLinkDowned Field = -5
	// FieldPortSymbolErrors is the port's counter symbol_error.
	FieldPortSymbolErrors Field = -6
	// FieldPortLinkRecovery is the port's counter link_error_recovery.
	FieldPortLinkRecovery Field = -7
	// FieldPortPhysState is the port's phys_state: 3 disabled, 5 up.
	FieldPortPhysState Field = -8
	// FieldPortLinkLayer is 1 for InfiniBand, 2 for Ethernet (link_layer).
	FieldPortLinkLayer Field = -9
	// FieldPortReceiveErrors is the port's counter port_rcv_errors.
	FieldPortReceiveErrors Field = -10
	// FieldPortTransmitDiscards is the port's counter port_xmit_discards.
	FieldPortTransmitDiscards Field = -11
	// FieldPortLocalIntegrityErrors is the port's counter local_link_integrity_errors.
	FieldPortLocalIntegrityErrors Field = -12
	// FieldPortExcessiveBufferOverruns is the port's counter excessive_buffer_overrun_errors.
	FieldPortExcessiveBufferOverruns Field = -13
)

// Value is what a field read. A field that is blank is not supported, or could not be read.
type Value struct {
	Int   int64
	Float float64
	Blank bool
}

// XID is an error that the driver reported for a GPU (field 230).
type XID struct {
	GPU  string // UUID
	Code int64
	Time time.Time
}

// Sample is one poll of a node.
type Sample struct {
	Time time.Time
	// BootID of the running kernel (/proc/sys/kernel/random/boot_id), and BootTime, when it started.
	BootID   string
	BootTime time.Time
	// DriverID changes when the GPUs' driver is loaded again; empty where that is not known.
	DriverID string
	// Reachable reports whether DCGM answered; where it did not, Message says why, and
	// nothing else of DCGM's is in the sample.
	Reachable bool
	Message   string
	// EngineVersion is that of DCGM's host engine; empty where it does not tell, or DCGM did not answer.
	EngineVersion string
	// Values by entity and field.
	Values map[Entity]map[Field]Value
	// XIDs that were reported since the sample before.
	XIDs []XID
}
