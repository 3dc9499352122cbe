// InfiniBand and RoCE ports, from sysfs: DCGM does not know their state. Documented in the
// kernel's Documentation/ABI/stable/sysfs-class-infiniband.

package health

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// portFiles are the files of a port, and the fields that they are.
var portFiles = map[string]Field{
	"state":                                    FieldPortState,
	"phys_state":                               FieldPortPhysState,
	"link_layer":                               FieldPortLinkLayer,
	"counters/link_downed":                     FieldPortLinkDowned,
	"counters/symbol_error":                    FieldPortSymbolErrors,
	"counters/link_error_recovery":             FieldPortLinkRecovery,
	"counters/port_rcv_errors":                 FieldPortReceiveErrors,
	"counters/port_xmit_discards":              FieldPortTransmitDiscards,
	"counters/local_link_integrity_errors":     FieldPortLocalIntegrityErrors,
	"counters/excessive_buffer_overrun_errors": FieldPortExcessiveBufferOverruns,
}

// ReadPorts reads all ports of a node from /sys/class/infiniband, into the values of a sample.
// A node without that directory has none. What a port does not say is blank.
func ReadPorts(class fs.FS, into map[Entity]map[Field]Value) error {
	devices, err := fs.ReadDir(class, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, device := range devices {
		ports, err := fs.ReadDir(class, path.Join(device.Name(), "ports"))
		if err != nil {
			continue // it has none, or it went away between two reads
		}
		for _, port := range ports {
			e := Entity{KindNIC, device.Name() + "/" + port.Name()}
			readPort(class, path.Join(device.Name(), "ports", port.Name()), e, into)
		}
	}
	return nil
}

func readPort(class fs.FS, dir string, e Entity, into map[Entity]map[Field]Value) {
	for file, field := range portFiles {
		text, err := fs.ReadFile(class, path.Join(dir, file))
		value, known := portValue(field, strings.TrimSpace(string(text)))
		put(into, e, field, Value{Int: value, Blank: err != nil || !known})
	}
}

// portValue reads "4: ACTIVE" as 4, a link layer as its number, and a counter as it is. One that
// is not supported says "N/A (no PMA)", or cannot be read at all.
func portValue(field Field, text string) (int64, bool) {
	switch {
	case field == FieldPortLinkLayer && text == "InfiniBand":
		return 1, true
	case field == FieldPortLinkLayer && text == "Ethernet":
		return 2, true
	}
	number, _, _ := strings.Cut(text, ":")
	value, err := strconv.ParseInt(number, 10, 64)
	return value, err == nil
}
