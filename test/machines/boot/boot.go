// Package boot describes what a machine does when it starts: the file that its init reads.
package boot

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Config is a machine's boot configuration. Paths on the machine are paths below its own root.
type Config struct {
	Hostname string `json:"hostname"`
	// Cgroups are the machine's folders in the host's cgroup hierarchies; init moves itself there.
	Cgroups []string `json:"cgroups"`
	// Binds are folders and files of the host that appear on the machine.
	Binds []Bind `json:"binds"`
	// Services are started once the network is up, in order, and started again when they end.
	Services []Service `json:"services"`
}

// Bind is a folder or file of the host that appears on the machine.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Service is one program that the machine keeps running.
type Service struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	// Socket is a unix socket on the machine. Init waits for it before it starts the next service.
	Socket string `json:"socket,omitempty"`
}

// RestartDelay is how long init waits before it starts a service again, as systemd's units of
// containerd and the kubelet do.
const RestartDelay = time.Second

// Uplink is the name of a machine's network interface.
const Uplink = "eth0"

// Write writes the configuration to a file.
func (c Config) Write(path string) error {
	encoded, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the boot configuration: %w", err)
	}
	return os.WriteFile(path, encoded, 0o600)
}

// Read reads the configuration from a file.
func Read(path string) (Config, error) {
	var c Config
	content, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, fmt.Errorf("decoding the boot configuration %s: %w", path, err)
	}
	return c, nil
}
