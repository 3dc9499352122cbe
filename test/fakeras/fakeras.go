// Package fakeras is the RAS service of NCCL without NCCL. It counts the collective operations that a test or a program reports to it, and answers by the protocol and in the
// JSON of src/ras/client_support.cc of github.com/NVIDIA/nccl, 2.28.7 to 2.30.7. It knows no fault: a rank that hangs launches nothing, and a process that
// is stopped no longer answers the mesh.
package fakeras

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// Operations are those that NCCL counts, in the order of its answers.
var Operations = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}

// Process is one of the mesh.
type Process struct {
	Host string
	PID  int
}

// Mesh is what the processes of a job know of each other.
type Mesh struct {
	// Version is that of NCCL. 2.28 forgets a comma in the ranks that are missing.
	Version string
	// Text is the whole answer of a version without JSON; empty for one with it.
	Text string

	mu            sync.Mutex
	communicators []*Communicator
	silent        map[Process]bool
	queries       int
	live          map[int]*live // by their ranks
	listeners     []net.Listener
}

// Communicator has a process for each of its ranks.
type Communicator struct {
	mesh    *Mesh
	members []Process
	counts  []map[string]uint64
	left    map[int]bool
}

// New is a mesh of NCCL 2.28.9 without communicators.
func New() *Mesh {
	return &Mesh{Version: "2.28.9", silent: map[Process]bool{}, live: map[int]*live{}}
}

// Communicator adds one.
func (m *Mesh) Communicator(members ...Process) *Communicator {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Communicator{mesh: m, members: members, left: map[int]bool{}}
	for range members {
		c.counts = append(c.counts, map[string]uint64{})
	}
	m.communicators = append(m.communicators, c)
	return c
}

// Launch has ranks launch an operation once more; all of them where none is named.
func (c *Communicator) Launch(operation string, ranks ...int) {
	c.mesh.mu.Lock()
	defer c.mesh.mu.Unlock()
	for rank := range c.counts {
		if len(ranks) == 0 {
			c.counts[rank][operation]++
		}
	}
	for _, rank := range ranks {
		c.counts[rank][operation]++
	}
}

// Leave has a rank no longer be a member of the communicator.
func (c *Communicator) Leave(rank int) {
	c.mesh.mu.Lock()
	defer c.mesh.mu.Unlock()
	c.left[rank] = true
}

// Silence has a process no longer answer the mesh. Dead is what the mesh thinks of it after a minute.
func (m *Mesh) Silence(p Process, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent[p] = dead
}

// Queries is how often the mesh was asked.
func (m *Mesh) Queries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queries
}

// Serve answers clients until the end of the test, and returns the address.
func (m *Mesh) Serve(t testing.TB) string {
	t.Helper()
	return m.ServeAt(t, "127.0.0.1:0")
}

// ServeAt is Serve at an address.
func (m *Mesh) ServeAt(t testing.TB, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.listeners = append(m.listeners, listener)
	m.mu.Unlock()
	t.Cleanup(m.Close)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go m.answer(client)
		}
	}()
	return listener.Addr().String()
}

// answer follows one client, whose commands have no case.
func (m *Mesh) answer(client net.Conn) {
	defer client.Close()
	json := false
	for commands := bufio.NewScanner(client); commands.Scan(); {
		command := strings.ToLower(strings.TrimSuffix(commands.Text(), "\r"))
		switch {
		case strings.HasPrefix(command, "{"):
			m.join(client, commands)
			return
		case strings.HasPrefix(command, "client protocol "):
			fmt.Fprint(client, "SERVER PROTOCOL 2\n")
		case strings.HasPrefix(command, "timeout "):
			fmt.Fprint(client, "OK\n")
		case command == "set format json" && m.Text == "":
			json = true
			fmt.Fprint(client, "OK\n")
		case command == "status" || command == "verbose status":
			if json {
				fmt.Fprint(client, m.JSON())
			} else {
				m.mu.Lock()
				m.queries++
				m.mu.Unlock()
				fmt.Fprint(client, m.Text)
			}
			return
		default:
			fmt.Fprintf(client, "ERROR: Unknown command %s\n", commands.Text())
		}
	}
}

// JSON is the answer to a query.
func (m *Mesh) JSON() string {
	m.ask()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queries++
	var all []string
	for i, c := range m.communicators {
		all = append(all, c.json(i))
	}
	return fmt.Sprintf(`{
  "nccl_version": %q,
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2026-01-02 03:04:05",
  "communicators_count": %d,
  "communicators": [
%s
  ],
  "ras": {
    "collection_time_sec": 0.001,
    "timeouts_count": 0
  }
}
`, m.Version, len(all), strings.Join(all, ",\n"))
}

func (c *Communicator) json(index int) string {
	var heard, missing []string
	for i, p := range c.members {
		if c.left[i] {
			continue
		}
		dead, silent := c.mesh.silent[p]
		text := fmt.Sprintf("        {\n          \"rank\": %d,\n          \"host\": %q,\n          \"pid\": %d,\n          \"cuda_dev\": %d,\n          \"nvml_dev\": %[4]d", i, p.Host, p.PID, i%8)
		if silent {
			if !strings.HasPrefix(c.mesh.Version, "2.28.") {
				text += ","
			}
			missing = append(missing, text+fmt.Sprintf("\n          \"status\": {\n            \"unresponsive\": true,\n            \"considered_dead\": %v\n          }\n        }", dead))
			continue
		}
		var counts []string
		for _, operation := range Operations {
			counts = append(counts, fmt.Sprintf("            %q: %d", operation, c.counts[i][operation]))
		}
		heard = append(heard, text+`,
          "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
`+strings.Join(counts, ",\n")+"\n          }\n        }")
	}
	return fmt.Sprintf("    {\n      \"hash\": \"0x%x\",\n      \"secondary_hash\": \"0x1:0x2\",\n      \"size\": %d,\n      \"ranks_count\": %d,\n      \"missing_ranks_count\": %d,\n      \"ranks\": [\n%s\n      ],\n      \"missing_ranks\": [\n%s\n      ]\n    }",
		0xae94423cfbb2ef00+uint64(index), len(c.members), len(heard), len(missing), strings.Join(heard, ",\n"), strings.Join(missing, ",\n"))
}
